"""The owner's part: in which order, what is interrupted, and what comes out of the application's calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from kclient.assignors import RangeAssignor
from kclient.consumer.group.classic.protocol import decode_subscription, encode_assignment
from kclient.consumer.group.events import Assigned, Failed, Rejoin
from kclient.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NotCoordinatorError,
    RebalanceInProgressError,
    WakeupError,
)
from kclient.net.operation import Operation
from kclient.protocol import Message
from kclient.protocol.messages.heartbeat import HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.types import TopicPartition
from tests.support.engines.groups import GroupCluster, OwnedListener, Owner
from tests.support.engines.network import Answer, Gone, Later, Simulation


class FailingAssignor(RangeAssignor):
    """Divides as the range assignor does, and raises what a test gives it."""

    def __init__(self) -> None:
        self.assign_error: Exception | None = None
        self.assignment_error: Exception | None = None

    def assign(self, *arguments: Any) -> Any:
        if self.assign_error is not None:
            raise self.assign_error
        return super().assign(*arguments)

    def on_assignment(self, *arguments: Any) -> None:
        if self.assignment_error is not None:
            raise self.assignment_error


class Timeline(OwnedListener):
    """The order of commits, joins and calls of the listener; and what happens to a commit.

    Attributes:
        did: "commit" once one is done, "join" when the coordinator receives one, and what the listener received.
        on: what the listener does, by the kind of its call.
        commit: the commit, in place of the owner's.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner, lambda owner, tp: None)
        self.did: list[str] = []
        self.on: dict[str, Callable[[Collection[TopicPartition]], None]] = {}
        self.commit: Callable[[], bool] | None = None

    def committed(self, commit: Operation[bool]) -> Operation[bool]:
        if self.commit is not None:
            return self.commit()
        done = yield from commit
        if done:
            self.did.append("commit")
        return done

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._told("assigned", partitions, super().on_assigned)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._told("revoked", partitions, super().on_revoked)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._told("lost", partitions, super().on_lost)

    def _told(
        self, kind: str, partitions: Collection[TopicPartition], keep: Callable[[Collection[TopicPartition]], None]
    ) -> None:
        self.did.append(kind)
        keep(partitions)
        if kind in self.on:
            self.on[kind](partitions)


class WatchedOwner(Owner):
    """An owner whose commits go by a timeline."""

    timeline: Timeline | None = None

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        commit = super().commit_before_rebalance(deadline)
        return commit if self.timeline is None else self.timeline.committed(commit)


