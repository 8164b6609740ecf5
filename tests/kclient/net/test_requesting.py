"""Repeated requests of application calls: which errors make the client look at the cluster again."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.config import AdminConfig
from kclient.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotControllerError,
    RequestTimedOutError,
    TopicExistsError,
)
from kclient.net.backoff import retry_backoff
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation, Pause
from kclient.net.requesting import Requester


class Engine:
    """A clock that only pauses move, and a count of requests for metadata."""

    def __init__(self) -> None:
        self.now = 0.0
        self.updates = 0
        self.metadata: Any = SimpleNamespace(request_update=self._update)

    def clock(self) -> float:
        return self.now

    def _update(self) -> None:
        self.updates += 1


def repeated(*errors: KafkaError) -> tuple[Engine, str]:
    """Run an operation that fails with each of these errors, and then succeeds."""
    engine: Any = Engine()
    config = AdminConfig.from_options({"bootstrap_servers": "localhost:9092"})
    requester = Requester(engine, retry_backoff(config, random.Random(1)), 30.0)
    left = list(errors)

    def attempt() -> Operation[str]:
        yield from ()
        if left:
            raise left.pop(0)
        return "done"

    operation = requester.retry(attempt, Deadline("a call", 60.0, lambda: None, engine.clock))
    try:
        while True:
            pause = next(operation)
            assert isinstance(pause, Pause)
            assert pause.seconds is not None
            engine.now += pause.seconds
    except StopIteration as stop:
        return engine, stop.value


@pytest.mark.parametrize(
    ("error", "updates"),
    [(LeaderNotAvailableError(), 1), (NotControllerError(), 1), (RequestTimedOutError(), 0)],
    ids=["leader", "controller", "timeout"],
)
def test_metadata_are_requested_again_when_something_has_moved(error: KafkaError, updates: int) -> None:
    engine, result = repeated(error)
    assert (result, engine.updates) == ("done", updates)
    assert engine.now > 0, "the request was repeated without a pause"


def test_what_cannot_pass_is_raised_at_once() -> None:
    with pytest.raises(TopicExistsError):
        repeated(TopicExistsError())
