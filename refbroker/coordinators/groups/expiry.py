"""What of a group goes by itself: offsets that were kept long enough, and groups that have nothing left.

An offset for which its client gave a time goes when that has come. The others go `offsets.retention.minutes` after
this moment:

    a group that had members and has none   when the last one left; of records that do not say it, its own commit
    a group of consumers that is stable     its commit, if nobody is subscribed to the topic
    any other group that has members        never
    offsets of a group without members ever its commit
    a consumer group                        its commit, if nobody is subscribed to the topic

An offset that an open transaction is to change stays. A group without members goes with its last offset, and one
that has none at once. The offsets of topics that are gone go when the topics do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from refbroker.coordinators.groups.classic.group import ClassicGroup, tombstone
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.records import group_tombstones
from refbroker.coordinators.groups.offsets import (
    NO_TIMESTAMP,
    CommittedOffset,
    CommittedOffsets,
    GroupPartition,
    offset_tombstone,
)
from refbroker.coordinators.records import CoordinatorRecord

BaseTimestamp = Callable[[CommittedOffset], int]


def expired_records(
    groups: Iterable[ClassicGroup | ConsumerGroup], offsets: CommittedOffsets, now_ms: int, retention_ms: int
) -> list[CoordinatorRecord]:
    """The tombstones of what goes now: offsets, and groups after the last of theirs."""
    records: list[CoordinatorRecord] = []
    for group in groups:
        expired = expired_offsets(group, offsets, now_ms, retention_ms)
        records.extend(map(offset_tombstone, expired))
        left = sum(map(len, offsets.of_group(group.group_id).values())) - len(expired)
        if group.is_empty and not left and not offsets.has_open_transactions(group.group_id):
            records += tombstones_of(group)
    return records


def tombstones_of(group: ClassicGroup | ConsumerGroup) -> list[CoordinatorRecord]:
    """The records that say that a group is gone."""
    return group_tombstones(group) if isinstance(group, ConsumerGroup) else [tombstone(group.group_id)]


def expired_offsets(
    group: ClassicGroup | ConsumerGroup, offsets: CommittedOffsets, now_ms: int, retention_ms: int
) -> list[GroupPartition]:
    """The offsets of a group that go now."""
    base = _base_timestamp(group)
    if base is None:
        return []
    return [
        place
        for topic, partitions in offsets.of_group(group.group_id).items()
        if not group.is_subscribed_to(topic)
        for place, committed in (
            (GroupPartition(group.group_id, topic, number), committed) for number, committed in partitions.items()
        )
        if _is_expired(committed, base, now_ms, retention_ms) and not offsets.is_unstable(place)
    ]


def _is_expired(committed: CommittedOffset, base: BaseTimestamp, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - base(committed) >= retention_ms


def _base_timestamp(group: ClassicGroup | ConsumerGroup) -> BaseTimestamp | None:
    """From when on the time counts that an offset is kept; None while it is kept anyway."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return _commit_timestamp
    if group.is_empty:
        since = group.state_timestamp_ms
        return _commit_timestamp if since is None else lambda committed: since
    known = group.uses_consumer_protocol and group.subscribed_topics is not None
    return _commit_timestamp if known and group.state is GroupState.STABLE else None


def _commit_timestamp(committed: CommittedOffset) -> int:
    return committed.commit_timestamp_ms


def records_of_deleted_topics(
    offsets: CommittedOffsets, topic_id: Callable[[str], UUID | None]
) -> list[CoordinatorRecord]:
    """The tombstones of offsets whose topics there are no more, or there are others of the same name.

    Parameters:
        topic_id: of a topic by its name, None when there is none.
    """
    gone: dict[GroupPartition, None] = {}
    for place, committed_to in offsets.with_topic_ids():
        now = topic_id(place.topic)
        # Older brokers did not write which topic it was.
        if now is None or (committed_to.int and committed_to != now):
            gone[place] = None
    return [offset_tombstone(place) for place in gone]