class SoleMember:
    """The only member of a group, with its partitions, and what happened since in which order.

    Attributes:
        alter: changes what the brokers answer.
        claimed: the partitions that each join said it still owns.
    """

    def __init__(self, assignors: Any = "range", **options: Any) -> None:
        self.simulation = Simulation(1)
        self.cluster = GroupCluster(self.simulation, t=4, u=2)
        self.alter: Callable[[Message], Message] = lambda response: response
        self.claimed: list[set[TopicPartition]] = []
        for host, answer in self.simulation.brokers.items():
            self.simulation.brokers[host] = self._observed(answer)
        self.owner = WatchedOwner(self.simulation, partition_assignment_strategy=assignors, **options)
        self.timeline = self.owner.timeline = Timeline(self.owner)
        self.owner.listener = self.coordination.listener = self.timeline
        self.did = self.timeline.did
        self.run(lambda: len(self.owner.owned) == 4)
        self.did.clear()
        self.claimed.clear()

    def _observed(self, answer: Answer) -> Answer:
        def observe(request: Message, version: int) -> Message | Later | Gone | None:
            if isinstance(request, JoinGroupRequest):
                self.did.append("join")
                subscription = decode_subscription(request.protocols[0].metadata)
                self.claimed.append(set(subscription.owned))
            response = answer(request, version)
            if isinstance(response, Later):
                later = Later()
                response.then(lambda message: later.give(self.alter(message)))
                return later
            return response

        return observe

    def run(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Ask for records until the condition holds and they might be handed out."""
        self.simulation.run(seconds, until=lambda: self.owner.poll(0.5) is True and bool(condition()))
        assert condition(), self.did

    def poll_until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Ask for records until the condition holds, whether or not they might be handed out."""

        def polled() -> bool:
            self.owner.poll(0.5)
            return bool(condition())

        self.simulation.run(seconds, until=polled)
        assert condition(), self.did

    def poll_for(self, seconds: float) -> None:
        """Ask for records for so long."""
        end = self.simulation.now + seconds
        self.poll_until(lambda: self.simulation.now >= end, seconds + 1)

    def leave(self, seconds: float = 5) -> None:
        """Leave the group."""
        leaving = self.coordination.leave(self.simulation.now + seconds, tell=True, reason="a test")
        self.owner.carry_out(leaving, seconds)

    @property
    def is_member(self) -> bool:
        """Whether the coordinator has a member."""
        return bool(self.cluster.turn.groups["g"].members)

    @property
    def coordination(self) -> Any:
        return self.owner.group.coordination


def once(kind: type[Message], change: Callable[[Any], Message]) -> Callable[[Message], Message]:
    """Return a function that changes the first response of this kind."""
    done = False

    def alter(response: Message) -> Message:
        nonlocal done
        if done or not isinstance(response, kind):
            return response
        done = True
        return change(response)

    return alter


def test_eager_member_commits_then_revokes_then_joins() -> None:
    sole = SoleMember()
    sole.coordination.enforce_rebalance("")
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "assigned"]
    assert sole.claimed == [set()]


def test_rebalance_that_is_enforced_while_one_is_under_way_follows_it() -> None:
    sole = SoleMember()
    sole.coordination.enforce_rebalance("first")
    sole.poll_until(lambda: "join" in sole.did)
    assert sole.did == ["commit", "revoked", "join"]
    sole.coordination.enforce_rebalance("second")
    sole.coordination.enforce_rebalance("third")
    sole.run(lambda: sole.did.count("assigned") == 2)
    sole.poll_for(30)
    assert sole.did == ["commit", "revoked", "join", "assigned"] * 2


def test_rebalance_that_is_enforced_before_the_member_joins_is_the_one_it_joins_for() -> None:
    sole = SoleMember()
    sole.coordination.enforce_rebalance("first")
    assert sole.owner.poll(1.0) is None  # the commit is under way
    sole.coordination.enforce_rebalance("second")
    sole.run(lambda: "assigned" in sole.did)
    sole.poll_for(30)
    assert sole.did == ["commit", "revoked", "join", "assigned"]


def test_cooperative_member_revokes_nothing_that_stays() -> None:
    sole = SoleMember("cooperative-sticky")
    owned = sole.owner.owned
    sole.coordination.enforce_rebalance("")
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "join", "assigned"]
    assert sole.claimed == [owned]


def test_cooperative_member_revokes_what_it_no_longer_subscribes_to_before_it_joins() -> None:
    sole = SoleMember("cooperative-sticky")
    sole.owner.subscribe(["u"])
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "assigned"]
    assert sole.claimed == [set()]
    assert {tp.topic for tp in sole.owner.owned} == {"u"}


def test_commit_that_fails_permanently_does_not_keep_the_group_waiting() -> None:
    sole = SoleMember()

    def fails() -> bool:
        raise CommitFailedError("it was forgotten")

    sole.timeline.commit = fails
    sole.coordination.enforce_rebalance("")
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["revoked", "join", "assigned"]


def test_a_commit_without_end_is_given_up_and_no_record_is_returned_meanwhile() -> None:
    sole = SoleMember(default_api_timeout_ms=5_000)
    sole.timeline.commit = lambda: False
    sole.coordination.enforce_rebalance("")
    began = sole.simulation.now
    while sole.owner.poll() is False:
        sole.simulation.run(0.5)
    assert 4.0 <= sole.simulation.now - began <= 6.0
    sole.run(lambda: "assigned" in sole.did)


