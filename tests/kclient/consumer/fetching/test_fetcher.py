"""Fetching against a model of brokers: who is asked, for how much, and what an answer leads to."""

from __future__ import annotations

import uuid

import pytest

from kclient.consumer.assignment.topics import choose
from kclient.errors import (
    CorruptRecordError,
    DeserializationError,
    IllegalStateError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.consumer_model import FENCED, NOT_LEADER, Log, Model
from tests.support.typed import built

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def model_with(*values: bytes, **options: object) -> Model:
    model = Model(**options)  # type: ignore[arg-type]
    (log,) = model.add_topic("t")
    if values:
        log.append(*values)
    return model


def offsets(model: Model, max_records: int = 1_000_000) -> list[int]:
    return [offset for _, _, offset, _ in model.read(max_records)]


@pytest.mark.parametrize("version", range(4, 19))
def test_reads_from_the_beginning_at_every_version(version: int) -> None:
    model = model_with(b"a", b"b", versions={FetchRequest: version})
    model.assign(T0)
    model.run()
    assert model.read() == [("t", 0, 0, b"a"), ("t", 0, 1, b"b")]
    model.logs[T0].append(b"c")
    model.run()
    assert model.read() == [("t", 0, 2, b"c")]


def test_next_fetch_goes_out_before_the_application_reads() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=2)
    (request,) = model.poll()
    assert request.request_type is FetchRequest
    model.logs[T0].append(b"b")
    model.deliver()
    assert offsets(model) == [0, 1]


def test_several_leaders_are_asked_at_once_each_for_its_own() -> None:
    model = Model()
    for log in model.add_topic("t", 3):
        log.append(b"x")
    model.assign(*model.logs)
    model.poll()
    for request in list(model.outbox):
        model.deliver(request)
    assert sorted(request.node for request in model.poll()) == [1, 2, 3]
    model.run()
    assert sorted(model.read()) == [("t", partition, 0, b"x") for partition in range(3)]


def test_topic_without_an_id_is_fetched_by_name() -> None:
    model = Model()
    (log,) = model.add_topic("t", with_id=False)
    log.append(b"x")
    model.assign(T0)
    model.run()
    assert offsets(model) == [0]


def test_prefetch_stops_when_enough_is_unread_and_goes_on_when_it_was_read() -> None:
    model = model_with(max_partition_fetch_bytes=1_000, prefetch_max_bytes=10_000)
    for _ in range(200):
        model.logs[T0].append(b"x" * 100)
    model.assign(T0)
    model.run(rounds=100)
    assert model.buffer.bytes < 10_000
    assert model.poll() == []
    held = len(offsets(model, 3))
    read = held
    while got := len(offsets(model, 7)):
        read += got
        model.run(rounds=100)
        assert model.buffer.bytes < 10_000
    assert read == 200
    assert model.room_signals > 0


def test_many_partitions_share_the_room() -> None:
    model = Model(max_partition_fetch_bytes=4_000, prefetch_max_bytes=12_000, fetch_max_bytes=8_000)
    for log in model.add_topic("t", 9):
        for _ in range(20):
            log.append(b"x" * 500)
    model.assign(*model.logs)
    seen: dict[int, list[int]] = {}
    for _ in range(200):
        model.run(rounds=5)
        # One whole batch may come on top for each broker: a broker sends that however small the limit.
        assert model.buffer.bytes <= 12_000 + 3 * 700
        for _, partition, offset, _ in model.read(3):
            seen.setdefault(partition, []).append(offset)
    assert seen == {partition: list(range(20)) for partition in range(9)}


def test_record_larger_than_the_fetch_size_still_arrives() -> None:
    model = model_with(max_partition_fetch_bytes=100, fetch_max_bytes=100)
    model.logs[T0].append(b"x" * 5_000)
    model.logs[T0].append(b"y")
    model.assign(T0)
    model.run()
    seen = offsets(model)
    model.run()
    assert seen + offsets(model) == [0, 1]


