"""An admin client's core over brokers that answer as a test says: no engine, no waiting, every message encoded."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kclient.admin.core import AdminCore
from kclient.config import AdminConfig
from kclient.errors import KafkaError, UnsupportedVersionError
from kclient.net.backoff import retry_backoff
from kclient.net.cluster import Cluster as KnownCluster
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation, Pause
from kclient.protocol import Message
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

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
        self.engine: Any = SimpleNamespace(
            metadata=SimpleNamespace(cluster=KnownCluster(), request_update=lambda: None)
        )

    def request(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> Operation[Any]:
        yield from ()
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

    def back_off(self, attempts: int, deadline: Deadline, error: KafkaError) -> Operation[None]:
        yield Pause(0.0)


class Cluster:
    """Answers FindCoordinator and Metadata; every other request by the function a test gives for it.

    Parameters:
        homes: which node coordinates a group or a transactional id; node 1 unless said otherwise.
        handlers: by type of request.
    """

    def __init__(self, homes: dict[str, int] | None = None, **handlers: Callable[[int, Any], Answer]) -> None:
        self.homes = homes or {}
        self._handlers = handlers

    def __call__(self, node: int, request: Any) -> Answer:
        kind = type(request).__name__.removesuffix("Request")
        if kind in self._handlers:
            return self._handlers[kind](node, request)
        if isinstance(request, FindCoordinatorRequest):
            return self.find(request)
        assert isinstance(request, MetadataRequest)
        return metadata()

    def find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if not request.coordinator_keys:
            return FindCoordinatorResponse(node_id=self.homes.get(request.key, 1), host="h", port=1)
        kind = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                kind(key=key, node_id=self.homes.get(key, 1), host="h", port=1) for key in request.coordinator_keys
            ]
        )


def metadata(topics: tuple[str, ...] = ()) -> MetadataResponse:
    """Two brokers, and topics of two partitions that broker 1 leads."""
    kind = MetadataResponse
    return kind(
        brokers=[kind.MetadataResponseBroker(node_id=node, host="h", port=node) for node in (1, 2)],
        topics=[
            kind.MetadataResponseTopic(
                name=topic,
                partitions=[
                    kind.MetadataResponsePartition(
                        partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1]
                    )
                    for number in range(2)
                ],
            )
            for topic in topics
        ],
    )


def nodes_asked(core: ScriptedCore, kind: type[Message]) -> list[int]:
    return [node for node, request, _ in core.asked if isinstance(request, kind)]


def finished(operation: Operation[Any]) -> Any:
    """The result of an operation that waits for nothing but pauses, which take no time here."""
    try:
        while True:
            assert isinstance(next(operation), Pause)
    except StopIteration as stop:
        return stop.value


def soon(name: str = "a call") -> Deadline:
    """A deadline that does not pass."""
    return Deadline(name, 1000, lambda: None, lambda: 0.0)