def test_step_that_was_interrupted_continues_where_it_was() -> None:
    sole = SoleMember()
    sole.coordination.enforce_rebalance("")
    assert sole.owner.poll(1.0) is None  # the commit is under way
    sole.owner.interrupt()
    assert sole.did == []
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "assigned"]


def test_events_of_an_earlier_join_have_no_effect() -> None:
    sole = SoleMember()
    member = sole.owner.group.member
    generation = member.generation_now()
    assert generation is not None
    mailbox = sole.owner.group.mailbox
    mailbox.put(Assigned(0, member.membership, generation, encode_assignment([])))
    mailbox.put(Rejoin(0, "a test", lost=True))
    mailbox.put(Failed(0, CommitFailedError("a test")))
    assert sole.owner.poll() is True
    assert sole.did == []
    assert sole.owner.errors == []
    assert len(sole.owner.owned) == 4


def test_leader_that_cannot_read_a_member_says_so_and_begins_again() -> None:
    sole = SoleMember()

    def garble(response: JoinGroupResponse) -> JoinGroupResponse:
        return replace(response, members=[replace(response.members[0], metadata=b"\x00")])

    sole.alter = once(JoinGroupResponse, garble)
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: sole.owner.errors)
    assert "must begin with a version" in str(sole.owner.errors[-1])
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "join", "assigned"]
    assert len(sole.owner.owned) == 4


def test_leader_whose_assignor_fails_leaves_the_group_at_once_when_it_closes() -> None:
    assignor = FailingAssignor()
    sole = SoleMember([assignor])
    assignor.assign_error = CommitFailedError("an assignor's own")
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: sole.owner.errors)
    assert sole.is_member
    sole.leave(seconds=1)
    assert not sole.is_member


def test_leader_whose_assignor_fails_begins_again_with_the_next_call() -> None:
    assignor = FailingAssignor()
    sole = SoleMember([assignor])
    assignor.assign_error = CommitFailedError("an assignor's own")
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: len(sole.owner.errors) == 2, seconds=5)
    assignor.assign_error = None
    sole.run(lambda: "assigned" in sole.did, seconds=5)
    assert sole.did == ["commit", "revoked", "join", "join", "join", "assigned"]


def test_assignor_error_is_raised_again_when_the_member_has_joined_again_by_itself() -> None:
    assignor = FailingAssignor()
    sole = SoleMember([assignor], heartbeat_interval_ms=500)
    assignor.assign_error = CommitFailedError("an assignor's own")
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: "join" in sole.did)
    turned_away: list[HeartbeatResponse] = []

    def turn_away_once(answer: Answer, request: Message, version: int) -> Message | Later | Gone | None:
        response = answer(request, version)
        if isinstance(response, HeartbeatResponse) and not turned_away:
            turned_away.append(response)
            return replace(response, error_code=NotCoordinatorError.code)
        return response

    for host, answer in sole.simulation.brokers.items():
        sole.simulation.brokers[host] = partial(turn_away_once, answer)
    # The application asks for nothing until the member has joined again.
    sole.simulation.run(20, until=lambda: sole.did.count("join") == 2)
    sole.simulation.run(1)
    sole.poll_until(lambda: len(sole.owner.errors) >= 2, seconds=5)
    assert {type(error) for error in sole.owner.errors} == {CommitFailedError}


def test_assignor_that_fails_when_it_learns_of_the_assignment_takes_nothing_from_it() -> None:
    assignor = FailingAssignor()
    sole = SoleMember([assignor])
    error = assignor.assignment_error = CommitFailedError("an assignor's own")
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: sole.owner.errors)
    assert sole.owner.errors == [error]
    assert sole.did == ["commit", "revoked", "join", "assigned"]
    assert len(sole.owner.owned) == 4


