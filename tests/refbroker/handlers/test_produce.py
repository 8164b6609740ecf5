"""Produce: what is stored, what is refused, and with which errors."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTopicError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import BatchBuilder
from refbroker.handlers.context import CloseConnectionError
from tests.support.broker_harness import Harness, batch, produce_request


async def test_offsets_continue_where_they_ended(harness: Harness) -> None:
    harness.create("t")
    assert [harness.produce("t", b"a", b"b").base_offset, harness.produce("t", b"c").base_offset] == [0, 2]


async def test_partitions_fail_for_themselves(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    good, corrupt = batch(b"a"), bytearray(batch(b"a"))
    corrupt[-1] ^= 1
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=records)
        for index, records in ((0, good), (1, bytes(corrupt)), (2, good))
    ]
    other = ProduceRequest.TopicProduceData(topic_id=UUID(int=5), partition_data=data[:1])
    request = ProduceRequest(
        acks=-1, topic_data=[ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=data), other]
    )
    answer = harness.send(request, 13)
    codes = [[one.error_code for one in topic.partition_responses] for topic in answer.responses]
    assert codes == [
        [0, CorruptRecordError.code, UnknownTopicOrPartitionError.code],
        [UnknownTopicIdError.code],
    ]
    assert [topic.topic_id for topic in answer.responses] == [topic_id, UUID(int=5)]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, InvalidRecordError.code),
        (b"", InvalidRecordError.code),
        (b"garbage", InvalidRecordError.code),
        (b"\0" * 100, CorruptRecordError.code),
        (batch(b"a") + batch(b"b"), InvalidRecordError.code),
        (batch(b"a")[:-1], InvalidRecordError.code),
        (batch(b"x" * 2_000_000), RecordTooLargeError.code),
    ],
    ids=["null", "empty", "garbage", "zeros", "two batches", "cut off", "too large"],
)
async def test_what_is_no_good_batch_is_refused(harness: Harness, records: bytes | None, code: int) -> None:
    harness.create("t")
    answer = harness.produce_bytes("t", records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert harness.produce("t", b"a").base_offset == 0


async def test_acks_0_gets_no_answer_and_an_error_ends_the_connection(harness: Harness) -> None:
    harness.create("t")
    assert harness.produce("t", b"a", acks=0) is None
    with pytest.raises(CloseConnectionError, match="acks=0"):
        harness.produce("none", b"a", acks=0)
    assert harness.produce("t", b"a", acks=1).base_offset == 1
    assert harness.produce("t", b"a", acks=2).error_code == InvalidRequiredAcksError.code


async def test_more_replicas_than_there_are_need_not_be_in_sync(harness: Harness) -> None:
    harness.create("t", min_insync_replicas="2")
    assert harness.produce("t", b"a").error_code == 0
    harness.assign("t", 7)
    assert harness.produce("t", b"a").error_code == NotEnoughReplicasError.code
    assert harness.produce("t", b"a", acks=1).error_code == 0


async def test_the_records_that_are_refused_are_named(harness: Harness) -> None:
    harness.create("t", message_timestamp_after_max_ms="1000")
    answer = harness.produce("t", b"a", b"b", timestamp=harness.clock() + 5000)
    assert answer.error_code == InvalidTimestampError.code
    assert [record.batch_index for record in answer.record_errors] == [0, 1]
    assert "out of range" in answer.record_errors[0].batch_index_error_message
    assert answer.error_message


async def test_a_repeated_batch_is_stored_once_and_a_gap_refused(harness: Harness) -> None:
    harness.create("t")
    first = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    answers = [harness.produce_bytes("t", first) for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 0)]
    gap = batch(b"c", producer_id=5, producer_epoch=0, base_sequence=2)
    assert harness.produce_bytes("t", gap).error_code == OutOfOrderSequenceError.code
    harness.restart(clean=False)
    assert harness.produce_bytes("t", first).base_offset == 0
    assert harness.produce("t", b"d").base_offset == 1


async def test_the_brokers_time_is_in_the_answer_if_it_counts(harness: Harness) -> None:
    harness.create("t", message_timestamp_type="LogAppendTime")
    assert harness.produce("t", b"a", timestamp=1).log_append_time_ms == harness.clock()


async def test_a_topic_is_not_created_by_producing_to_it(harness: Harness) -> None:
    answer = harness.send(produce_request("t", batch(b"a")), 9)
    assert answer.responses[0].partition_responses[0].error_code == UnknownTopicOrPartitionError.code
    assert "t" not in harness.broker.metadata.image.topics


@pytest.mark.parametrize("compression_type", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_zstd_is_refused_of_clients_that_are_older_than_it(harness: Harness, compression_type: str) -> None:
    harness.create("t")
    builder = BatchBuilder(compression_type)
    builder.append(harness.clock(), None, b"v" * 100)
    request = produce_request("t", bytes(builder.build()))
    codes = [harness.send(request, version).responses[0].partition_responses[0].error_code for version in (6, 7)]
    assert codes == [UnsupportedCompressionTypeError.code if compression_type == "zstd" else 0, 0]


async def test_a_compacted_topic_says_which_partition_takes_no_records_without_key(harness: Harness) -> None:
    harness.create("t", cleanup_policy="compact")
    builder = BatchBuilder()
    builder.append(harness.clock(), None, b"v")
    answer = harness.produce_bytes("t", bytes(builder.build()))
    assert [record.batch_index_error_message for record in answer.record_errors] == [
        "Compacted topic cannot accept message without key in topic partition t-0"
    ]


async def test_a_topic_without_partitions_is_not_answered(harness: Harness) -> None:
    harness.create("t")
    nothing = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t")])
    assert harness.send(nothing, 9).responses == []


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
async def test_only_the_admin_client_writes_to_internal_topics(harness: Harness, name: str) -> None:
    harness.create(name)
    assert harness.produce(name, b"v").error_code == InvalidTopicError.code
    request = produce_request(name, batch(b"v", timestamp=harness.clock()))
    answer = harness.send(request, 9, client_id="__admin_client")
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert harness.broker.partitions.find(name, 0).log.log_end_offset == 1
