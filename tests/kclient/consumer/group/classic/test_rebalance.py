"""The owner's part: in which order, what is interrupted, and what comes out of the application's calls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kclient.consumer.group.classic.states import MemberState
from kclient.consumer.group.events import Assigned, Lead
from kclient.errors import CommitFailedError, IllegalStateError, KafkaError, RebalanceInProgressError, WakeupError
from kclient.net.operation import Operation
from kclient.types import TopicPartition
from tests.support.engines.groups import GroupCluster, Owner
from tests.support.engines.network import Simulation


class Case:
    """One member of a group, and what happened in which order."""

    def __init__(self, strategy: Any = "range", **options: Any) -> None:
        self.simulation = Simulation(1)
        self.cluster = GroupCluster(self.simulation, t=4, u=2)
        self.owner = Owner(self.simulation, partition_assignment_strategy=strategy, **options)
        self.did: list[str] = []
        self.run(lambda: len(self.owner.owned) == 4)
        owner, member = self.owner, self.owner.group.member
        commit, join, listener = owner.commit_before_rebalance, member.join, owner.listener

        def committed(deadline: float) -> Operation[bool]:
            done = yield from commit(deadline)
            if done:
                self.did.append("commit")
            return done

        def joined(data: Any) -> None:
            self.did.append("join")
            join(data)

        def heard(kind: str) -> Any:
            method = getattr(listener, f"on_{kind}")

            def hear(partitions: Collection[TopicPartition]) -> None:
                self.did.append(kind)
                method(partitions)

            return hear

        owner.commit_before_rebalance = committed  # type: ignore[method-assign]
        member.join = joined  # type: ignore[method-assign]
        for kind in ("assigned", "revoked", "lost"):
            setattr(listener, f"on_{kind}", heard(kind))

    def run(self, condition: Any, seconds: float = 30) -> None:
        self.simulation.run(seconds, until=lambda: self.owner.poll(0.5) is True and bool(condition()))
        assert condition()

    @property
    def coordination(self) -> Any:
        return self.owner.group.coordination


def test_eager_member_commits_then_revokes_then_joins() -> None:
    case = Case()
    case.coordination.enforce_rebalance("")
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["commit", "revoked", "join", "assigned"]


def test_rebalance_that_is_enforced_while_one_is_under_way_follows_it() -> None:
    case = Case()
    case.coordination.enforce_rebalance("first")
    member = case.owner.group.member
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is not None and member.state is MemberState.PREPARING)
    assert case.did == ["commit", "revoked", "join"]
    case.coordination.enforce_rebalance("second")
    case.coordination.enforce_rebalance("third")
    case.run(lambda: case.did.count("assigned") == 2)
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is None and False)
    assert case.did == ["commit", "revoked", "join", "assigned"] * 2


def test_rebalance_that_is_enforced_before_the_member_joins_is_the_one_it_joins_for() -> None:
    case = Case()
    case.coordination.enforce_rebalance("first")
    assert case.owner.poll(1.0) is None  # the commit is under way
    case.coordination.enforce_rebalance("second")
    case.run(lambda: "assigned" in case.did)
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is None and False)
    assert case.did == ["commit", "revoked", "join", "assigned"]


def test_cooperative_member_revokes_nothing_that_stays() -> None:
    case = Case("cooperative-sticky")
    case.coordination.enforce_rebalance("")
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["commit", "join", "assigned"]


def test_cooperative_member_revokes_what_it_no_longer_subscribes_to_before_it_joins() -> None:
    case = Case("cooperative-sticky")
    case.owner.subscribe(["u"])
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["commit", "revoked", "join", "assigned"]
    assert {tp.topic for tp in case.owner.owned} == {"u"}


def test_commit_that_fails_for_good_does_not_keep_the_group_waiting() -> None:
    case = Case()

    def fails(deadline: float) -> Operation[bool]:
        raise CommitFailedError("it was forgotten")
        yield

    case.owner.commit_before_rebalance = fails  # type: ignore[method-assign]
    case.coordination.enforce_rebalance("")
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["revoked", "join", "assigned"]


def test_commit_that_does_not_end_is_given_up_after_a_while_and_no_record_is_handed_out_meanwhile() -> None:
    case = Case(default_api_timeout_ms=5_000)

    def endless(deadline: float) -> Operation[bool]:
        return False
        yield

    case.owner.commit_before_rebalance = endless  # type: ignore[method-assign]
    case.coordination.enforce_rebalance("")
    began = case.simulation.now
    while case.owner.poll() is False:
        case.simulation.run(0.5)
    assert 4.0 <= case.simulation.now - began <= 6.0
    case.run(lambda: "assigned" in case.did)


def test_step_that_was_interrupted_goes_on_where_it_was() -> None:
    case = Case()
    case.coordination.enforce_rebalance("")
    assert case.owner.poll(1.0) is None  # the commit is under way
    case.owner.interrupt()
    assert case.did == []
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["commit", "revoked", "join", "assigned"]


def test_events_of_an_earlier_join_have_no_effect() -> None:
    case = Case()
    generation = case.owner.group.member.generation_now()
    assert generation is not None
    case.coordination.on_event(Lead(0, generation, [], skip=False))
    assert case.owner.poll() is True
    assert case.did == []


def test_leader_that_cannot_read_a_member_says_so_and_begins_again() -> None:
    case = Case()
    case.coordination.enforce_rebalance("")
    simulation, member = case.simulation, case.owner.group.member
    events = case.coordination._events
    simulation.run(
        30, until=lambda: (bool(events) and isinstance(events[0], Lead)) or (case.owner.poll(0.5) is None and False)
    )
    lead = events.popleft()
    events.append(lead._replace(members=[lead.members[0]._replace(metadata=b"\x00")]))
    assert case.owner.poll() is None
    assert "must begin with a version" in str(case.owner.errors[-1])
    case.run(lambda: member.generation_now() is not None and len(case.owner.owned) == 4)


def test_leader_whose_assignor_fails_leaves_the_group_at_once_when_it_closes() -> None:
    case = Case()
    assignor = case.coordination.strategy.assignors["range"]

    def fails(*arguments: Any) -> Any:
        raise CommitFailedError("an assignor's own")

    assignor.assign = fails
    case.coordination.enforce_rebalance("")
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is None and bool(case.owner.errors))
    assert case.cluster.turn.groups["g"].members
    case.owner._running = case.coordination.leave(case.simulation.now + 5, tell=True, reason="a test")
    case.simulation.run(1, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    assert not case.cluster.turn.groups["g"].members


def test_assignor_that_fails_when_it_hears_of_the_assignment_takes_nothing_from_it() -> None:
    case = Case()
    error: KafkaError = CommitFailedError("an assignor's own")

    def fails(*arguments: Any) -> None:
        raise error

    case.coordination.strategy.assignors["range"].on_assignment = fails
    case.coordination.enforce_rebalance("")
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is None and bool(case.owner.errors))
    assert case.owner.errors == [error]
    assert case.did == ["commit", "revoked", "join", "assigned"]
    assert len(case.owner.owned) == 4


def test_assignment_that_cannot_be_read_is_raised_and_the_member_joins_again() -> None:
    case = Case()
    case.coordination.enforce_rebalance("")
    events = case.coordination._events

    def arrived() -> bool:
        if events and isinstance(events[0], Assigned):
            return True
        case.owner.poll(0.5)
        return False

    case.simulation.run(30, until=arrived)
    events.append(events.popleft()._replace(assignment=b""))
    assert case.owner.poll() is None
    assert "must begin with a version" in str(case.owner.errors[-1])
    case.run(lambda: len(case.owner.owned) == 4)
    assert case.did == ["commit", "revoked", "join", "join", "assigned"]


def test_leaving_commits_revokes_and_leaves_and_a_new_subscription_joins_anew() -> None:
    case = Case()
    running = case.coordination.leave(case.simulation.now + 5, tell=True, reason="a test")
    case.owner._running = running
    case.simulation.run(5, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    assert case.did == ["commit", "revoked"]
    assert not case.owner.owned
    assert not case.cluster.turn.groups["g"].members
    case.owner.subscription.unsubscribe()
    case.owner.subscribe(["u"])
    case.run(lambda: len(case.owner.owned) == 2)


def test_listener_can_neither_poll_nor_close() -> None:
    case = Case()
    raised: list[BaseException] = []

    def on_assigned(partitions: Collection[TopicPartition]) -> None:
        for forbidden in (case.coordination.step, lambda until: case.coordination.leave(until, tell=True, reason="")):
            with pytest.raises(IllegalStateError) as caught:
                next(forbidden(0.0))
            raised.append(caught.value)

    case.owner.listener.on_assigned = on_assigned  # type: ignore[method-assign]
    case.coordination.enforce_rebalance("")
    case.run(lambda: raised)
    assert "cannot ask for records" in str(raised[0])
    assert "neither unsubscribe nor close" in str(raised[1])


def test_error_of_a_listener_comes_out_after_the_rebalance_and_once() -> None:
    case = Case()
    error: KafkaError = RebalanceInProgressError("a commit in a listener")

    def on_revoked(partitions: Collection[TopicPartition]) -> None:
        case.owner.listener.owned.clear()
        raise error

    case.owner.listener.on_revoked = on_revoked  # type: ignore[method-assign]
    case.coordination.enforce_rebalance("")
    case.simulation.run(30, until=lambda: case.owner.poll(0.5) is None and bool(case.owner.errors))
    assert case.owner.errors == [error]
    assert not case.owner.owned
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["commit", "join", "assigned"]
    assert case.owner.errors == [error]


def test_manual_assignment_is_nobodys_business_but_the_applications() -> None:
    case = Case()
    running = case.coordination.leave(case.simulation.now + 5, tell=True, reason="")
    case.owner._running = running
    case.simulation.run(5, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    case.owner.subscription.unsubscribe()
    case.owner.subscription.assign([TopicPartition("t", 0)])
    assert case.owner.poll() is True
    with pytest.raises(IllegalStateError, match="nothing to rebalance"):
        case.coordination.enforce_rebalance("")


class Interrupted(BaseException):
    """As KeyboardInterrupt, which a test cannot raise."""


def test_what_a_listener_was_told_before_it_was_interrupted_is_not_told_again_by_close() -> None:
    case = Case()
    calls = []

    def on_revoked(partitions: Collection[TopicPartition]) -> None:
        calls.append(partitions)
        raise Interrupted

    case.owner.listener.on_revoked = on_revoked  # type: ignore[method-assign]
    case.coordination.enforce_rebalance("")
    with pytest.raises(Interrupted):
        case.run(lambda: False)
    case.owner.interrupt()
    assert not case.owner.owned
    case.owner._running = case.coordination.leave(case.simulation.now + 5, tell=True, reason="")
    case.simulation.run(5, until=lambda: case.owner.poll() is not None or case.owner._running is None)
    assert len(calls) == 1
    assert not case.cluster.turn.groups["g"].members


def test_wakeup_interrupts_a_commit_that_takes_long_and_the_rebalance_waits_for_the_next_call() -> None:
    case = Case()
    slow = [True]

    def commit(deadline: float) -> Operation[bool]:
        return not slow[0]
        yield

    def woken(seconds: float) -> Operation[None]:
        yield from ()
        raise WakeupError

    case.owner.commit_before_rebalance = commit  # type: ignore[method-assign]
    before, case.coordination._wait = case.coordination._wait, woken
    case.coordination.enforce_rebalance("")
    case.owner.poll(5.0)
    assert [type(error) for error in case.owner.errors] == [WakeupError]
    assert case.did == []
    slow[0], case.coordination._wait = False, before
    case.run(lambda: "assigned" in case.did)
    assert case.did == ["revoked", "join", "assigned"]