def test_assignment_that_cannot_be_read_is_raised_and_the_member_joins_again() -> None:
    sole = SoleMember()
    sole.alter = once(SyncGroupResponse, lambda response: replace(response, assignment=b""))
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: sole.owner.errors)
    assert "must begin with a version" in str(sole.owner.errors[-1])
    sole.run(lambda: len(sole.owner.owned) == 4)
    assert sole.did == ["commit", "revoked", "join", "join", "assigned"]


def test_leaving_commits_revokes_and_leaves_and_a_new_subscription_rejoins() -> None:
    sole = SoleMember()
    sole.leave()
    assert sole.did == ["commit", "revoked"]
    assert not sole.owner.owned
    assert not sole.is_member
    sole.owner.subscription.unsubscribe()
    sole.owner.subscribe(["u"])
    sole.run(lambda: len(sole.owner.owned) == 2)


def test_listener_can_neither_poll_nor_close() -> None:
    sole = SoleMember()
    raised: list[BaseException] = []

    def on_assigned(partitions: Collection[TopicPartition]) -> None:
        for forbidden in (sole.coordination.step, lambda until: sole.coordination.leave(until, tell=True, reason="")):
            with pytest.raises(IllegalStateError) as caught:
                next(forbidden(0.0))
            raised.append(caught.value)

    sole.timeline.on["assigned"] = on_assigned
    sole.coordination.enforce_rebalance("")
    sole.run(lambda: raised)
    assert "cannot ask for records" in str(raised[0])
    assert "neither unsubscribe nor close" in str(raised[1])


def test_error_of_a_listener_comes_out_after_the_rebalance_and_once() -> None:
    sole = SoleMember()
    error: KafkaError = RebalanceInProgressError("a commit in a listener")

    def on_revoked(partitions: Collection[TopicPartition]) -> None:
        raise error

    sole.timeline.on["revoked"] = on_revoked
    sole.coordination.enforce_rebalance("")
    sole.poll_until(lambda: sole.owner.errors)
    assert sole.owner.errors == [error]
    assert not sole.owner.owned
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "assigned"]
    assert sole.owner.errors == [error]


def test_manual_assignment_is_nobodys_business_but_the_applications() -> None:
    sole = SoleMember()
    sole.leave()
    sole.owner.subscription.unsubscribe()
    sole.owner.subscription.assign([TopicPartition("t", 0)])
    assert sole.owner.poll() is True
    with pytest.raises(IllegalStateError, match="nothing to rebalance"):
        sole.coordination.enforce_rebalance("")


class Interrupted(BaseException):
    """As KeyboardInterrupt, which a test cannot raise."""


def test_close_does_not_repeat_what_an_interrupted_listener_received() -> None:
    sole = SoleMember()

    def on_revoked(partitions: Collection[TopicPartition]) -> None:
        raise Interrupted

    sole.timeline.on["revoked"] = on_revoked
    sole.coordination.enforce_rebalance("")
    with pytest.raises(Interrupted):
        sole.run(lambda: False)
    sole.owner.interrupt()
    assert not sole.owner.owned
    sole.leave()
    assert sole.did == ["commit", "revoked"]
    assert not sole.is_member


@pytest.mark.parametrize("within", [True, False], ids=["within the commit", "between two looks at it"])
def test_wakeup_interrupts_a_long_commit_and_the_rebalance_waits_for_the_next_call(within: bool) -> None:
    sole = SoleMember()

    def commit() -> bool:
        if within:
            raise WakeupError
        return False

    sole.timeline.commit = commit
    sole.coordination.enforce_rebalance("")
    if not within:
        sole.owner.wakeup()
    sole.owner.poll(5.0)
    assert [type(error) for error in sole.owner.errors] == [WakeupError]
    assert sole.did == []
    sole.timeline.commit = None
    sole.run(lambda: "assigned" in sole.did)
    assert sole.did == ["commit", "revoked", "join", "assigned"]
