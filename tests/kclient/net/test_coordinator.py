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

    def connection_error(self, node: int) -> DisconnectedError | None:
        return DisconnectedError() if node in self.down else None

    def last_error(self) -> KafkaError | None:
        return self.unreachable

    def dedicate(self, node: Node) -> int:
        self.dedicated.append(node)
        return 1_000 + node.node_id


class Case:
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
    case = Case()
    assert case.asked() is None
    assert not case.coordinator.ready(case.now)
    request = must(case.asked())
    assert case.asked() is None  # one at a time
    case.found(request, 3)
    assert (case.coordinator.node, case.coordinator.broker) == (1_003, 3)
    assert case.nodes.dedicated == [Node(3, "h", 9)]
    assert case.coordinator.ready(case.now)
    assert case.coordinator.poll(case.now) == ([], NEVER)


@pytest.mark.parametrize(("key_type", "version"), [(GROUP, 0), (GROUP, 3), (TRANSACTION, 3), (GROUP, 4), (GROUP, 6)])
def test_one_key_is_asked_for_in_the_form_of_the_version(key_type: int, version: int) -> None:
    case = Case(key_type)
    case.coordinator.want()
    request = must(case.asked())
    message: Any = request.build(version)
    again = FindCoordinatorRequest.decode(message.encode(version), version)
    assert again.key_type == key_type
    assert (again.key, again.coordinator_keys) == (("", ["g"]) if version >= 4 else ("g", []))
    assert request.minimum_version == (1 if key_type else None)


def test_answer_before_version_4_has_no_list() -> None:
    case = Case()
    case.coordinator.want()
    must(case.asked()).on_response(FindCoordinatorResponse(node_id=2, host="h", port=9), case.now)
    assert case.coordinator.broker == 2


def test_coordinator_that_declines_again_and_again_is_looked_up_at_growing_intervals() -> None:
    case = Case()
    case.coordinator.want()
    times = []
    for _ in range(12):
        while (request := case.asked()) is None:
            case.now = case.coordinator.poll(case.now).deadline
        times.append(case.now)
        case.found(request)
        case.coordinator.forget(1_001, NotCoordinatorError(), case.now)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert 0.08 <= waits[0] <= 0.12
    assert all(wait >= 0.8 for wait in waits[5:])
    while (request := case.asked()) is None:
        case.now = case.coordinator.poll(case.now).deadline
    case.found(request)
    case.coordinator.confirm()
    case.coordinator.forget(1_001, NotCoordinatorError(), case.now)
    assert case.coordinator.poll(case.now).deadline - case.now <= 0.12


def test_news_of_an_earlier_coordinator_changes_nothing() -> None:
    case = Case()
    case.coordinator.want()
    case.found(must(case.asked()), 2)
    case.coordinator.forget(1_001, NotCoordinatorError(), case.now)
    assert case.coordinator.node == 1_002


def test_lost_connection_gives_it_up_once_connecting_again_has_failed() -> None:
    case = Case()
    case.coordinator.want()
    case.found(must(case.asked()))
    case.nodes.down.add(1_001)
    case.asked()
    assert case.coordinator.node == 1_001  # it is being tried
    case.nodes.backoff_until = case.now + 1
    deadline = case.coordinator.poll(case.now).deadline
    assert reread(case.coordinator.node) is None
    assert isinstance(case.coordinator.last_error, DisconnectedError)
    case.now = deadline
    must(case.asked())


def test_retriable_errors_and_lost_answers_are_asked_again() -> None:
    case = Case()
    case.coordinator.want()
    case.found(must(case.asked()), error_code=15)
    assert case.asked() is None
    case.now += 1
    must(case.asked()).on_error(DisconnectedError(), case.now)
    case.now += 1
    case.found(must(case.asked()))
    assert case.coordinator.node == 1_001


def test_error_that_is_final_ends_the_search_until_somebody_wants_it_again() -> None:
    case = Case()
    case.coordinator.want()
    case.found(must(case.asked()), error_code=GroupAuthorizationError.code)
    assert isinstance(case.coordinator.fatal_error, GroupAuthorizationError)
    case.now += 10
    case.coordinator.ready(case.now)
    assert case.asked() is None
    case.coordinator.want()
    assert reread(case.coordinator.fatal_error) is None
    must(case.asked())


def test_answer_about_another_key_is_an_error() -> None:
    case = Case()
    case.coordinator.want()
    case.found(must(case.asked()), key="other")
    assert case.coordinator.node is None
    assert isinstance(case.coordinator.last_error, ProtocolError)


def test_while_no_broker_can_be_reached_that_is_why_the_coordinator_is_not_known() -> None:
    case = Case()
    case.coordinator.want()
    request = must(case.asked())
    refused = BrokerConnectionError("h", 9, "refused")
    case.nodes.unreachable = refused
    assert case.coordinator.last_error is refused
    case.nodes.unreachable = None
    assert reread(case.coordinator.last_error) is None
    case.found(request)
    case.coordinator.forget(1_001, NotCoordinatorError(), case.now)
    case.nodes.unreachable = refused
    assert case.coordinator.last_error is refused
    case.nodes.unreachable = None
    assert isinstance(case.coordinator.last_error, NotCoordinatorError)
