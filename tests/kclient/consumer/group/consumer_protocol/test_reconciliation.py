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


class ReconcilingMember:
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


def test_revoked_partitions_are_committed_and_reported_before_the_acknowledgement() -> None:
    reconciling = ReconcilingMember()
    reconciling.join()
    reconciling.run(lambda: len(reconciling.owner.owned) == 2 and reconciling.state is ConsumerState.STABLE)
    assert reconciling.did == ["commit", "revoked 2", "assigned 0", "acknowledge"]


def test_what_comes_needs_no_commit() -> None:
    reconciling = ReconcilingMember()
    reconciling.owner.subscribe(["t", "u"])
    reconciling.run(lambda: len(reconciling.owner.owned) == 6 and reconciling.state is ConsumerState.STABLE)
    # What has no name yet is acknowledged later.
    assert reconciling.did[-2:] == ["assigned 2", "acknowledge"]
    assert set(reconciling.did[:-2]) <= {"acknowledge"}


def test_a_name_that_is_never_found_is_no_longer_looked_up_once_the_member_has_left() -> None:
    reconciling = ReconcilingMember()
    nameless = UUID(int=77)
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        if isinstance(request, MetadataRequest) and any(one.topic_id == nameless for one in request.topics or ()):
            asked.append(request)
            return MetadataResponse()
        return None

    reconciling.answer_with(answer)
    coordination, membership = reconciling.owner.group.coordination, reconciling.owner.group.member.membership
    reconciling.owner.group.mailbox.put(Target(coordination._number, membership, 9, {nameless: (0,)}))
    reconciling.run(lambda: len(asked) > 2)
    leaving: Any = coordination.leave(reconciling.simulation.now + 5, tell=True, reason="")
    reconciling.owner._running = leaving
    reconciling.simulation.run(
        5, until=lambda: reconciling.owner.poll() is not None or reconciling.owner._running is None
    )
    asked.clear()
    reconciling.simulation.run(20)
    assert not asked


