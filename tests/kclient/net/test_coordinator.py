"""Finding a coordinator: asked when wanted, again when it moves, and never in a storm."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from kclient.config import ClientConfig
from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    GroupAuthorizationError,
    KafkaError,
    NotCoordinatorError,
    ProtocolError,
)
from kclient.net.coordinator import GROUP, TRANSACTION, Coordinator
from kclient.net.manager import ANY_NODE, NEVER, Request
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.types import Node
from tests.support.typed import reread


class Nodes:
    """Connections that are there unless a test says otherwise; second ones have ids from 1000 on."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.backoff_until = 0.0
        self.dedicated: list[Node] = []
        self.unreachable: KafkaError | None = None

    def ready(self, node: int, now: float) -> bool:
        return node not in self.down

    def retry_at(self, node: int) -> float:
        return self.backoff_until

    def connection_error(self, node: int, since: float | None = None) -> DisconnectedError | None:
        return DisconnectedError() if node in self.down else None

    def last_error(self) -> KafkaError | None:
        return self.unreachable

    def dedicate(self, node: Node) -> int:
        self.dedicated.append(node)
        return 1_000 + node.node_id


class CoordinatorLookup:
    def __init__(self, key_type: int = GROUP) -> None:
        self.nodes = Nodes()
        self.now = 100.0
        self.coordinator = Coordinator("g", key_type, self.nodes, ClientConfig(), random=random.Random(1))  # type: ignore[arg-type]

    def asked(self) -> Request | None:
        requests = self.coordinator.poll(self.now).requests
        return requests[0] if requests else None

    def found(self, request: Request, node: int = 1, error_code: int = 0, key: str = "g") -> None:
        answer = FindCoordinatorResponse.Coordinator(key=key, node_id=node, host="h", port=9, error_code=error_code)
        request.on_response(FindCoordinatorResponse(coordinators=[answer]), self.now)


def must(request: Request | None) -> Request:
    assert request is not None
    assert request.node == ANY_NODE
    return request


def test_nobody_is_asked_before_somebody_wants_to_know() -> None:
    lookup = CoordinatorLookup()
    assert lookup.asked() is None
    assert not lookup.coordinator.ready(lookup.now)
    request = must(lookup.asked())
    assert lookup.asked() is None  # one at a time
    lookup.found(request, 3)
    assert (lookup.coordinator.node, lookup.coordinator.broker) == (1_003, 3)
    assert lookup.nodes.dedicated == [Node(3, "h", 9)]
    assert lookup.coordinator.ready(lookup.now)
    assert lookup.coordinator.poll(lookup.now) == ([], NEVER)


@pytest.mark.parametrize(("key_type", "version"), [(GROUP, 0), (GROUP, 3), (TRANSACTION, 3), (GROUP, 4), (GROUP, 6)])
def test_one_coordinator_key_is_encoded_as_the_version_requires(key_type: int, version: int) -> None:
    lookup = CoordinatorLookup(key_type)
    lookup.coordinator.want()
    request = must(lookup.asked())
    message: Any = request.build(version)
    again = FindCoordinatorRequest.decode(message.encode(version), version)
    assert again.key_type == key_type
    assert (again.key, again.coordinator_keys) == (("", ["g"]) if version >= 4 else ("g", []))
    assert request.minimum_version == (1 if key_type else None)


def test_answer_before_version_4_has_no_list() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    must(lookup.asked()).on_response(FindCoordinatorResponse(node_id=2, host="h", port=9), lookup.now)
    assert lookup.coordinator.broker == 2


def test_coordinator_that_declines_again_and_again_is_looked_up_at_growing_intervals() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    times = []
    for _ in range(12):
        while (request := lookup.asked()) is None:
            lookup.now = lookup.coordinator.poll(lookup.now).deadline
        times.append(lookup.now)
        lookup.found(request)
        lookup.coordinator.forget(1_001, NotCoordinatorError(), lookup.now)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert 0.08 <= waits[0] <= 0.12
    assert all(wait >= 0.8 for wait in waits[5:])
    while (request := lookup.asked()) is None:
        lookup.now = lookup.coordinator.poll(lookup.now).deadline
    lookup.found(request)
    lookup.coordinator.confirm()
    lookup.coordinator.forget(1_001, NotCoordinatorError(), lookup.now)
    assert lookup.coordinator.poll(lookup.now).deadline - lookup.now <= 0.12


def test_an_error_of_an_earlier_coordinator_changes_nothing() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    lookup.found(must(lookup.asked()), 2)
    lookup.coordinator.forget(1_001, NotCoordinatorError(), lookup.now)
    assert lookup.coordinator.node == 1_002


def test_lost_connection_gives_it_up_once_connecting_again_has_failed() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    lookup.found(must(lookup.asked()))
    lookup.nodes.down.add(1_001)
    lookup.asked()
    assert lookup.coordinator.node == 1_001  # it is being tried
    lookup.nodes.backoff_until = lookup.now + 1
    deadline = lookup.coordinator.poll(lookup.now).deadline
    assert reread(lookup.coordinator.node) is None
    assert isinstance(lookup.coordinator.last_error, DisconnectedError)
    lookup.now = deadline
    must(lookup.asked())


def test_retriable_errors_and_lost_answers_are_asked_again() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    lookup.found(must(lookup.asked()), error_code=15)
    assert lookup.asked() is None
    lookup.now += 1
    must(lookup.asked()).on_error(DisconnectedError(), lookup.now)
    lookup.now += 1
    lookup.found(must(lookup.asked()))
    assert lookup.coordinator.node == 1_001


def test_error_that_is_final_ends_the_search_until_somebody_wants_it_again() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    lookup.found(must(lookup.asked()), error_code=GroupAuthorizationError.code)
    assert isinstance(lookup.coordinator.fatal_error, GroupAuthorizationError)
    lookup.now += 10
    lookup.coordinator.ready(lookup.now)
    assert lookup.asked() is None
    lookup.coordinator.want()
    assert reread(lookup.coordinator.fatal_error) is None
    must(lookup.asked())


def test_answer_about_another_key_is_an_error() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    lookup.found(must(lookup.asked()), key="other")
    assert lookup.coordinator.node is None
    assert isinstance(lookup.coordinator.last_error, ProtocolError)


def test_while_no_broker_can_be_reached_that_is_why_the_coordinator_is_not_known() -> None:
    lookup = CoordinatorLookup()
    lookup.coordinator.want()
    request = must(lookup.asked())
    refused = BrokerConnectionError("h", 9, "refused")
    lookup.nodes.unreachable = refused
    assert lookup.coordinator.last_error is refused
    lookup.nodes.unreachable = None
    assert reread(lookup.coordinator.last_error) is None
    lookup.found(request)
    lookup.coordinator.forget(1_001, NotCoordinatorError(), lookup.now)
    lookup.nodes.unreachable = refused
    assert lookup.coordinator.last_error is refused
    lookup.nodes.unreachable = None
    assert isinstance(lookup.coordinator.last_error, NotCoordinatorError)
