"""Which clients make a loop, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest

import kclient
from kclient import ProducerRecord
from kclient.config import ConsumerConfig, ProducerConfig
from kclient.errors import ConfigError
from kclient.transform import transform
from kclient.transform.checks import check_clients, check_faces, check_functions, check_limits

READS = {"group_id": "g", "enable_auto_commit": False, "isolation_level": "read_committed"}
WRITES = {"transactional_id": "t"}


def check(reads: dict[str, Any], writes: dict[str, Any], *, allow: bool = False) -> None:
    check_clients(ConsumerConfig.from_options(reads), ProducerConfig.from_options(writes), allow_read_uncommitted=allow)


def test_a_member_that_commits_in_transactions_and_reads_what_is_committed_will_do() -> None:
    check(READS, WRITES)


@pytest.mark.parametrize(
    ("reads", "writes", "said"),
    [
        ({**READS, "group_id": None}, WRITES, "needs a group_id"),
        ({**READS, "enable_auto_commit": True}, WRITES, "needs enable_auto_commit=False"),
        ({**READS, "isolation_level": "read_uncommitted"}, WRITES, 'isolation_level="read_committed"'),
        (READS, {}, "needs a transactional_id"),
    ],
    ids=["no group", "automatic commits", "uncommitted records", "no transactional id"],
)
def test_an_option_that_would_count_records_twice_or_never_is_named(
    reads: dict[str, Any], writes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check(reads, writes)


def test_uncommitted_records_are_read_if_that_is_meant() -> None:
    check({**READS, "isolation_level": "read_uncommitted"}, WRITES, allow=True)


@pytest.mark.parametrize(
    ("records", "seconds", "said"),
    [(0, 1.0, "max_records"), (1, -0.1, "max_seconds"), (1, 5.0, r"transaction_timeout_ms \(5000\)")],
)
def test_limits_that_no_batch_can_keep_are_refused(records: int, seconds: float, said: str) -> None:
    config = ProducerConfig.from_options({**WRITES, "transaction_timeout_ms": 5000})
    check_limits(1, 4.9, config)
    with pytest.raises(ConfigError, match=said):
        check_limits(records, seconds, config)


@pytest.mark.parametrize("are_async", [False, True])
def test_clients_of_another_kind_are_refused(are_async: bool) -> None:
    with pytest.raises(TypeError, match="AsyncTransform"):
        check_faces(object(), object(), are_async=are_async)


async def coroutine(record: object) -> None: ...


async def asynchronous_generator(record: object) -> AsyncIterator[ProducerRecord]:
    yield ProducerRecord("out", b"")


@pytest.mark.parametrize(
    "function", [coroutine, asynchronous_generator, pytest.param(partial(coroutine), id="partial")]
)
def test_what_would_have_to_be_awaited_is_refused_before_anything_is_read(function: object) -> None:
    check_functions(function, None, awaits=True)
    with pytest.raises(TypeError, match="AsyncTransform"):
        check_functions(function, None, awaits=False)
    with pytest.raises(TypeError, match="AsyncTransform"):
        check_functions(print, function, awaits=False)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="a function of one record, not 'out'"):
        check_functions("out", awaits=False)


def test_the_module_and_its_function_have_one_name_and_do_not_shadow_each_other() -> None:
    assert callable(transform)
    assert isinstance(kclient.transform, ModuleType)
    assert kclient.transform.transform is transform
