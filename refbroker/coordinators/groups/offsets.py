"""The committed offsets of groups, which change only when records of `__consumer_offsets` are replayed.

A commit is a record whose key is group, topic and partition, so that compaction keeps the latest; a tombstone deletes
it. Values are written in version 4, which has the topic id, or in version 1 if the client gave a retention time, as
clients before 2.1 may. Records of all versions are read, including those of very old brokers (key version 0).

Offsets that a producer commits in a transaction are pending, by producer, until the transaction's marker is replayed.
A commit then applies them, except where a later record in the log, transactional or not, has replaced them already.

Elsewhere: `offset_requests` writes commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.protocol.messages.records.consumer_offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kclient.protocol.schema import ZERO_UUID
from refbroker.coordinators.records import CoordinatorRecord

NO_PRODUCER = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1
VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1

OffsetKey = OffsetCommitKey | LegacyOffsetCommitKey
OffsetValue = OffsetCommitValue | LegacyOffsetCommitValue


class GroupPartition(NamedTuple):
    """The group and partition that an offset is committed for."""

    group: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """An offset that a group has committed.

    Attributes:
        offset: the offset of the next record to consume.
        leader_epoch: the leader epoch of the last consumed record; -1 if unknown.
        metadata: the client's text.
        commit_timestamp_ms: the time of the commit.
        expire_timestamp_ms: the time of expiry; -1 if the broker's retention setting applies.
        topic_id: the topic id; zero in records of older brokers.
        record_offset: the offset of the commit's record in the log.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: UUID = ZERO_UUID
    record_offset: int = -1

    @classmethod
    def from_record(cls, value: OffsetValue, record_offset: int) -> CommittedOffset:
        """Return the committed offset in a record."""
        if isinstance(value, LegacyOffsetCommitValue):
            return cls(
                value.offset, NO_LEADER_EPOCH, value.metadata, value.commit_timestamp, record_offset=record_offset
            )
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def record(self, key: GroupPartition) -> CoordinatorRecord:
        """Return the record of this commit."""
        has_expiry = self.expire_timestamp_ms != NO_TIMESTAMP
        return CoordinatorRecord(
            OffsetCommitKey(*key),
            OffsetCommitValue(
                self.offset,
                self.leader_epoch,
                self.metadata,
                self.commit_timestamp_ms,
                self.expire_timestamp_ms,
                self.topic_id,
            ),
            VALUE_VERSION_WITH_EXPIRY if has_expiry else VALUE_VERSION,
        )


def offset_tombstone(key: GroupPartition) -> CoordinatorRecord:
    """Return the record that deletes a committed offset."""
    return CoordinatorRecord(OffsetCommitKey(*key))


_NO_TOPICS: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffsets:
    """The committed offsets of the groups in one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._count = 0
        self._pending: dict[int, dict[GroupPartition, CommittedOffset]] = {}
        # The producers with a pending offset for a partition, and the partitions with pending offsets of each group.
        self._open: dict[GroupPartition, set[int]] = {}
        self._open_of_group: dict[str, set[GroupPartition]] = {}

    def __len__(self) -> int:
        return self._count

    # Reading

    def of_group(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the committed offsets of a group, by topic and partition."""
        return self._groups.get(group, _NO_TOPICS)

    def get(self, key: GroupPartition) -> CommittedOffset | None:
        """Return a committed offset; None if the group has not committed one."""
        return self.of_group(key.group).get(key.topic, {}).get(key.partition)

    def is_unstable(self, key: GroupPartition) -> bool:
        """Return whether an open transaction has a pending offset for a partition."""
        return key in self._open

    def has_open_transactions(self, group: str) -> bool:
        """Return whether open transactions have pending offsets of a group."""
        return group in self._open_of_group

    def keys(self, group: str) -> list[GroupPartition]:
        """Return each partition for which a group has a committed or pending offset, once."""
        found = {
            GroupPartition(group, topic, partition): None
            for topic, partitions in self.of_group(group).items()
            for partition in partitions
        }
        found.update(dict.fromkeys(sorted(self._open_of_group.get(group, ()))))
        return list(found)

    def with_topic_ids(self) -> Iterator[tuple[GroupPartition, UUID]]:
        """Yield the partition and topic id of every committed and pending offset."""
        for group, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield GroupPartition(group, topic, partition), committed.topic_id
        for pending in self._pending.values():
            for key, committed in pending.items():
                yield key, committed.topic_id

    # Replaying

    def replay(self, key: OffsetKey, value: OffsetValue | None, producer_id: int, record_offset: int) -> None:
        """Apply a record; the producer id is -1 if the record is not part of a transaction."""
        place = GroupPartition(key.group, key.topic, key.partition)
        if value is None:
            self._remove(place)
            return
        committed = CommittedOffset.from_record(value, record_offset)
        if producer_id == NO_PRODUCER:
            self._put(place, committed)
            return
        self._pending.setdefault(producer_id, {})[place] = committed
        self._open.setdefault(place, set()).add(producer_id)
        self._open_of_group.setdefault(place.group, set()).add(place)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the pending offsets of a producer if its transaction was committed; discard them if it was aborted."""
        for place, pending in self._pending.pop(producer_id, {}).items():
            producers = self._open[place]
            producers.discard(producer_id)
            if not producers:
                self._close(place)
            known = self.get(place)
            # Compaction may have taken away a record that came between this one and the marker's, but not its effect.
            if committed and (known is None or pending.record_offset > known.record_offset):
                self._put(place, pending)

    def _put(self, place: GroupPartition, committed: CommittedOffset) -> None:
        partitions = self._groups.setdefault(place.group, {}).setdefault(place.topic, {})
        self._count += place.partition not in partitions
        partitions[place.partition] = committed

    def _remove(self, place: GroupPartition) -> None:
        topics = self._groups.get(place.group, {})
        partitions = topics.get(place.topic, {})
        if partitions.pop(place.partition, None) is not None:
            self._count -= 1
            if not partitions:
                del topics[place.topic]
            if not topics:
                del self._groups[place.group]
        for producer_id in self._open.get(place, ()):
            del self._pending[producer_id][place]
        if place in self._open:
            self._close(place)

    def _close(self, place: GroupPartition) -> None:
        del self._open[place]
        places = self._open_of_group[place.group]
        places.discard(place)
        if not places:
            del self._open_of_group[place.group]