def test_a_topic_id_without_a_known_name_waits_and_delays_no_other() -> None:
    reconciling = ReconcilingMember()
    asked: list[UUID] = []

    def nameless(request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            return None
        asked.extend(topic.topic_id for topic in request.topics or () if topic.name is None)
        response: Any = reconciling.cluster._metadata(request)
        response.topics = [topic for topic in response.topics if topic.name != "v"]
        return response

    reconciling.answer_with(nameless)
    reconciling.cluster.topics["v"] = 2
    reconciling.cluster.ids["v"] = UUID(int=9)
    reconciling.owner.subscribe(["u", "v"])
    reconciling.run(lambda: {tp.topic for tp in reconciling.owner.owned} == {"u"})
    reconciling.simulation.run(5.0)
    reconciling.owner.poll()
    assert reconciling.state is ConsumerState.RECONCILING
    assert reconciling.did[:2] == ["commit", "revoked 4"]
    assert UUID(int=9) in asked
    reconciling.answer_with(lambda request: None)
    reconciling.run(lambda: len(reconciling.owner.owned) == 4 and reconciling.state is ConsumerState.STABLE)
    assert {tp.topic for tp in reconciling.owner.owned} == {"u", "v"}


def test_loss_is_reported_dropped_and_rejoined() -> None:
    reconciling = ReconcilingMember()
    reconciling.fail(25)
    reconciling.run(lambda: "acknowledge" in reconciling.did)
    assert reconciling.did == ["lost 4", "assigned 4", "acknowledge"]
    assert not reconciling.owner.errors


def test_loss_while_a_target_is_worked_on_ends_that() -> None:
    reconciling = ReconcilingMember()
    endless = True
    commit = reconciling.owner.commit_before_rebalance

    def slow(deadline: float) -> Operation[bool]:
        return False if endless else (yield from commit(deadline))

    reconciling.owner.commit_before_rebalance = slow  # type: ignore[method-assign]
    reconciling.join()
    reconciling.run(lambda: reconciling.state is ConsumerState.RECONCILING)
    reconciling.fail(110)
    reconciling.run(lambda: reconciling.state is not ConsumerState.RECONCILING)
    endless = False
    reconciling.run(lambda: len(reconciling.owner.owned) == 2 and reconciling.state is ConsumerState.STABLE)
    lost = [what for what in reconciling.did if what.startswith("lost")]
    assert sum(int(what.split()[1]) for what in lost) == 4
    assert not any(what.startswith("revoked") for what in reconciling.did)


def test_end_is_raised_by_every_call_until_the_owner_unsubscribes() -> None:
    reconciling = ReconcilingMember()
    reconciling.fail(InvalidRegularExpressionError.code)
    reconciling.run(lambda: reconciling.state is ConsumerState.FATAL)
    for _ in range(3):
        reconciling.owner.poll()
    assert len(reconciling.owner.errors) >= 3
    assert {type(error) for error in reconciling.owner.errors} == {InvalidRegularExpressionError}
    assert reconciling.did == ["lost 4"]
    assert not reconciling.owner.owned


def test_forbidden_topic_is_raised_and_what_it_has_is_read_on() -> None:
    reconciling = ReconcilingMember()
    reconciling.fail(TopicAuthorizationError.code)
    reconciling.run(lambda: reconciling.owner.errors)
    reconciling.run(lambda: reconciling.owner.poll() is True)
    assert [type(error) for error in reconciling.owner.errors] == [TopicAuthorizationError]
    assert not reconciling.did
    assert len(reconciling.owner.owned) == 4


def test_listener_that_raises_stops_nothing() -> None:
    reconciling = ReconcilingMember()
    assigned = reconciling.owner.listener.on_assigned

    def fails(partitions: Collection[TopicPartition]) -> None:
        assigned(partitions)
        raise TopicAuthorizationError("a listener's own")

    reconciling.owner.listener.on_assigned = fails  # type: ignore[method-assign]
    reconciling.owner.subscribe(["t", "u"])
    reconciling.run(lambda: len(reconciling.owner.owned) == 6 and reconciling.state is ConsumerState.STABLE)
    assert [type(error) for error in reconciling.owner.errors] == [TopicAuthorizationError]


def test_leaving_commits_tells_and_leaves_and_another_subscription_joins() -> None:
    reconciling = ReconcilingMember()
    reconciling.owners.clear()
    reconciling.owner.interrupt()
    leaving = reconciling.owner.group.leave(reconciling.simulation.now + 10, leave_group=None, reason="")
    reconciling.owner._running, reconciling.owner._step = leaving, None  # type: ignore[assignment]
    reconciling.simulation.run(
        10, until=lambda: reconciling.owner.poll() is not None or reconciling.owner._running is None
    )
    assert reconciling.did == ["commit", "revoked 4"]
    assert not reconciling.cluster.members
    assert reconciling.state is ConsumerState.UNSUBSCRIBED
    reconciling.owner.subscription.unsubscribe()
    reconciling.owner.subscribe("u")
    reconciling.owners.append(reconciling.owner)
    reconciling.run(lambda: len(reconciling.owner.owned) == 2)


def test_interrupted_reconciliation_continues_with_the_next_call() -> None:
    reconciling = ReconcilingMember()
    other = reconciling.join()
    for _ in range(100):
        reconciling.owner.poll()
        reconciling.owner.interrupt()
        other.poll()
        reconciling.simulation.run(0.1)
    assert len(reconciling.owner.owned) == len(other.owned) == 2
    assert [what for what in reconciling.did if what != "commit"] == ["revoked 2", "assigned 0", "acknowledge"]


def test_nobody_enforces_a_rebalance() -> None:
    with pytest.raises(IllegalStateError, match="the coordinator decides"):
        ReconcilingMember().owner.group.coordination.enforce_rebalance("")
