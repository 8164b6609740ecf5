"""Calls on many things: what is decided stays decided, whatever happens to the rest."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.admin.core import AdminCore
from kclient.admin.offsets import OffsetSpec, list_offsets
from kclient.config import AdminConfig
from kclient.errors import (
    AdminError,
    ClosedError,
    ConfigError,
    CoordinatorLoadInProgressError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    TopicAuthorizationError,
)
from kclient.net.backoff import retry_backoff
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import finished


class Core(AdminCore):
    """The helpers without an engine."""

    def __init__(self) -> None:
        self.config = AdminConfig.from_options({"bootstrap_servers": "localhost:9092"})
        self.engine: Any = SimpleNamespace(clock=itertools.count().__next__)  # a second passes at each look
        self._backoff = retry_backoff(self.config, random.Random(1))


def keyed(script: list[dict[str, Any] | KafkaError], keys: str) -> Any:
    """Run a call on the keys whose attempts come to what the script says."""
    attempts: Iterator[dict[str, Any] | KafkaError] = iter(script)

    def attempt(pending: list[str]) -> Operation[Any]:
        yield from ()
        outcome = next(attempts)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    return finished(Core().keyed(keys, attempt, Deadline("delete_records", 10, lambda: None, lambda: 0.0)))


def test_results_come_in_the_requested_order_however_many_attempts_they_took() -> None:
    assert list(keyed([{"b": 2, "a": RequestTimedOutError()}, {"a": 1}], "ab").items()) == [("a", 1), ("b", 2)]


def test_a_transient_error_that_arrives_after_the_deadline_is_a_timeout() -> None:
    now = iter([0.0])  # and 10 s later ever after

    def attempt(pending: list[str]) -> Operation[Any]:
        yield from ()
        return {"a": CoordinatorLoadInProgressError(), "b": TopicAuthorizationError(), "c": 3}

    deadline = Deadline("list_group_offsets", 10, lambda: None, lambda: next(now, 10.0))
    with pytest.raises(AdminError) as caught:
        finished(Core().keyed("abc", attempt, deadline))
    late, refused = caught.value.errors["a"], caught.value.errors["b"]
    assert isinstance(late, KafkaTimeoutError)
    assert "list_group_offsets did not finish within 10 s; the last error was: COORDINATOR_LOAD" in str(late)
    assert isinstance(refused, TopicAuthorizationError)
    assert caught.value.results == {"c": 3}


def test_what_succeeded_is_reported_when_the_rest_runs_out_of_time() -> None:
    with pytest.raises(AdminError) as caught:
        keyed([{"a": 1, "b": RequestTimedOutError("slow")}, KafkaTimeoutError("late")], "ab")
    assert caught.value.results == {"a": 1}
    assert isinstance(caught.value.errors["b"], KafkaTimeoutError)
    assert "delete_records did not finish within 10 s; the last error was" in str(caught.value.errors["b"])


def test_what_succeeded_is_reported_when_the_rest_fails_as_a_whole() -> None:
    with pytest.raises(AdminError) as caught:
        keyed([{"a": 1, "b": RequestTimedOutError(), "c": TopicAuthorizationError()}, ClosedError("closed")], "abc")
    assert caught.value.results == {"a": 1}
    assert {key: type(error) for key, error in caught.value.errors.items()} == {
        "b": ClosedError,
        "c": TopicAuthorizationError,
    }


def test_a_call_that_decides_nothing_raises_what_stopped_it() -> None:
    scripts: list[list[dict[str, Any] | KafkaError]] = [
        [ClosedError("closed")],
        [{"a": RequestTimedOutError()}, ClosedError("closed")],
    ]
    for script in scripts:
        with pytest.raises(ClosedError):
            keyed(script, "a")


def test_a_call_that_runs_out_of_time_tells_what_it_waited_for() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"did not finish within 10 s; the last error was: .*still loading"):
        keyed([{"a": CoordinatorLoadInProgressError("still loading")}, KafkaTimeoutError("late")], "a")


def test_a_key_that_runs_out_of_time_tells_what_it_waited_for() -> None:
    def attempt(pending: list[str]) -> Operation[Any]:
        yield from ()
        deadline.at -= 6
        return {"a": KafkaTimeoutError("late") if deadline.passed else CoordinatorLoadInProgressError("still loading")}

    deadline = Deadline("describe_groups", 10, lambda: None, lambda: 0.0)
    with pytest.raises(AdminError) as caught:
        finished(Core().keyed(["a"], attempt, deadline))
    assert "the last error was: COORDINATOR_LOAD_IN_PROGRESS" in str(caught.value.errors["a"])


def test_an_isolation_level_that_does_not_exist_is_named() -> None:
    wanted = {TopicPartition("t", 0): OffsetSpec.LATEST}
    with pytest.raises(ConfigError, match="read_uncommitted or read_committed, not 'serializable'"):
        finished(list_offsets(Core(), wanted, "serializable", Deadline("list_offsets", 1, lambda: None, lambda: 0.0)))
