"""An admin client's core over a broker that answers as a test says: no engine, no waiting, every message encoded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kclient.admin.core import AdminCore
from kclient.admin.deadline import Deadline
from kclient.config import AdminConfig
from kclient.errors import KafkaError, UnsupportedVersionError
from kclient.net.backoff import retry_backoff
from kclient.net.operation import Operation, Pause
from kclient.protocol import Message

Answer = Message | KafkaError


class ScriptedCore(AdminCore):
    """The helpers over a script.

    Parameters:
        answer: gives the answer to a request that was sent to a node.
        newest: the highest version of some requests that the broker knows; -1 if it does not know them at all.

    Attributes:
        asked: every request so far, with the node and the version.
    """

    def __init__(self, answer: Callable[[int, Any], Answer], newest: dict[type[Message], int] | None = None) -> None:
        self.config = AdminConfig.from_options({"bootstrap_servers": "localhost:9092"})
        self._backoff = retry_backoff(self.config, random.Random(1))
        self._answer = answer
        self._newest = newest or {}
        self.asked: list[tuple[int, Message, int]] = []

    def request(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> Operation[Any]:
        known = self._newest.get(request_type, request_type.max_version)
        version = known if maximum_version is None else min(known, maximum_version)
        if version < (minimum_version or 0):
            raise UnsupportedVersionError(f"the broker does not have {request_type.__name__}")
        request = request_type.decode(build(version).encode(version), version)
        self.asked.append((node, request, version))
        answer = self._answer(node, request)
        if isinstance(answer, KafkaError):
            raise answer
        return type(answer).decode(answer.encode(version), version)
        yield

    def back_off(self, attempts: int, deadline: Deadline, error: KafkaError) -> Operation[None]:
        yield Pause(0.0)


def finished(operation: Operation[Any]) -> Any:
    """The result of an operation that waits for nothing but pauses, which take no time here."""
    try:
        while True:
            assert isinstance(next(operation), Pause)
    except StopIteration as stop:
        return stop.value


def soon(name: str = "a call") -> Deadline:
    """A deadline that does not pass."""
    return Deadline(name, 1000, lambda: None)
