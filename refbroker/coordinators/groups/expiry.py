"""Expiry of committed offsets, and of groups that have neither members nor offsets.

An offset whose client gave a retention time expires at that time. Other offsets expire `offsets.retention.minutes`
after this moment:

    empty classic group that had members    the last member left; the commit, if the group's record lacks that time
    stable classic group of consumers       the commit, if no member is subscribed to the topic
    any other classic group with members    never
    group that never had members            the commit
    consumer group                          the commit, if no member is subscribed to the topic

An offset that is pending in an open transaction does not expire. An empty group is deleted with its last offset, or
at once if it has none. The offsets of a topic are deleted with the topic.
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
    """Return the tombstones of expired offsets, and of empty groups without further offsets."""
    records: list[CoordinatorRecord] = []
    for group in groups:
        expired = expired_offsets(group, offsets, now_ms, retention_ms)
        records.extend(map(offset_tombstone, expired))
        left = sum(map(len, offsets.of_group(group.group_id).values())) - len(expired)
        if group.is_empty and not left and not offsets.has_open_transactions(group.group_id):
            records += tombstones_of(group)
    return records


def tombstones_of(group: ClassicGroup | ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records that delete a group."""
    return group_tombstones(group) if isinstance(group, ConsumerGroup) else [tombstone(group.group_id)]


def expired_offsets(
    group: ClassicGroup | ConsumerGroup, offsets: CommittedOffsets, now_ms: int, retention_ms: int
) -> list[GroupPartition]:
    """Return the partitions whose committed offsets have expired."""
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
    """Return the start of an offset's retention time as a function; None while the group's offsets do not expire."""
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
    """Return the tombstones of offsets whose topics were deleted, or deleted and created again.

    Parameters:
        topic_id: returns the id of a topic by name; None if the topic does not exist.
    """
    gone: dict[GroupPartition, None] = {}
    for place, committed_to in offsets.with_topic_ids():
        now = topic_id(place.topic)
        # Records of older brokers have no topic id.
        if now is None or (committed_to.int and committed_to != now):
            gone[place] = None
    return [offset_tombstone(place) for place in gone]
