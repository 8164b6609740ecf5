"""Commits: their order, their generation, and the errors that an application gets."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from typing import Any

import pytest

from kclient.consumer.group.generation import Generation
from kclient.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    InvalidGroupIdError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tests.kclient.consumer.committed.offsets_model import OTHER, TP, OffsetsModel
from tests.support.consumer_model import ModelCluster

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC = 14, 15, 16, 3
FENCED_EPOCH, STALE_EPOCH, GROUP_NOT_FOUND = 110, 113, 69
METADATA_TOO_LARGE, UNKNOWN_MEMBER, REBALANCING, GROUP_DENIED, FENCED = 12, 25, 27, 30, 82


def begin(operation: Generator[Any, Any, Any]) -> Any:
    """Run an operation until it waits; its future."""
    return next(operation).future


def commit(model: OffsetsModel, what: Any = None, timeout: float = 10.0) -> None:
    future = begin(model.offsets.commit(what, timeout))
    model.run()
    for _ in range(100):
        if future.done():
            break
        model.pass_time(0.5)
    future.result(0)


def commit_async(model: OffsetsModel, what: Any) -> list[KafkaError | None]:
    told: list[KafkaError | None] = []
    model.offsets.commit_async(what, lambda offsets, error: told.append(error))
    return told


def test_coroutine_function_is_refused_as_a_commit_callback() -> None:
    async def callback(offsets: Any, error: Any) -> None: ...

    model = OffsetsModel()
    with pytest.raises(TypeError, match=r"^callback must be a plain function, not the coroutine function "):
        model.offsets.commit_async({TP: 1}, callback)
    with pytest.raises(TypeError, match=r"^callback must be a function, not 5$"):
        model.offsets.commit_async({TP: 1}, 5)  # type: ignore[arg-type]
    model.run()
    assert model.stored == {}


@pytest.mark.parametrize("version", [2, 5, 6, 7, 8, 9, 10])
def test_offsets_are_stored_with_metadata_and_epoch_in_every_version(version: int) -> None:
    model = OffsetsModel(versions={OffsetCommitRequest: version})
    commit(model, {TP: OffsetAndMetadata(5, "note", 3), OTHER: 7})
    epoch = 3 if version >= 6 else None
    assert model.stored == {TP: OffsetAndMetadata(5, "note", epoch), OTHER: OffsetAndMetadata(7)}


def test_a_topic_without_a_known_id_is_named() -> None:
    model = OffsetsModel()
    model.metadata.cluster._ids.clear()
    commit(model, {TP: 5})
    assert model.stored[TP].offset == 5


def test_commit_without_arguments_takes_all_positions() -> None:
    model = OffsetsModel()
    model.read_to(TP, 4)
    commit(model)
    assert model.history == [(TP, 4)]
    assert model.subscription.partitions[TP].committed == 4


def test_commit_of_nothing_is_done_at_once_and_after_all_before_it() -> None:
    model = OffsetsModel()
    told = commit_async(model, {TP: 1})
    operation = model.offsets.commit({}, 10.0)
    future = begin(operation)
    assert not future.done()
    model.run()
    with pytest.raises(StopIteration):
        operation.send(future.result(0))
    assert told == [None]


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC])
def test_commit_repeats_what_may_pass(code: int) -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [code, code]
    commit(model, {TP: 5})
    assert model.history == [(TP, 5)]


def test_commit_repeats_only_the_partitions_that_failed() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [{TP: LOADING}]
    commit(model, {TP: 5, OTHER: 6})
    assert model.history == [(OTHER, 6), (TP, 5)]


@pytest.mark.parametrize("code", [NOT_AVAILABLE, NOT_COORDINATOR])
def test_a_coordinator_that_moved_is_looked_up_again(code: int) -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [code]
    begin(model.offsets.commit({TP: 5}, 10.0))
    model.run()
    assert model.coordinator.node is None
    model.now += 1.0
    model.until(FindCoordinatorRequest)


def test_a_lost_connection_is_a_lost_coordinator_and_the_commit_is_repeated() -> None:
    model = OffsetsModel()
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    model.lose(model.until(OffsetCommitRequest))
    assert model.coordinator.node is None
    model.pass_time(1.0)
    model.pass_time(1.0)
    assert future.done()
    assert model.history == [(TP, 5)]


def test_commit_ends_with_its_timeout_and_says_what_went_wrong_last() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [LOADING] * 100
    with pytest.raises(KafkaTimeoutError, match=r"within 3 s.*COORDINATOR_LOAD_IN_PROGRESS"):
        commit(model, {TP: 5}, timeout=3.0)


def test_commit_ends_with_its_timeout_while_its_request_is_under_way() -> None:
    model = OffsetsModel()
    future = begin(model.offsets.commit({TP: 5}, 3.0))
    request = model.until(OffsetCommitRequest)
    model.now += 3.0
    model.poll()
    with pytest.raises(KafkaTimeoutError):
        future.result(0)
    model.deliver(request)
    commit(model, {TP: 6})
    assert [offset for _, offset in model.history] == [5, 6]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (METADATA_TOO_LARGE, OffsetMetadataTooLargeError),
        (GROUP_DENIED, GroupAuthorizationError),
        (FENCED, FencedInstanceIdError),
        (UNKNOWN_MEMBER, CommitFailedError),
        (REBALANCING, RebalanceInProgressError),
    ],
)
def test_what_does_not_pass_is_raised_as_what_it_is(code: int, kind: type[KafkaError]) -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [code]
    with pytest.raises(kind) as caught:
        commit(model, {TP: 5})
    assert caught.value.broker in (None, "1"), "the connection of its own has a number that no user knows"
    assert [(error.code, error.broker) for error in model.member.refusals] == [(code, "1")]
    assert not model.stored


def test_a_forbidden_group_is_raised_at_once() -> None:
    model = OffsetsModel()
    model.failures[FindCoordinatorRequest] = [GROUP_DENIED]
    with pytest.raises(GroupAuthorizationError):
        commit(model, {TP: 5})
    model.pass_time(1.0)
    commit(model, {TP: 5})
    assert model.stored[TP].offset == 5, "it is asked again, since permissions change"


def test_an_asynchronous_commit_with_a_retriable_error_is_not_retried_and_says_so() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [LOADING]
    told = commit_async(model, {TP: 5})
    model.run()
    model.pass_time(5.0)
    model.offsets.run_callbacks()
    assert isinstance(told[0], RetriableCommitFailedError)
    assert told[0].retriable
    assert told[0].__cause__.code == LOADING  # type: ignore[union-attr]
    assert not model.history


def test_no_older_commit_overtakes_a_newer_one() -> None:
    model = OffsetsModel()
    commit_async(model, {TP: 1})
    first = model.until(OffsetCommitRequest)
    commit_async(model, {TP: 2})
    assert not [request for request in model.poll() if request.request_type is OffsetCommitRequest]
    model.lose(first)
    model.pass_time(1.0)
    model.pass_time(1.0)
    assert model.history == [(TP, 2)]


def test_asynchronous_commits_that_wait_go_as_one_and_are_reported_in_order() -> None:
    model = OffsetsModel()
    told: list[int] = []
    commit_async(model, {TP: 1})
    first = model.until(OffsetCommitRequest)
    for number in range(2, 6):
        model.offsets.commit_async({TP: number}, lambda offsets, error: told.append(offsets[TP].offset))
    model.deliver(first)
    model.run()
    model.offsets.run_callbacks()
    assert model.history == [(TP, 1), (TP, 5)]
    assert told == [2, 3, 4, 5]


def test_callbacks_run_in_the_owners_calls_and_a_failing_one_stops_no_other() -> None:
    model = OffsetsModel()

    def fail(offsets: object, error: object) -> None:
        raise ValueError("the application's")

    model.offsets.commit_async({TP: 1}, fail)
    told = commit_async(model, {TP: 2})
    model.run()
    assert not told
    assert model.woken
    model.offsets.run_callbacks()
    assert told == [None]


def test_a_commit_under_way_when_the_generation_ends_is_declined() -> None:
    model = OffsetsModel()
    told = commit_async(model, {TP: 5})
    request = model.until(OffsetCommitRequest)
    model.generation = 2
    model.member.generation, model.member.rebalancing = None, True
    model.deliver(request)
    model.offsets.run_callbacks()
    assert isinstance(told[0], RebalanceInProgressError)
    assert not model.stored


def test_a_commit_of_an_earlier_generation_is_not_sent_in_a_later_one() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [LOADING]
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    model.run()
    model.generation = 2
    model.member.generation = Generation(2, "m", None, "range")
    model.pass_time(1.0)
    with pytest.raises(RebalanceInProgressError):
        future.result(0)
    assert not model.history


def test_a_consumer_that_is_no_longer_a_member_cannot_commit() -> None:
    model = OffsetsModel()
    model.member.generation = None
    with pytest.raises(CommitFailedError, match="max_poll"):
        commit(model, {TP: 5})
    told = commit_async(model, {TP: 5})
    model.run()
    model.offsets.run_callbacks()
    assert isinstance(told[0], CommitFailedError)
    assert not model.outbox
    assert not model.history


def test_nothing_is_committed_for_a_partition_that_is_no_longer_assigned() -> None:
    model = OffsetsModel()
    model.assign(OTHER)
    with pytest.raises(CommitFailedError, match="not assigned"):
        commit(model, {TP: 5})


def test_a_consumer_that_assigns_by_itself_commits_without_being_a_member() -> None:
    model = OffsetsModel(subscribed=False)
    model.member.generation = None
    commit(model, {TP: 5})
    assert model.stored[TP].offset == 5
    model.failures[OffsetCommitRequest] = [UNKNOWN_MEMBER]
    with pytest.raises(CommitFailedError, match="members of the group"):
        commit(model, {TP: 6})


def test_a_static_member_needs_a_broker_that_knows_such() -> None:
    model = OffsetsModel(group_instance_id="i")
    model.member.generation = Generation(1, "m", "i", "range")
    begin(model.offsets.commit({TP: 5}, 10.0))
    assert model.until(OffsetCommitRequest).minimum_version == 7


def test_group_metadata_says_who_the_member_is() -> None:
    model = OffsetsModel()
    model.member.last = None
    assert model.offsets.group_metadata() == ConsumerGroupMetadata("g"), "it has not joined yet"
    model.member.last = model.member.generation
    assert model.offsets.group_metadata() == ConsumerGroupMetadata("g", 1, "m")


def test_who_lost_its_membership_commits_in_a_transaction_as_who_it_was() -> None:
    model = OffsetsModel()
    model.member.generation = None
    # Offsets of nobody would be taken: the coordinator could not tell that somebody else reads the partitions by now.
    assert model.offsets.group_metadata() == ConsumerGroupMetadata("g", 1, "m")


def test_an_offset_below_zero_is_refused() -> None:
    model = OffsetsModel()
    with pytest.raises(ValueError, match="0 or more"):
        commit(model, {TP: -1})


def test_the_end_of_the_client_ends_all_commits() -> None:
    model = OffsetsModel()
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    request = model.until(OffsetCommitRequest)
    waiting = begin(model.offsets.commit({TP: 6}, 10.0))
    model.offsets.fail_all(InvalidGroupIdError("the end"))
    for one in (future, waiting):
        with pytest.raises(InvalidGroupIdError):
            one.result(0)
    model.lose(request)


def test_offsets_of_a_topic_are_not_committed_for_another_one_of_the_same_name() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [LOADING]
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    model.run()
    model.metadata.cluster = ModelCluster({}, {"t": uuid.UUID(int=8)}, 2)
    model.pass_time(1.0)
    with pytest.raises(UnknownTopicIdError, match="created again"):
        future.result(0)
    assert not model.history


def test_offsets_of_a_deleted_topic_are_not_committed_for_a_new_topic_of_its_name() -> None:
    model = OffsetsModel()
    for tp in (TP, OTHER):
        model.subscription.partitions[tp].topic_id = uuid.UUID(int=6)
    model.metadata.cluster = ModelCluster({}, {}, 2)
    model.failures[OffsetCommitRequest] = [LOADING]
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    message: Any = model.until(OffsetCommitRequest).build(10)
    assert [topic.topic_id for topic in message.topics] == [uuid.UUID(int=6)]
    model.metadata.cluster = ModelCluster({}, {"t": uuid.UUID(int=7)}, 3)
    model.lose(model.outbox[0])
    model.pass_time(1.0)
    with pytest.raises(UnknownTopicIdError, match="created again"):
        future.result(0)
    assert not model.history


def test_a_commit_waits_for_no_topic_that_is_gone() -> None:
    model = OffsetsModel()
    model.failures[OffsetCommitRequest] = [{TP: UNKNOWN_TOPIC}, UNKNOWN_TOPIC]
    future = begin(model.offsets.commit({TP: 5, OTHER: 6}, 60.0))
    model.run()
    model.pass_time(1.0)
    assert not future.done()
    model.metadata.cluster = ModelCluster({}, {}, 2)
    model.pass_time(1.0)
    with pytest.raises(UnknownTopicOrPartitionError, match="was deleted"):
        future.result(0)
    assert model.history == [(OTHER, 6)]


def test_the_topic_that_was_replaced_is_named() -> None:
    model = OffsetsModel()
    another = TopicPartition("another", 0)
    model.subscription.assign_from_group([another, TP])
    future = begin(model.offsets.commit({another: 1, TP: 5}, 10.0))
    model.metadata.cluster = ModelCluster({}, {"t": uuid.UUID(int=8)}, 2)
    model.run()
    with pytest.raises(UnknownTopicIdError) as caught:
        future.result(0)
    assert caught.value.topic == TP.topic


def test_the_position_in_a_replaced_topic_is_not_committed_for_the_new_one() -> None:
    model = OffsetsModel(enable_auto_commit=True)
    model.read_to(TP, 100)
    model.offsets.asked()
    model.subscription.update_metadata(model.metadata.cluster)  # type: ignore[arg-type]
    model.metadata.cluster = ModelCluster({}, {"t": uuid.UUID(int=7)}, 2)
    model.subscription.partitions[TP].topic_id = uuid.UUID(int=6)
    model.subscription.update_metadata(model.metadata.cluster)  # type: ignore[arg-type]
    model.offsets.asked()
    model.run()
    model.pass_time(6.0)
    commit(model)
    assert not model.history
    model.read_to(TP, 3)
    commit(model)
    assert model.history == [(TP, 3)]


def with_epochs() -> OffsetsModel:
    """Of a member that speaks the consumer protocol, whose epochs grow while its partitions stay."""
    return OffsetsModel(group_protocol="consumer")


def test_a_commit_goes_out_with_the_epoch_of_its_moment() -> None:
    model = with_epochs()
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    model.generation = 2
    model.member.generation = Generation(2, "m", None, "uniform")
    model.run()
    assert future.result(0) is None
    assert model.history == [(TP, 5)]


def test_a_stale_epoch_makes_the_member_send_a_heartbeat_immediately() -> None:
    model = with_epochs()
    model.failures[OffsetCommitRequest] = [STALE_EPOCH]
    commit(model, {TP: 5})
    assert [error.code for error in model.member.refusals] == [STALE_EPOCH]
    model.failures[OffsetCommitRequest] = [STALE_EPOCH]
    told = commit_async(model, {TP: 6})
    model.run()
    model.offsets.run_callbacks()
    assert isinstance(told[0], RetriableCommitFailedError)
    assert model.history == [(TP, 5)]


def test_with_epochs_nothing_goes_out_for_a_partition_that_went_and_came_back() -> None:
    model = with_epochs()
    model.failures[OffsetCommitRequest] = [STALE_EPOCH]
    future = begin(model.offsets.commit({TP: 5}, 10.0))
    model.run()
    model.assign(OTHER)
    model.assign(TP, OTHER)
    model.generation = 2
    model.member.generation = Generation(2, "m", None, "uniform")
    model.pass_time(1.0)
    with pytest.raises(RebalanceInProgressError):
        future.result(0)
    assert not model.history


@pytest.mark.parametrize("code", [FENCED_EPOCH, GROUP_NOT_FOUND])
def test_a_fenced_epoch_or_a_group_that_is_gone_is_the_end_of_membership(code: int) -> None:
    model = with_epochs()
    model.failures[OffsetCommitRequest] = [code]
    with pytest.raises(CommitFailedError):
        commit(model, {TP: 5})