def test_cut_off_first_batch_raises_the_limit_of_its_partition() -> None:
    model = model_with(b"x" * 5_000, max_partition_fetch_bytes=100)
    model.assign(T0)
    model.poll()
    model.deliver()
    (request,) = model.poll()
    response = model.answer(request)
    partition = response.responses[0].partitions[0]
    partition.records = bytes(partition.records[:100])
    model.outbox.clear()
    model.respond(request, response)
    (again,) = model.poll()
    assert built(again, FetchRequest, 18).topics[0].partitions[0].partition_max_bytes > 5_000


def test_partitions_take_turns() -> None:
    model = Model()
    for log in model.add_topic("t", 2):
        log.leader = 1
        for _ in range(3):
            log.append(b"x")
    model.refresh()
    model.assign(T0, T1)
    model.run(rounds=4)
    for log in model.logs.values():
        log.append(b"y")
    model.run(rounds=4)
    assert [(p, o) for _, p, o, _ in model.read()] == [
        *[(0, o) for o in range(3)],
        *[(1, o) for o in range(3)],
        (0, 3),
        (1, 3),
    ]


def test_seek_drops_what_was_fetched_and_what_is_on_its_way() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    model.run(rounds=2)
    model.poll()
    assert offsets(model, 3) == [0, 1, 2]
    model.subscription.seek(T0, 7)
    model.run()
    assert offsets(model) == [7, 8, 9]
    model.subscription.seek(T0, 1)
    model.run()
    assert offsets(model) == list(range(1, 10))


def test_pause_keeps_what_was_fetched_and_resume_goes_on_exactly_there() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    model.run()
    assert offsets(model, 3) == [0, 1, 2]
    model.subscription.pause([T0])
    assert offsets(model) == []
    assert all(request.request_type is not FetchRequest for request in model.poll())
    model.subscription.resume([T0])
    model.run()
    assert offsets(model) == list(range(3, 10))


def test_paused_partition_gives_its_room_to_others_and_is_fetched_again() -> None:
    model = Model(max_partition_fetch_bytes=4_000, prefetch_max_bytes=5_000)
    logs = model.add_topic("t", 2)
    for log in logs:
        log.leader = 1
        for _ in range(60):
            log.append(b"x" * 100)
    model.refresh()
    model.assign(T0)
    model.run()
    model.subscription.pause([T0])
    model.subscription.assign([T0, T1])
    model.subscription.start_uninitialized()
    seen: list[tuple[int, int]] = []
    for _ in range(30):
        model.run(rounds=5)
        seen += [(p, o) for _, p, o, _ in model.read()]
    model.subscription.resume([T0])
    for _ in range(30):
        model.run(rounds=5)
        seen += [(p, o) for _, p, o, _ in model.read()]
    assert [o for p, o in seen if p == 0] == list(range(60))
    assert [o for p, o in seen if p == 1] == list(range(60))


def test_unassigned_partition_is_dropped_and_one_that_stays_keeps_its_position() -> None:
    model = Model()
    for log in model.add_topic("t", 2):
        log.append(b"x", b"y", b"z")
    model.assign(T0, T1)
    model.run()
    model.read(1)
    model.assign(T0)
    model.run()
    assert [(p, o) for _, p, o, _ in model.read()] == [(0, 1), (0, 2)]


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED])
def test_leader_that_moved_is_found_by_fresh_metadata_and_nothing_repeats(code: int) -> None:
    model = model_with(b"a", b"b")
    model.assign(T0)
    model.run()
    assert offsets(model) == [0, 1]
    log = model.logs[T0]
    log.move(2)
    log.append(b"c")
    if code == FENCED:
        log.error = FENCED
        model.run(rounds=1)
        log.error = 0
    model.now += 10
    model.run()
    assert offsets(model) == [2]


def test_position_is_validated_with_the_new_leader() -> None:
    model = model_with(b"a", b"b")
    model.assign(T0)
    model.run()
    offsets(model)
    model.logs[T0].move(2)
    model.refresh()
    kinds = [request.request_type for request in model.poll() if request.node == 2]
    assert kinds == [OffsetForLeaderEpochRequest]


