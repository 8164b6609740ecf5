"""Committed offsets: where partitions start, and never by the reset policy because of an error."""

from __future__ import annotations

import pytest

from kclient.consumer.assignment.partition_state import FetchState, Position
from kclient.consumer.group.generation import Generation
from kclient.errors import (
    GroupAuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    TopicAuthorizationError,
)
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.kclient.consumer.committed.offsets_model import OTHER, TP, OffsetsModel
from tests.support.typed import first_step

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, GROUP_DENIED, TOPIC_DENIED = 14, 15, 16, 30, 29
GROUP_NOT_FOUND = 69
UNSTABLE, UNKNOWN_TOPIC_ID, UNKNOWN_MEMBER, STALE_EPOCH = 88, 100, 25, 113


def state_of(model: OffsetsModel, tp: TopicPartition) -> FetchState:
    return model.subscription.partitions[tp].state


def raised(model: OffsetsModel, tp: TopicPartition) -> KafkaError | None:
    pieces = model.subscription.partitions[tp].pieces
    return pieces[0].error if pieces else None


@pytest.mark.parametrize("version", [1, 2, 5, 6, 7, 8, 9, 10])
def test_assigned_partitions_start_at_their_committed_offset_in_every_version(version: int) -> None:
    model = OffsetsModel(versions={OffsetFetchRequest: version})
    model.stored = {TP: OffsetAndMetadata(5)}
    model.run()
    assert state_of(model, TP) is FetchState.FETCHING
    assert model.subscription.partitions[TP].position == Position(5)
    assert model.subscription.partitions[TP].committed == 5
    assert state_of(model, OTHER) is FetchState.AWAITING_RESET


def test_an_offset_with_an_epoch_is_validated_first() -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5, leader_epoch=3)}
    model.run()
    assert state_of(model, TP) is FetchState.AWAITING_VALIDATION
    assert model.subscription.partitions[TP].position == Position(5, 3)


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR])
def test_an_error_of_the_coordinator_is_no_missing_offset(code: int) -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5)}
    model.failures[OffsetFetchRequest] = [code]
    model.run()
    assert state_of(model, TP) is FetchState.AWAITING_COMMITTED
    model.pass_time(1.0)
    model.pass_time(1.0)
    assert model.subscription.partitions[TP].position == Position(5)


@pytest.mark.parametrize("code", [UNSTABLE, UNKNOWN_TOPIC_ID])
def test_a_partition_that_has_to_wait_delays_no_other(code: int) -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5), OTHER: OffsetAndMetadata(6)}
    model.failures[OffsetFetchRequest] = [{TP: code}]
    model.run()
    assert state_of(model, TP) is FetchState.AWAITING_COMMITTED
    assert model.subscription.partitions[OTHER].position == Position(6)
    model.pass_time(1.0)
    assert model.subscription.partitions[TP].position == Position(5)


def test_a_lost_connection_is_asked_again_elsewhere() -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5)}
    model.lose(model.until(OffsetFetchRequest))
    assert model.coordinator.node is None
    model.pass_time(1.0)
    model.pass_time(1.0)
    assert model.subscription.partitions[TP].position == Position(5)


def test_what_does_not_pass_is_raised_for_its_partition_and_never_reset() -> None:
    model = OffsetsModel()
    model.failures[OffsetFetchRequest] = [{TP: TOPIC_DENIED}]
    model.until(OffsetFetchRequest)
    model.run()
    assert isinstance(raised(model, TP), TopicAuthorizationError)
    assert state_of(model, TP) is FetchState.AWAITING_COMMITTED


def test_a_forbidden_group_is_raised_once_for_each_attempt() -> None:
    model = OffsetsModel()
    model.failures[FindCoordinatorRequest] = [GROUP_DENIED, GROUP_DENIED]
    model.run()
    model.pass_time(1.0)
    assert [type(error) for error in model.subscription.errors] == [GroupAuthorizationError]
    model.subscription.errors.clear()
    model.pass_time(1.0)
    model.pass_time(1.0)
    assert [type(error) for error in model.subscription.errors] == [GroupAuthorizationError]
    assert state_of(model, TP) is FetchState.AWAITING_COMMITTED


@pytest.mark.parametrize("version", [7, 8, 10])
def test_a_group_that_does_not_exist_yet_has_committed_nothing(version: int) -> None:
    model = OffsetsModel(auto_offset_reset="none", versions={OffsetFetchRequest: version})
    model.failures[OffsetFetchRequest] = [GROUP_NOT_FOUND, GROUP_NOT_FOUND]
    model.deliver(model.until(OffsetFetchRequest))
    assert isinstance(raised(model, TP), NoOffsetForPartitionError), "not the group's error: the reset policy decides"
    asked = first_step(model.offsets.committed([TP], 5.0)).future
    model.run()
    assert asked.result(0) == {TP: None}


