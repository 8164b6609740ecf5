"""The owner's part of the consumer protocol: in which order, what waits for a name, and what comes out of its calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

import pytest

from kclient.consumer.group.consumer_protocol.states import ConsumerState
from kclient.consumer.group.events import Target
from kclient.errors import IllegalStateError, InvalidRegularExpressionError, TopicAuthorizationError
from kclient.net.operation import Operation
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.types import TopicPartition
from tests.support.engines.consumer_groups import ConsumerCluster
from tests.support.engines.groups import Owner
from tests.support.engines.network import Simulation, with_api_versions


class Case:
    """One member of a group, and what happened in which order."""

    def __init__(self, **options: Any) -> None:
        self.simulation = Simulation(1)
        self.cluster = ConsumerCluster(self.simulation, t=4, u=2)
        self.did: list[str] = []
        self.owners: list[Owner] = []
        self.owner = self.join(**options)
        self.run(lambda: len(self.owner.owned) == 4 and self.state is ConsumerState.STABLE)
        self.note(self.owner)

    def join(self, topics: Any = "t", **options: Any) -> Owner:
        owner = Owner(self.simulation, topics, group_protocol="consumer", **options)
        self.owners.append(owner)
        return owner

    def note(self, owner: Owner) -> None:
        member: Any = owner.group.member
        commit, reconciled, listener = owner.commit_before_rebalance, member.reconciled, owner.listener

        def committed(deadline: float) -> Operation[bool]:
            done = yield from commit(deadline)
            if done:
                self.did.append("commit")
            return done

        def acknowledged(*arguments: Any) -> None:
            self.did.append("acknowledge")
            reconciled(*arguments)

        def heard(kind: str) -> Any:
            method = getattr(listener, f"on_{kind}")

            def hear(partitions: Collection[TopicPartition]) -> None:
                self.did.append(f"{kind} {len(partitions)}")
                method(partitions)

            return hear

        owner.commit_before_rebalance = committed  # type: ignore[method-assign]
        member.reconciled = acknowledged
        for kind in ("assigned", "revoked", "lost"):
            setattr(listener, f"on_{kind}", heard(kind))

    @property
    def state(self) -> Any:
        return self.owner.group.member.state

    def answer_with(self, answer: Callable[[Any], Any]) -> None:
        """Answer heartbeats and metadata like this, where that is not None."""
        for node in (1, 2, 3):

            def both(request: Any, version: int, node: int = node) -> Any:
                return answer(request) or self.cluster.answer(node, request, version)

            self.simulation.brokers[f"b{node}"] = with_api_versions(both)

    def fail(self, code: int) -> None:
        """Fail the owner's next heartbeat."""
        codes = [code]
        generation = self.owner.group.member.generation_now()
        assert generation is not None

        def failing(request: Any) -> Any:
            heartbeat = isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_id == generation.member_id
            return ConsumerGroupHeartbeatResponse(error_code=codes.pop()) if heartbeat and codes else None

        self.answer_with(failing)

    def run(self, condition: Callable[[], object], seconds: float = 30) -> None:
        def polled() -> bool:
            for owner in self.owners:
                owner.poll(0.5)
            return bool(condition())

        self.simulation.run(seconds, until=polled)
        assert condition()


def test_what_goes_is_committed_and_told_before_it_is_acknowledged_and_nothing_else_moves() -> None:
    case = Case()
    case.join()
    case.run(lambda: len(case.owner.owned) == 2 and case.state is ConsumerState.STABLE)
    assert case.did == ["commit", "revoked 2", "assigned 0", "acknowledge"]


def test_what_comes_needs_no_commit() -> None:
    case = Case()
    case.owner.subscribe(["t", "u"])
    case.run(lambda: len(case.owner.owned) == 6 and case.state is ConsumerState.STABLE)
    # What has no name yet is acknowledged later.
    assert case.did[-2:] == ["assigned 2", "acknowledge"]
    assert set(case.did[:-2]) <= {"acknowledge"}