@pytest.mark.parametrize("version", [11, 18])
def test_truncation_goes_back_to_where_the_log_diverges(version: int) -> None:
    model = model_with(versions={FetchRequest: version})
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.assign(T0)
    model.run()
    assert offsets(model) == [0, 1, 2]
    log.truncate(1)
    log.move(2)
    log.append(b"B", b"C")
    model.run()
    # The first read meets the truncation, and moves the position; what follows is fetched from there.
    seen = model.read()
    model.run()
    seen += model.read()
    assert seen == [("t", 0, 1, b"B"), ("t", 0, 2, b"C")]


def test_truncation_without_a_policy_is_an_error_with_the_diverging_offset() -> None:
    model = model_with(auto_offset_reset="none")
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.subscription.assign([T0])
    model.subscription.seek(T0, 0)
    model.run()
    assert offsets(model) == [0, 1, 2]
    log.truncate(1)
    log.move(2)
    model.run()
    with pytest.raises(LogTruncationError) as raised:
        model.read()
    assert raised.value.divergent_offsets == {T0: OffsetAndMetadata(1, leader_epoch=0)}
    assert raised.value.fetch_offsets == {T0: 3}


def test_truncation_of_what_was_only_prefetched_is_not_seen() -> None:
    model = model_with(max_partition_fetch_bytes=100)
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.assign(T0)
    model.run(rounds=10)
    assert model.read(1) == [("t", 0, 0, b"a")]
    log.truncate(1)
    log.move(2)
    log.append(b"B")
    log.append(b"C")
    model.refresh()
    model.run()
    seen = model.read()
    model.run()
    assert seen + model.read() == [("t", 0, 1, b"B"), ("t", 0, 2, b"C")]


def test_out_of_range_resets_by_policy_once_everything_before_it_was_read() -> None:
    model = model_with(*[b"x"] * 3)
    model.assign(T0)
    model.run()
    log = model.logs[T0]
    log.batches.clear()
    log.start = 10
    log.append(b"y")
    model.run()
    assert offsets(model) == [0, 1, 2]
    assert offsets(model) == []
    model.run()
    assert offsets(model) == [10]


def test_out_of_range_without_a_policy_names_partition_and_offset_again_and_again() -> None:
    model = model_with(b"x", auto_offset_reset="none")
    model.subscription.assign([T0])
    model.subscription.seek(T0, 50)
    for _ in range(2):
        model.run()
        with pytest.raises(OffsetOutOfRangeError) as raised:
            model.read()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 50)
    model.subscription.seek(T0, 0)
    model.run()
    assert offsets(model) == [0]


def test_no_position_and_no_policy_is_an_error() -> None:
    model = model_with(b"x", auto_offset_reset="none")
    model.subscription.assign([T0])
    with pytest.raises(NoOffsetForPartitionError):
        model.subscription.start_uninitialized()


def test_near_replica_is_read_and_left_when_it_is_out_of_range() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.preferred = 3
    model.assign(T0)
    model.run(rounds=2)
    (request,) = model.poll()
    assert request.node == 3
    model.deliver()
    assert offsets(model) == [0]
    (request,) = model.poll()
    response = model.answer(request)
    response.responses = [response_with_error(request, 1)]
    model.outbox.clear()
    model.respond(request, response)
    (request,) = model.poll()
    assert request.node == log.leader
    assert offsets(model) == []


def response_with_error(request: object, code: int) -> object:
    from kclient.protocol.messages.fetch import FetchResponse

    message = request.build(12)  # type: ignore[attr-defined]
    return FetchResponse.FetchableTopicResponse(
        topic=message.topics[0].topic if message.topics else "t",
        partitions=[FetchResponse.PartitionData(partition_index=0, error_code=code)],
    )


def test_lost_request_starts_a_new_session_and_nothing_is_missing() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=3)
    model.poll()
    model.lose(model.outbox[0])
    model.logs[T0].append(b"b")
    model.now += 10
    model.run()
    assert offsets(model) == [0, 1]