def test_without_a_policy_a_missing_offset_is_raised() -> None:
    model = OffsetsModel(auto_offset_reset="none")
    request = model.until(OffsetFetchRequest)
    model.deliver(request)
    assert isinstance(raised(model, TP), NoOffsetForPartitionError)


def test_an_answer_is_dropped_when_the_application_went_elsewhere_meanwhile() -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5)}
    request = model.until(OffsetFetchRequest)
    model.subscription.seek(TP, 17)
    model.deliver(request)
    assert model.subscription.partitions[TP].position == Position(17)


def test_a_partition_that_comes_back_starts_from_what_was_committed_meanwhile() -> None:
    model = OffsetsModel()
    model.stored = {TP: OffsetAndMetadata(5)}
    model.run()
    model.subscription.pause([TP])
    model.assign(OTHER)
    model.stored = {TP: OffsetAndMetadata(50)}
    model.assign(TP, OTHER)
    model.run()
    assert model.subscription.partitions[TP].position == Position(50)
    assert not model.subscription.partitions[TP].paused


def test_while_the_member_joins_another_connection_is_asked() -> None:
    model = OffsetsModel()
    assert model.until(OffsetFetchRequest).node == 101
    joining = OffsetsModel()
    joining.member.rebalancing = True
    assert joining.until(OffsetFetchRequest).node == 1


def test_a_reconciling_member_may_use_the_connection_of_the_coordinator() -> None:
    model = OffsetsModel(group_protocol="consumer")
    model.member.rebalancing = True
    assert model.until(OffsetFetchRequest).node == 101


@pytest.mark.parametrize(("version", "told"), [(8, (None, -1)), (9, ("m", 1)), (10, ("m", 1))])
def test_a_member_of_the_consumer_protocol_says_who_it_is(version: int, told: tuple[str | None, int]) -> None:
    model = OffsetsModel(versions={OffsetFetchRequest: version}, group_protocol="consumer")
    model.run()
    assert model.asked_as == [told]


def test_a_member_of_a_classic_group_and_somebody_who_is_none_do_not_say_so() -> None:
    classic = OffsetsModel()
    classic.run()
    assert classic.asked_as == [(None, -1)]
    alone = OffsetsModel(subscribed=False, group_protocol="consumer")
    next(alone.offsets.committed([TP], 5.0))
    alone.run()
    assert alone.asked_as == [(None, -1)]


@pytest.mark.parametrize("code", [STALE_EPOCH, UNKNOWN_MEMBER])
def test_who_asks_at_an_epoch_that_is_over_asks_again_with_what_the_heartbeat_brings(code: int) -> None:
    model = OffsetsModel(group_protocol="consumer")
    model.stored = {TP: OffsetAndMetadata(5)}
    model.failures[OffsetFetchRequest] = [code]
    step = first_step(model.offsets.committed([TP], 5.0))
    model.run()
    assert [(error.code, error.broker) for error in model.member.refusals] == [(code, "1")]
    assert state_of(model, TP) is FetchState.AWAITING_COMMITTED
    assert not model.subscription.errors
    assert raised(model, TP) is None
    model.member.generation = Generation(2, "m", None, None) if code == STALE_EPOCH else None
    model.pass_time(1.0)
    assert model.asked_as == [("m", 1), ("m", 2) if code == STALE_EPOCH else (None, -1)]
    assert step.future.result(0) == {TP: OffsetAndMetadata(5)}
    assert model.subscription.partitions[TP].position == Position(5)


def test_committed_tells_what_is_stored_also_of_partitions_that_are_not_assigned() -> None:
    model = OffsetsModel(subscribed=False)
    model.stored = {TP: OffsetAndMetadata(5, "note", 2)}
    operation = model.offsets.committed([TP, OTHER, TP], 5.0)
    step = first_step(operation)
    model.run()
    assert step.future.result(0) == {TP: OffsetAndMetadata(5, "note", 2), OTHER: None}


def test_committed_waits_for_open_transactions_until_its_timeout() -> None:
    model = OffsetsModel(subscribed=False)
    model.failures[OffsetFetchRequest] = [{TP: UNSTABLE}] * 100
    step = first_step(model.offsets.committed([TP], 3.0))
    for _ in range(5):
        model.pass_time(1.0)
    with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
        step.future.result(0)


def test_committed_raises_what_does_not_pass() -> None:
    model = OffsetsModel(subscribed=False)
    model.failures[OffsetFetchRequest] = [GROUP_DENIED]
    step = first_step(model.offsets.committed([TP], 3.0))
    model.run()
    with pytest.raises(GroupAuthorizationError):
        step.future.result(0)


def test_a_lookup_that_nobody_waits_for_is_forgotten() -> None:
    model = OffsetsModel(subscribed=False)
    step = first_step(model.offsets.committed([TP], 3.0))
    request = model.until(OffsetFetchRequest)
    step.future.cancel()
    model.deliver(request)
    model.run()
    assert not model.outbox
