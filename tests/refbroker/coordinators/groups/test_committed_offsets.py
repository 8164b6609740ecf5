"""The committed offsets of groups, made of records alone: values of all versions, tombstones, transactions."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.records.consumer_offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refbroker.coordinators.groups.offsets import CommittedOffset, CommittedOffsets, GroupPartition, offset_tombstone
from refbroker.coordinators.records import decode_record

PLACE = GroupPartition("g", "t", 0)
KEY = OffsetCommitKey("g", "t", 0)
TOPIC_ID = UUID(int=5)
NO_PRODUCER, PRODUCER, OTHER = -1, 7, 8


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset, 2, "m", 1000, -1, TOPIC_ID)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, CommittedOffset(9, -1, "m", 1000)),
        (1, CommittedOffset(9, -1, "m", 1000, 2000)),
        (2, CommittedOffset(9, -1, "m", 1000)),
        (3, CommittedOffset(9, 2, "m", 1000)),
        (4, CommittedOffset(9, 2, "m", 1000, -1, TOPIC_ID)),
    ],
)
def test_values_of_all_versions_are_read(version: int, expected: CommittedOffset) -> None:
    data = encode_versioned(OffsetCommitValue(9, 2, "m", 1000, 2000, TOPIC_ID), version)
    offsets = CommittedOffsets()
    key, read = decode_record(OFFSET_KEY, data, "__consumer_offsets")
    assert isinstance(key, OffsetCommitKey)
    assert isinstance(read, OffsetCommitValue)
    offsets.replay(key, read, NO_PRODUCER, 44)
    assert offsets.get(PLACE) == expected._replace(record_offset=44)


OFFSET_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"


def test_the_bytes_are_kafkas() -> None:
    key, data = CommittedOffset(9, 2, "m", 1000, -1, TOPIC_ID).record(PLACE).encode()
    assert key == OFFSET_KEY
    assert data is not None
    assert data.hex() == "0004000000000000000900000002026d00000000000003e8010010" + TOPIC_ID.hex
    key, data = CommittedOffset(9, 2, "m", 1000, 2000).record(PLACE).encode()
    assert data is not None
    assert data.hex() == "0001000000000000000900016d00000000000003e800000000000007d0"
    assert offset_tombstone(PLACE).encode() == (OFFSET_KEY, None)


def test_records_of_ancient_brokers_are_read() -> None:
    offsets = CommittedOffsets()
    key = LegacyOffsetCommitKey("g", "t", 0)
    offsets.replay(key, LegacyOffsetCommitValue(9, "m", 1000), NO_PRODUCER, 3)
    assert offsets.get(PLACE) == CommittedOffset(9, -1, "m", 1000, record_offset=3)
    offsets.replay(key, None, NO_PRODUCER, 4)
    assert offsets.get(PLACE) is None


def test_the_last_record_counts_and_a_tombstone_takes_it_away() -> None:
    offsets = CommittedOffsets()
    for number in range(3):
        offsets.replay(KEY, value(number), NO_PRODUCER, number)
    offsets.replay(OffsetCommitKey("g", "t", 1), value(5), NO_PRODUCER, 3)
    assert (len(offsets), offsets.of_group("g")["t"][0].offset) == (2, 2)
    for _ in range(2):
        offsets.replay(KEY, None, NO_PRODUCER, 4)
        assert (len(offsets), list(offsets.of_group("g")["t"])) == (1, [1])
    offsets.replay(OffsetCommitKey("g", "t", 1), None, NO_PRODUCER, 5)
    assert (len(offsets), dict(offsets.of_group("g"))) == (0, {})


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    offsets = CommittedOffsets()
    offsets.replay(KEY, value(1), NO_PRODUCER, 0)
    offsets.replay(KEY, value(2), PRODUCER, 1)
    assert offsets.get(PLACE) == CommittedOffset.from_record(value(1), 0)
    assert offsets.is_unstable(PLACE)
    assert offsets.has_open_transactions("g")
    assert offsets.keys("g") == [PLACE]
    offsets.end_transaction(OTHER, committed=True)
    assert offsets.is_unstable(PLACE)
    offsets.end_transaction(PRODUCER, committed=True)
    assert offsets.get(PLACE) == CommittedOffset.from_record(value(2), 1)
    assert not offsets.is_unstable(PLACE)
    assert not offsets.has_open_transactions("g")
    assert len(offsets) == 1


def test_offsets_of_a_transaction_are_forgotten_when_it_is_aborted() -> None:
    offsets = CommittedOffsets()
    offsets.replay(KEY, value(2), PRODUCER, 1)
    offsets.replay(KEY, value(3), OTHER, 2)
    offsets.end_transaction(PRODUCER, committed=False)
    assert offsets.is_unstable(PLACE)
    offsets.end_transaction(OTHER, committed=False)
    assert (offsets.get(PLACE), len(offsets), offsets.is_unstable(PLACE)) == (None, 0, False)
    assert offsets.keys("g") == []


def test_a_commit_after_that_of_a_transaction_stays() -> None:
    offsets = CommittedOffsets()
    offsets.replay(KEY, value(2), PRODUCER, 1)
    offsets.replay(KEY, value(3), NO_PRODUCER, 2)
    offsets.end_transaction(PRODUCER, committed=True)
    assert offsets.get(PLACE) == CommittedOffset.from_record(value(3), 2)


def test_a_tombstone_takes_away_what_transactions_were_to_change() -> None:
    offsets = CommittedOffsets()
    offsets.replay(KEY, value(2), PRODUCER, 1)
    offsets.replay(OffsetCommitKey("g", "t", 1), value(4), PRODUCER, 2)
    offsets.replay(KEY, None, NO_PRODUCER, 3)
    assert not offsets.is_unstable(PLACE)
    offsets.end_transaction(PRODUCER, committed=True)
    assert (offsets.get(PLACE), len(offsets)) == (None, 1)