def test_forgotten_session_is_opened_again() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=3)
    model.sessions[1].known.clear()
    model.logs[T0].append(b"b")
    model.run()
    assert offsets(model) == [0, 1]


def test_forbidden_topic_is_raised_after_the_records_before_it() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run()
    model.logs[T0].error = TopicAuthorizationError.code
    model.run()
    assert offsets(model) == [0]
    with pytest.raises(TopicAuthorizationError) as raised:
        model.read()
    assert raised.value.topic == "t"


def test_corrupt_batch_is_raised_where_it_stands_and_fetched_again() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.append(b"b")
    whole = log.batches[1].data
    log.batches[1].data = whole[:-1] + bytes([whole[-1] ^ 1])
    model.assign(T0)
    model.run()
    assert offsets(model) == [0]
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as raised:
            model.read()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 1)
        model.run()
    log.batches[1].data = whole
    with pytest.raises(CorruptRecordError):
        model.read()
    model.run()
    assert offsets(model) == [1]


def test_bytes_that_are_no_batch_are_an_error_and_not_a_silent_stop() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.batches[0].data = b"\0" * 100
    model.assign(T0)
    model.run()
    with pytest.raises(CorruptRecordError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 0)


def test_deserializer_that_fails_leaves_the_position_at_the_record() -> None:
    model = model_with(b"1", b"x", b"3", value_deserializer=int)
    model.assign(T0)
    model.run()
    assert [value for *_, value in model.read()] == [1]
    for _ in range(2):
        with pytest.raises(DeserializationError) as raised:
            model.read()
        assert raised.value.offset == 1
        position = model.subscription.state(T0).position
        assert position is not None
        assert position.offset == 1
    model.subscription.seek(T0, 2)
    model.run()
    assert [value for *_, value in model.read()] == [3]


def test_owner_is_woken_once_and_only_when_it_waits() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run()
    assert model.notified == 0
    assert offsets(model) == [0]
    assert offsets(model) == []
    model.logs[T0].append(b"b")
    model.run()
    model.logs[T0].append(b"c")
    model.run()
    assert model.notified == 1
    assert offsets(model) == [1, 2]


def test_unreachable_leader_asks_for_metadata_and_is_tried_again() -> None:
    model = model_with(b"a")
    model.subscription.assign([T0])
    model.subscription.seek(T0, 0)
    model.nodes.down.add(1)
    model.metadata.update_requested = False
    assert model.poll() == []
    assert model.metadata.update_requested
    model.nodes.down.clear()
    model.now += 1
    model.run()
    assert offsets(model) == [0]


def test_subscribed_topic_lets_new_partitions_join_from_their_beginning() -> None:
    model = Model(auto_offset_reset="latest")
    (log,) = model.add_topic("t")
    log.append(b"old")
    model.subscription.subscribe(choose("t"))
    model.refresh()
    model.subscription.start_uninitialized()
    model.run()
    assert model.read() == []
    log.append(b"new")
    logs = model.add_topic("t", 2)
    model.logs[T0] = log
    model.refresh()
    logs[1].append(b"first")
    model.subscription.start_uninitialized()
    model.run()
    assert sorted(model.read()) == [("t", 0, 1, b"new"), ("t", 1, 0, b"first")]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_topic_created_anew_is_read_from_its_beginning_after_the_old_one(policy: str) -> None:
    model = model_with(auto_offset_reset=policy)
    model.assign(T0)
    model.run()
    model.logs[T0].append(b"a", b"b", b"c")
    model.run()
    del model.logs[T0]
    model.ids.clear()
    model.ids["other"] = uuid.UUID(int=8)
    model.refresh()
    model.ids["t"] = uuid.UUID(int=9)
    model.logs[T0] = Log()
    model.logs[T0].append(b"x", b"y", b"z")
    model.logs[T0].append(b"!")
    model.now += 10
    model.run()
    assert [value for *_, value in model.read()] == [b"a", b"b", b"c"]
    seen: list[bytes] = []
    for _ in range(3):
        model.run()
        seen += [value for *_, value in model.read()]
    assert seen == [b"x", b"y", b"z", b"!"]