def test_a_name_that_is_never_found_is_not_looked_up_any_more_once_the_member_has_left() -> None:
    case = Case()
    nameless = UUID(int=77)
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        if isinstance(request, MetadataRequest) and any(one.topic_id == nameless for one in request.topics or ()):
            asked.append(request)
            return MetadataResponse()
        return None

    case.answer_with(answer)
    coordination, membership = case.owner.group.coordination, case.owner.group.member.membership
    case.owner.group.mailbox.put(Target(coordination._number, membership, 9, {nameless: (0,)}))
    case.run(lambda: len(asked) > 2)
    leaving: Any = coordination.leave(case.simulation.now + 5, tell=True, reason="")
    case.owner._running = leaving
    case.simulation.run(5, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    asked.clear()
    case.simulation.run(20)
    assert not asked


def test_topic_without_a_name_waits_for_it_and_holds_up_nothing_else() -> None:
    case = Case()
    asked: list[UUID] = []

    def nameless(request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            return None
        asked.extend(topic.topic_id for topic in request.topics or () if topic.name is None)
        response: Any = case.cluster._metadata(request)
        response.topics = [topic for topic in response.topics if topic.name != "v"]
        return response

    case.answer_with(nameless)
    case.cluster.topics["v"] = 2
    case.cluster.ids["v"] = UUID(int=9)
    case.owner.subscribe(["u", "v"])
    case.run(lambda: {tp.topic for tp in case.owner.owned} == {"u"})
    case.simulation.run(5.0)
    case.owner.poll()
    assert case.state is ConsumerState.RECONCILING
    assert case.did[:2] == ["commit", "revoked 4"]
    assert UUID(int=9) in asked
    case.answer_with(lambda request: None)
    case.run(lambda: len(case.owner.owned) == 4 and case.state is ConsumerState.STABLE)
    assert {tp.topic for tp in case.owner.owned} == {"u", "v"}


def test_loss_is_told_dropped_and_joined_anew() -> None:
    case = Case()
    case.fail(25)
    case.run(lambda: "acknowledge" in case.did)
    assert case.did == ["lost 4", "assigned 4", "acknowledge"]
    assert not case.owner.errors


def test_loss_while_a_target_is_worked_on_ends_that() -> None:
    case = Case()
    endless = True
    commit = case.owner.commit_before_rebalance

    def slow(deadline: float) -> Operation[bool]:
        return False if endless else (yield from commit(deadline))

    case.owner.commit_before_rebalance = slow  # type: ignore[method-assign]
    case.join()
    case.run(lambda: case.state is ConsumerState.RECONCILING)
    case.fail(110)
    case.run(lambda: case.state is not ConsumerState.RECONCILING)
    endless = False
    case.run(lambda: len(case.owner.owned) == 2 and case.state is ConsumerState.STABLE)
    lost = [what for what in case.did if what.startswith("lost")]
    assert sum(int(what.split()[1]) for what in lost) == 4
    assert not any(what.startswith("revoked") for what in case.did)


def test_end_is_raised_by_every_call_until_the_owner_unsubscribes() -> None:
    case = Case()
    case.fail(InvalidRegularExpressionError.code)
    case.run(lambda: case.state is ConsumerState.FATAL)
    for _ in range(3):
        case.owner.poll()
    assert len(case.owner.errors) >= 3
    assert {type(error) for error in case.owner.errors} == {InvalidRegularExpressionError}
    assert case.did == ["lost 4"]
    assert not case.owner.owned


def test_forbidden_topic_is_raised_and_what_it_has_is_read_on() -> None:
    case = Case()
    case.fail(TopicAuthorizationError.code)
    case.run(lambda: case.owner.errors)
    case.run(lambda: case.owner.poll() is True)
    assert [type(error) for error in case.owner.errors] == [TopicAuthorizationError]
    assert not case.did
    assert len(case.owner.owned) == 4


def test_listener_that_raises_stops_nothing() -> None:
    case = Case()
    assigned = case.owner.listener.on_assigned

    def fails(partitions: Collection[TopicPartition]) -> None:
        assigned(partitions)
        raise TopicAuthorizationError("a listener's own")

    case.owner.listener.on_assigned = fails  # type: ignore[method-assign]
    case.owner.subscribe(["t", "u"])
    case.run(lambda: len(case.owner.owned) == 6 and case.state is ConsumerState.STABLE)
    assert [type(error) for error in case.owner.errors] == [TopicAuthorizationError]


def test_leaving_commits_tells_and_leaves_and_another_subscription_joins() -> None:
    case = Case()
    case.owners.clear()
    case.owner.interrupt()
    leaving = case.owner.group.leave(case.simulation.now + 10, leave_group=None, reason="")
    case.owner._running, case.owner._step = leaving, None  # type: ignore[assignment]
    case.simulation.run(10, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    assert case.did == ["commit", "revoked 4"]
    assert not case.cluster.members
    assert case.state is ConsumerState.UNSUBSCRIBED
    case.owner.subscription.unsubscribe()
    case.owner.subscribe("u")
    case.owners.append(case.owner)
    case.run(lambda: len(case.owner.owned) == 2)


def test_interrupted_reconciliation_goes_on_with_the_next_call() -> None:
    case = Case()
    other = case.join()
    for _ in range(100):
        case.owner.poll()
        case.owner.interrupt()
        other.poll()
        case.simulation.run(0.1)
    assert len(case.owner.owned) == len(other.owned) == 2
    assert [what for what in case.did if what != "commit"] == ["revoked 2", "assigned 0", "acknowledge"]


def test_nobody_enforces_a_rebalance() -> None:
    with pytest.raises(IllegalStateError, match="the coordinator decides"):
        Case().owner.group.coordination.enforce_rebalance("")
