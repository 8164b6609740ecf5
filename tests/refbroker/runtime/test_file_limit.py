"""The limit of open files is raised as a broker starts, and an error that comes from it says so."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

import pytest

from kclient.errors import KafkaStorageError
from refbroker.log.files import storage_errors
from refbroker.runtime.file_limit import WANTED, raise_file_limit
from refbroker.testing import RefBroker


@pytest.fixture
def low_limit() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    yield low
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def soft_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_low_limit_is_raised_as_far_as_it_may_be(low_limit: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    raise_file_limit()
    assert soft_limit() == (WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard


def test_a_limit_that_the_system_refuses_is_tried_lower(low_limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse_many(which: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        if limits[0] > 10_240:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (low_limit, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse_many)
    raise_file_limit()
    monkeypatch.undo()
    assert asked == [WANTED, 10_240]


def test_a_high_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise AssertionError(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_file_limit()


def test_a_broker_raises_it_as_it_starts(low_limit: int) -> None:
    with RefBroker():
        assert soft_limit() > low_limit


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_error_for_too_many_files_says_what_to_do(number: int) -> None:
    with pytest.raises(KafkaStorageError, match=r"raise the limit of open files \(ulimit -n\)"), storage_errors("open"):
        raise OSError(number, os.strerror(number))
