"""The committed offsets of groups, as the records of `__consumer_offsets` say, and changed by replaying them alone.

A commit is a record with group, topic and partition as its key, so that compaction keeps the latest; a tombstone says
that it is gone. Values are written in version 4, which has the topic's id, or in version 1 when the client gave a time
to keep it, as clients before 2.1 may. Records of all versions are read, those of ancient brokers (key 0) as well.

Offsets that a producer commits in its transaction are kept apart by producer until the transaction's marker comes: then
they count, except where a later record of the log, which need not be of a transaction, has said something else already.
What writes them is left out.
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
    """What an offset is committed for."""

    group: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """An offset that a group has committed.

    Attributes:
        offset: of the next record to consume.
        leader_epoch: of the record before it, -1 when the client did not say.
        metadata: whatever the client wants to have kept with it.
        commit_timestamp_ms: when.
        expire_timestamp_ms: when it goes, -1 when the broker's settings say it.
        topic_id: of the topic, zero in records of older brokers.
        record_offset: of its record in the log.
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
        """What a record says."""
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
        """The record that says it."""
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
    """The record that says that a committed offset is gone."""
    return CoordinatorRecord(OffsetCommitKey(*key))


_NO_TOPICS: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffsets:
    """The committed offsets of the groups in one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._count = 0
        self._pending: dict[int, dict[GroupPartition, CommittedOffset]] = {}
        # The producers that have a pending offset, by what it is for; and how many such there are of each group.
        self._open: dict[GroupPartition, set[int]] = {}
        self._open_of_group: dict[str, set[GroupPartition]] = {}

    def __len__(self) -> int:
        return self._count

    # Reading

    def of_group(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """What a group has committed, by topic and partition."""
        return self._groups.get(group, _NO_TOPICS)

    def get(self, key: GroupPartition) -> CommittedOffset | None:
        """A committed offset, None when there is none."""
        return self.of_group(key.group).get(key.topic, {}).get(key.partition)

    def is_unstable(self, key: GroupPartition) -> bool:
        """Whether a transaction that has not ended is to change an offset."""
        return key in self._open

    def has_open_transactions(self, group: str) -> bool:
        """Whether transactions that have not ended are to change offsets of a group."""
        return group in self._open_of_group

    def keys(self, group: str) -> list[GroupPartition]:
        """All that a group has offsets for, those of open transactions included, each once."""
        found = {
            GroupPartition(group, topic, partition): None
            for topic, partitions in self.of_group(group).items()
            for partition in partitions
        }
        found.update(dict.fromkeys(sorted(self._open_of_group.get(group, ()))))
        return list(found)

    def with_topic_ids(self) -> Iterator[tuple[GroupPartition, UUID]]:
        """Every offset there is, those of open transactions included, with the id of its topic."""
        for group, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield GroupPartition(group, topic, partition), committed.topic_id
        for pending in self._pending.values():
            for key, committed in pending.items():
                yield key, committed.topic_id

    # Replaying

    def replay(self, key: OffsetKey, value: OffsetValue | None, producer_id: int, record_offset: int) -> None:
        """Take over what a record says; -1 as producer when it is part of no transaction."""
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
        """Take over, or forget, what a producer wrote in its transaction."""
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
