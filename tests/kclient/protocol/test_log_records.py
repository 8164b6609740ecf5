"""Records of the internal logs, with their frames and prefixes."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.errors import ProtocolError
from kclient.protocol import Message, all_messages, log_records
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.records.consumer_offsets import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord, TopicRecord
from kclient.protocol.messages.records.transaction_state import TransactionLogKey, TransactionLogValue


def test_a_metadata_record_has_a_frame() -> None:
    record = TopicRecord(name="orders", topic_id=UUID(int=1))
    data = log_records.encode_metadata_record(record, 0)
    assert data == b"\x01\x02\x00" + record.encode(0)
    assert log_records.decode_metadata_record(memoryview(data)) == record


def test_every_metadata_record_is_found_by_its_type() -> None:
    records = [kind for kind in all_messages().values() if kind.__module__.endswith("metadata_log")]
    assert len(records) == 26
    for kind in records:
        data = log_records.encode_metadata_record(kind(), kind.max_version)
        assert type(log_records.decode_metadata_record(data)) is kind


@pytest.mark.parametrize(
    ("key", "prefix", "log"),
    [
        (LegacyOffsetCommitKey(group="g"), 0, "__consumer_offsets"),
        (OffsetCommitKey(group="g", topic="t", partition=3), 1, "__consumer_offsets"),
        (GroupMetadataKey(group="g"), 2, "__consumer_offsets"),
        (TransactionLogKey(transactional_id="t"), 0, "__transaction_state"),
    ],
)
def test_a_key_begins_with_its_type(key: Message, prefix: int, log: str) -> None:
    data = log_records.encode_key(key)
    assert data[:2] == prefix.to_bytes(2, "big")
    assert log_records.decode_key(data, log) == key


def test_every_key_has_its_value() -> None:
    keys = [kind for name, kind in all_messages().items() if name.endswith("Key") and "records" in kind.__module__]
    assert len(keys) == 23
    for kind in keys:
        value = log_records.value_type(kind())
        assert value.__name__ == kind.__name__.removesuffix("Key") + "Value"
        assert value.api_key == kind.api_key


def test_a_value_begins_with_its_version() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9)
    data = log_records.encode_versioned(value, 3)
    assert data[:2] == b"\0\3"
    assert log_records.decode_versioned(OffsetCommitValue, data) == value
    transaction = TransactionLogValue(producer_id=4, producer_epoch=0, transaction_partitions=[])
    assert (
        log_records.decode_versioned(TransactionLogValue, log_records.encode_versioned(transaction, 1)) == transaction
    )


def test_a_subscription_begins_with_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a"], rack_id="r")
    data = log_records.encode_versioned(subscription, 3)
    assert log_records.decode_versioned(ConsumerProtocolSubscription, data) == subscription


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x00\x02\x00", b"\x01\x63\x00", b"\x01\x0c\x05", b"\x01\x02\x00\x09"])
def test_a_bad_metadata_record_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        log_records.decode_metadata_record(data)
    assert FeatureLevelRecord.api_key == 12


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x63", b"\x00\x01\x00\x05a", b"\xff\xff"])
def test_a_bad_key_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        log_records.decode_key(data)


def test_what_is_no_key_has_no_value() -> None:
    with pytest.raises(ProtocolError):
        log_records.value_type(HeartbeatRequest())