def recreate(model: Model, partitions: int) -> list[Log]:
    """Delete the topic `t` and create it again under another id."""
    for tp in list(model.logs):
        del model.logs[tp]
    model.ids.clear()
    model.refresh()
    model.ids["t"] = uuid.UUID(int=9)
    return model.add_topic("t", partitions)


def two_partitions_read(policy: str) -> Model:
    """A subscription to a topic that was created again with one partition, with unread records of its old two."""
    model = Model(auto_offset_reset=policy)
    logs = model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    for partition, log in zip((T0, T1), logs, strict=True):
        model.subscription.seek(partition, 0)
        log.append(b"old")
    model.run()
    (log,) = recreate(model, 1)
    log.append(b"new")
    assert sorted(model.read()) == [("t", 0, 0, b"old"), ("t", 1, 0, b"old")]
    assert set(model.subscription.partitions) == {T0, T1}
    return model


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_that_a_topic_created_again_does_not_have_goes_once_it_is_read(policy: str) -> None:
    model = two_partitions_read(policy)
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}
    model.run()
    assert model.read() == [("t", 0, 0, b"new")]


def test_a_partition_that_is_gone_needs_no_reset_policy() -> None:
    model = two_partitions_read("none")
    with pytest.raises(OffsetOutOfRangeError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition) == T0
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}


def test_a_partition_without_a_position_goes_at_once_with_its_topic() -> None:
    model = Model()
    model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    assert set(model.subscription.partitions) == {T0, T1}
    recreate(model, 1)
    assert set(model.subscription.partitions) == {T0}


def test_a_partition_that_comes_back_with_a_later_topic_is_read_from_its_beginning() -> None:
    model = Model(auto_offset_reset="latest")
    model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    model.subscription.start_uninitialized()
    model.run()
    recreate(model, 1)
    model.run()
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}
    model.add_topic("t", 2)[1].append(b"late")
    model.subscription.start_uninitialized()
    model.run()
    assert model.read() == [("t", 1, 0, b"late")]


def test_assigned_partitions_stay_whatever_becomes_of_their_topic() -> None:
    model = Model()
    model.add_topic("t", 2)
    model.assign(T0, T1)
    model.run()
    recreate(model, 1)
    model.run()
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0, T1}


def test_seek_of_a_subscribed_topic_need_not_wait_for_its_metadata() -> None:
    model = Model()
    model.subscription.subscribe(choose("t"))
    model.subscription.seek(T0, 2)
    (log,) = model.add_topic("t")
    log.append(b"a", b"b", b"c")
    model.subscription.start_uninitialized()
    model.run()
    assert offsets(model) == [2]
    with pytest.raises(IllegalStateError):
        model.subscription.seek(T1, 0)


def test_unknown_topic_is_an_error_when_patience_ends() -> None:
    model = Model()
    model.metadata.errors["nope"] = UnknownTopicOrPartitionError(topic="nope")
    model.assign(("nope", 0))
    model.refresh()
    model.poll()
    assert model.subscription.errors == []
    model.now = 61.0
    model.poll()
    (error,) = model.subscription.errors
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert error.topic == "nope"


def test_forbidden_metadata_is_an_error_at_once() -> None:
    model = Model()
    model.metadata.errors["secret"] = TopicAuthorizationError(topic="secret")
    model.subscription.subscribe(choose("secret"))
    model.refresh()
    model.poll()
    assert [error.topic for error in model.subscription.errors] == ["secret"]


def test_high_watermark_gives_the_lag() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    assert model.subscription.state(T0).lag(False) is None
    model.run()
    model.read(4)
    assert model.subscription.state(T0).lag(False) == 6


def test_reset_is_asked_of_the_leader_with_the_isolation_level() -> None:
    model = model_with(b"a", isolation_level="read_committed")
    model.assign(T0)
    (request,) = model.poll()
    assert request.request_type is ListOffsetsRequest
    message = built(request, ListOffsetsRequest, 11)
    assert (message.isolation_level, message.topics[0].partitions[0].timestamp) == (1, -2)
