"""The member of the consumer protocol against a scripted coordinator: its states, each answer, fields, and timers."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kclient import errors
from kclient.consumer.group.consumer_protocol.heartbeat import OwnedPartitions
from kclient.consumer.group.consumer_protocol.states import HEARTBEATS, IN_GROUP, STATES, ConsumerEvent
from kclient.consumer.group.events import Failed, Rejoin, Target
from kclient.errors import (
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    NotKafkaError,
    UnsupportedVersionError,
)
from tests.kclient.consumer.group.consumer_protocol.scripted_member import ConsumerProtocolMember, State, T, U
from tests.support.typed import reread


def test_every_state_is_in_the_table_and_leads_back_to_unsubscribed() -> None:
    assert set(STATES.states) == set(State)
    for state in State:
        reached, found = {state}, {state}
        while found:
            found = {after for before in found for after in STATES.followers(before)} - reached
            reached |= found
        assert State.UNSUBSCRIBED in reached
    assert STATES.followers(State.FATAL) == {State.UNSUBSCRIBED}
    assert {State.JOINING} == HEARTBEATS - IN_GROUP


REFUSED = {
    "nothing is assigned to one that did not join": (State.UNSUBSCRIBED, ConsumerEvent.ASSIGNED),
    "nothing is reconciled before an assignment": (State.JOINING, ConsumerEvent.RECONCILED),
    "nothing is acknowledged before it is reconciled": (State.RECONCILING, ConsumerEvent.ACKNOWLEDGED),
    "nothing is reconciled twice": (State.STABLE, ConsumerEvent.RECONCILED),
    "one that is leaving takes nothing new": (State.PREPARE_LEAVING, ConsumerEvent.ASSIGNED),
    "one that is leaving is never too slow": (State.PREPARE_LEAVING, ConsumerEvent.TOO_SLOW),
    "leaving is prepared before it is sent": (State.STABLE, ConsumerEvent.LEAVE),
    "one that left joins again as a new member": (State.LEAVING, ConsumerEvent.JOIN),
    "one that failed permanently does not join again": (State.FATAL, ConsumerEvent.JOIN),
}


@pytest.mark.parametrize(("state", "event"), REFUSED.values(), ids=REFUSED.keys())
def test_an_event_that_the_state_does_not_have_is_refused(state: State, event: ConsumerEvent) -> None:
    member = ConsumerProtocolMember().member
    member.state = state
    with pytest.raises(IllegalStateError, match=f"is '{state.name.lower()}', where the event '{event.name.lower()}'"):
        member._change(event)
    assert member.state is state


def test_a_member_joins_reconciles_acknowledges_and_sends_heartbeats() -> None:
    scripted = ConsumerProtocolMember(client_rack="r", group_remote_assignor="range", max_poll_interval_ms=60_000)
    assert scripted.sent() is None
    scripted.subscribe("t", "u")
    joining, first = scripted.next_heartbeat()
    assert scripted.state is State.JOINING
    assert scripted.member.generation_now() is None
    assert scripted.sent() is None, "one heartbeat at a time"
    assert (first.group_id, first.member_epoch, first.instance_id, first.rack_id) == ("g", 0, None, "r")
    assert (first.rebalance_timeout_ms, first.server_assignor) == (60_000, "range")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["t", "u"], None)
    assert first.topic_partitions == []
    scripted.answer(epoch=7, assigned={T: [1, 0], U: []}, request=joining)
    assert reread(scripted.state) is State.RECONCILING
    assert scripted.member.rebalancing
    assert scripted.events == [Target(1, 0, 1, {T: (0, 1)})]
    generation = scripted.member.generation_now()
    assert generation is not None
    assert (generation.id, generation.member_id) == (7, first.member_id)
    assert scripted.sent() is None, "not before the interval"
    scripted.reconcile()
    assert reread(scripted.state) is State.ACKNOWLEDGING
    before = scripted.now
    message = scripted.answer(epoch=7)
    assert scripted.now == before
    assert [(one.topic_id, one.partitions) for one in message.topic_partitions] == [(T, [0, 1])]
    assert (message.subscribed_topic_names, message.rebalance_timeout_ms, message.rack_id) == (None, -1, None)
    assert reread(scripted.state) is State.STABLE
    message = scripted.answer(epoch=8)
    assert scripted.now == before + 3.0
    assert (message.member_epoch, message.topic_partitions, message.server_assignor) == (7, None, None)
    generation = scripted.member.generation_now()
    assert generation is not None
    assert generation.id == 8
    assert reread(scripted.state) is State.STABLE


def test_a_target_that_changes_meanwhile_is_reconciled_after_the_acknowledgement() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.answer(assigned={T: [0, 1]})
    first = scripted.events[-1]
    assert isinstance(first, Target)
    scripted.answer(epoch=2, assigned={T: [0]})
    assert scripted.state is State.RECONCILING
    scripted.member.reconciled(0, OwnedPartitions(first.target, first.partitions), scripted.now)
    message = scripted.answer(epoch=2)
    assert message.topic_partitions[0].partitions == [0, 1]
    assert scripted.state is State.RECONCILING
    scripted.reconcile(2)
    message = scripted.answer(epoch=2)
    assert message.topic_partitions[0].partitions == [0]
    assert reread(scripted.state) is State.STABLE


def test_the_same_partitions_are_acknowledged_once_for_each_target() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.answer(epoch=2, assigned={T: [0]})
    scripted.answer(epoch=3, assigned={T: [0, 1]})
    scripted.reconcile(3)
    assert scripted.answer(epoch=3).topic_partitions[0].partitions == [0, 1]
    assert scripted.state is State.STABLE
    scripted.answer(epoch=4, assigned={T: [0, 1]})
    assert scripted.state is State.STABLE, "it has that already"


def test_part_of_a_target_may_be_acknowledged_and_the_rest_later() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.answer(assigned={T: [0], U: [0]})
    scripted.member.reconciled(0, OwnedPartitions(1, {T: (0,)}), scripted.now)
    assert len(scripted.answer().topic_partitions) == 2, "the rest may be taken at any moment"
    assert scripted.state is State.RECONCILING
    scripted.reconcile()
    assert len(scripted.answer().topic_partitions) == 2
    assert reread(scripted.state) is State.STABLE


def test_what_the_owner_may_have_taken_already_is_named_by_a_whole_heartbeat() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.answer(epoch=2, assigned={T: [0], U: [5]})
    scripted.answer(errors.CoordinatorLoadInProgressError.code)
    message = scripted.answer(epoch=3, assigned={T: [0]})
    assert {one.topic_id: one.partitions for one in message.topic_partitions} == {T: [0, 1], U: [5]}
    assert scripted.answer(epoch=3).topic_partitions is None
    scripted.reconcile(3)
    message = scripted.answer(epoch=3)
    assert {one.topic_id: one.partitions for one in message.topic_partitions} == {T: [0]}
    assert scripted.state is State.STABLE


def test_changed_subscription_is_reported_immediately_and_only_what_changed() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.subscribe("t", "u", holding=0)
    before = scripted.now
    message = scripted.answer()
    assert scripted.now == before
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == (["t", "u"], None)
    assert message.topic_partitions is None
    scripted.subscribe(regex="x.*", holding=0)
    request, message = scripted.next_heartbeat()
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == ([], "x.*")
    assert request.minimum_version == 1
    scripted.answer(request=request)
    scripted.subscribe("t", holding=0)
    message = scripted.answer()
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == (["t"], "")
    request, message = scripted.next_heartbeat()
    assert message.subscribed_topic_regex is None
    assert request.minimum_version is None


@pytest.mark.parametrize("code", [errors.CoordinatorLoadInProgressError.code, errors.FencedMemberEpochError.code])
def test_a_dropped_pattern_is_withdrawn_until_the_coordinator_knows(code: int) -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe(regex="x.*")
    scripted.answer(assigned={})
    scripted.reconcile()
    scripted.answer()
    scripted.subscribe("t", holding=0)
    message = scripted.answer(code)
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == (["t"], "")
    scripted.subscribe("t")  # the owner joins again, if it has to
    message = scripted.answer(code)
    assert (message.subscribed_topic_names, message.subscribed_topic_regex) == (["t"], ""), (
        "nobody knows whether it did"
    )
    scripted.subscribe("t")
    assert scripted.answer(epoch=2).subscribed_topic_regex == ""
    assert scripted.answer(epoch=2).subscribed_topic_regex is None
    scripted.answer(code)
    scripted.subscribe("t")
    assert scripted.answer(epoch=2).subscribed_topic_regex is None, "brokers that know no patterns do not receive one"


@pytest.mark.parametrize("problem", ["answer", "connection"])
def test_after_an_error_the_next_heartbeat_is_a_full_one(problem: str) -> None:
    scripted = ConsumerProtocolMember().stable()
    request, _ = scripted.next_heartbeat()
    if problem == "answer":
        scripted.answer(errors.CoordinatorLoadInProgressError.code, request=request)
    else:
        request.on_error(DisconnectedError("gone"), scripted.now)
        assert isinstance(scripted.coordinator.forgotten[-1], DisconnectedError)
    message = scripted.answer()
    assert message.member_epoch == 1
    assert (message.subscribed_topic_names, message.rebalance_timeout_ms) == (["t"], 300_000)
    assert message.topic_partitions[0].partitions == [0, 1]
    assert scripted.state is State.STABLE
    assert not scripted.events


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("kind", [errors.NotCoordinatorError, errors.CoordinatorNotAvailableError])
def test_coordinator_that_moved_is_looked_up(kind: type[errors.BrokerError], joined: bool) -> None:
    scripted = ConsumerProtocolMember()
    if joined:
        scripted.stable()
    else:
        scripted.subscribe("t")
    scripted.answer(kind.code)
    assert isinstance(scripted.coordinator.forgotten[-1], kind)
    assert scripted.state is (State.STABLE if joined else State.JOINING)
    assert scripted.sent() is not None, "the lookup waits as long as is due"


@pytest.mark.parametrize("kind", [errors.CoordinatorLoadInProgressError, errors.RequestTimedOutError])
def test_what_passes_is_tried_again_after_a_pause(kind: type[errors.BrokerError]) -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    for _ in range(3):
        before = scripted.now
        scripted.answer(kind.code)
        assert scripted.sent() is None
        request, _ = scripted.next_heartbeat()
        assert scripted.now > before
        scripted.answer(assigned={}, request=request)
        scripted = ConsumerProtocolMember()
        scripted.subscribe("t")


@pytest.mark.parametrize("kind", [errors.UnknownMemberIdError, errors.FencedMemberEpochError])
def test_fenced_member_loses_everything_and_joins_when_its_owner_has_revoked(kind: type[errors.BrokerError]) -> None:
    scripted = ConsumerProtocolMember().stable()
    last = scripted.member.generation_now()
    scripted.answer(kind.code)
    assert scripted.state is State.FENCED
    assert scripted.member.generation_now() is None
    assert scripted.member.last_generation() == last is not None
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert event.lost
    assert event.error is None
    assert scripted.sent() is None
    scripted.subscribe("t", "u", holding=0)
    assert scripted.state is State.FENCED, "the owner still reads what is lost"
    scripted.subscribe("t", "u")
    request, message = scripted.next_heartbeat()
    assert (message.member_epoch, message.topic_partitions) == (0, [])
    scripted.answer(epoch=9, assigned={T: [0, 1]}, request=request)
    assert scripted.events[-1] == Target(1, 1, 1, {T: (0, 1)})


def test_member_that_is_fenced_while_it_joins_tries_again_after_a_pause() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    before = scripted.now
    scripted.answer(errors.FencedMemberEpochError.code)
    assert scripted.state is State.JOINING
    assert not scripted.events
    scripted.next_heartbeat()
    assert scripted.now > before


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        errors.UnreleasedInstanceIdError,
        errors.FencedInstanceIdError,
        errors.UnsupportedAssignorError,
        errors.InvalidRegularExpressionError,
        errors.GroupMaxSizeReachedError,
        errors.GroupAuthorizationError,
        errors.InvalidRequestError,
    ],
)
def test_what_cannot_pass_is_final_until_the_owner_unsubscribes(kind: type[errors.BrokerError], joined: bool) -> None:
    scripted = ConsumerProtocolMember()
    if joined:
        scripted.stable()
    else:
        scripted.subscribe("t")
    scripted.answer(kind.code, text="so it is")
    assert scripted.state is State.FATAL
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert event.lost
    assert isinstance(event.error, kind)
    assert "so it is" in str(event.error)
    scripted.subscribe("u")
    assert scripted.sent() is None
    done: Future[None] = Future()
    assert scripted.member.leave(done, tell=True, reason="") == []
    assert done.done()
    scripted.subscribe("u")
    assert scripted.next_heartbeat()[1].member_epoch == 0


def test_a_lost_group_is_joined_again_and_a_group_of_another_type_is_fatal() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.answer(errors.GroupIdNotFoundError.code)
    assert scripted.state is State.FENCED
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert (event.lost, event.error) == (True, None)
    scripted.subscribe("t")
    message = scripted.answer(errors.GroupIdNotFoundError.code, text="it is not a consumer group")
    assert message.member_epoch == 0
    assert reread(scripted.state) is State.FATAL


def test_forbidden_topic_is_reported_and_the_member_stays() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.answer(errors.TopicAuthorizationError.code)
    assert scripted.state is State.STABLE
    (event,) = scripted.events
    assert isinstance(event, Failed)
    assert isinstance(event.error, errors.TopicAuthorizationError)
    scripted.answer()
    assert scripted.state is State.STABLE


@pytest.mark.parametrize(("regex", "advice"), [(None, 'group_protocol="classic"'), ("t.*", "re.compile")])
def test_brokers_that_are_too_old_are_explained(regex: str | None, advice: str) -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe(regex=regex) if regex else scripted.subscribe("t")
    request, _ = scripted.next_heartbeat()
    request.on_error(UnsupportedVersionError("the broker does not have the API"), scripted.now)
    assert scripted.state is State.FATAL
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert isinstance(event.error, UnsupportedVersionError)
    assert advice in str(event.error)


def test_brokers_on_which_the_protocol_is_off_are_explained() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.answer(UnsupportedVersionError.code)
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert "group.version" in str(event.error)


def test_connection_to_what_is_no_broker_is_final() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.next_heartbeat()[0].on_error(NotKafkaError("http"), scripted.now)
    assert scripted.state is State.FATAL


def test_a_missing_coordinator_is_reported_once_and_again_after_the_error_was_raised() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.coordinator.fatal_error = errors.GroupAuthorizationError("no")
    for _ in range(3):
        assert scripted.sent() is None
    assert scripted.events == [Failed(1, scripted.coordinator.fatal_error)]
    scripted.member.retry()
    scripted.coordinator.fatal_error = errors.GroupAuthorizationError("no")
    scripted.sent()
    assert len(scripted.events) == 2


def test_refused_offsets_make_the_next_heartbeat_due() -> None:
    scripted = ConsumerProtocolMember().stable()
    generation = scripted.member.generation_now()
    assert generation is not None
    assert scripted.sent() is None
    scripted.member.on_refused(generation, errors.TopicAuthorizationError("no"), scripted.now)
    assert scripted.sent() is None
    scripted.member.on_refused(generation, errors.StaleMemberEpochError("old"), scripted.now)
    assert scripted.sent() is not None


def test_owner_that_is_late_acknowledges_nothing() -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.answer(assigned={T: [0]})
    event = scripted.events[-1]
    assert isinstance(event, Target)
    scripted.answer(errors.UnknownMemberIdError.code)
    scripted.subscribe("t")
    scripted.answer(assigned={T: [1]})
    scripted.member.reconciled(event.membership, OwnedPartitions(event.target, event.partitions), scripted.now)
    assert scripted.state is State.RECONCILING


def test_answer_of_an_earlier_life_is_of_no_concern() -> None:
    scripted = ConsumerProtocolMember().stable()
    request, _ = scripted.next_heartbeat()
    done: Future[None] = Future()
    scripted.member.leave(done, tell=False, reason="")
    scripted.subscribe("t")
    scripted.answer(assigned={T: [5]}, request=request)
    assert not scripted.events


def test_member_id_is_the_members_own_and_stays() -> None:
    scripted = ConsumerProtocolMember().stable()
    generation = scripted.member.generation_now()
    assert generation is not None
    scripted.answer(errors.UnknownMemberIdError.code)
    scripted.subscribe("t")
    assert scripted.next_heartbeat()[1].member_id == generation.member_id


def test_error_that_nobody_foresaw_is_final() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.answer(errors.TopicDeletionDisabledError.code)
    assert scripted.state is State.FATAL
    event = scripted.events[-1]
    assert isinstance(event, Rejoin)
    assert isinstance(event.error, KafkaError)
