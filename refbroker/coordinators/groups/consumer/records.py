"""The records of consumer groups in Kafka's format, and their replay.

    ConsumerGroupMetadata                 the group's epoch, and the hash of its topics
    ConsumerGroupPartitionMetadata        as brokers before 4.1 wrote it; only ever deleted here
    ConsumerGroupMemberMetadata           the subscription and properties of a member
    ConsumerGroupTargetAssignmentMetadata the epoch of the target assignment
    ConsumerGroupTargetAssignmentMember   the target assignment of a member
    ConsumerGroupCurrentMemberAssignment  the current assignment of a member, its epoch and state
    ConsumerGroupRegularExpression        the topics that a regular expression matches

When a member leaves, three tombstones are written; for a deleted group one of each kind, that of the group last.
Compaction may remove any of the older records, so the replay of each kind creates the group if it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from refbroker.coordinators.groups.assignors.spec import Assignment
from refbroker.coordinators.groups.classic.member import GroupProtocol
from refbroker.coordinators.groups.consumer.group import ConsumerGroup, ResolvedPattern
from refbroker.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ClassicMetadata,
    ConsumerMember,
    PartitionEpochs,
)
from refbroker.coordinators.groups.consumer.states import MemberState
from refbroker.coordinators.records import CoordinatorRecord

CurrentPartitions = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_Classic = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
_Protocol = ConsumerGroupMemberMetadataValue.ClassicProtocol

# Making


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group's epoch."""
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the topics record that brokers before 4.1 wrote."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id))


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's subscription."""
    classic = None
    if member.classic is not None:
        classic = _Classic(
            member.classic.session_timeout_ms, [_Protocol(one.name, one.metadata) for one in member.classic.protocols]
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the target assignment's epoch and time."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target."""
    partition = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            [partition(topic, sorted(numbers)) for topic, numbers in target.items()]
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous_epoch,
            member.state.value,
            _current_partitions(member.assigned),
            _current_partitions(member.revoking),
        ),
    )


def _current_partitions(held: PartitionEpochs) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(topic, sorted(epochs), [epochs[number] for number in sorted(epochs)])
        for topic, epochs in held.items()
    ]


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> CoordinatorRecord:
    """Return the record of the topics that a regular expression matches."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id, pattern),
        ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms),
    )


def pattern_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    """Return the tombstone of a regular expression without members."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id, pattern))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id)),
    ]


def group_tombstones(group: ConsumerGroup, members: Iterable[str] | None = None) -> list[CoordinatorRecord]:
    """Return the tombstones of a group.

    Parameters:
        members: the members in the log, if they differ from the group's.
    """
    group_id = group.group_id
    ids = list(group.members if members is None else members)
    return [
        *(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)) for member_id in ids),
        *(CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)) for member_id in ids),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id)),
        *(CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id)) for member_id in ids),
        *(pattern_tombstone(group_id, pattern) for pattern in group.patterns),
        partition_metadata_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id)),
    ]


def group_records(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """Yield all records of a group except for regular expressions."""
    group_id, members = group.group_id, group.members
    for member in members.values():
        yield member_record(group_id, member)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member_id in members:
        yield target_record(group_id, member_id, group.targets.get(member_id, {}))
    yield target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms)
    for member in members.values():
        yield current_record(group_id, member)


# Replaying


def _replay_epoch(group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: Message) -> None:
    assert isinstance(value, ConsumerGroupMetadataValue)
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_partition_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: object) -> None:
    group.has_partition_metadata = value is not None


def _replay_member(group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: Message | None) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    classic = value.classic_member_metadata
    group.put_member(
        member.with_(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms,
                [GroupProtocol(one.name, one.metadata) for one in classic.supported_protocols],
            ),
        )
    )


def _replay_target_epoch(
    group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMetadataKey, value: Message | None
) -> None:
    if value is None:
        group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
        return
    assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
    group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp


def _replay_target(group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: Message | None) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
        return
    assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
    group.targets[key.member_id] = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}


def _replay_current(group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey, value: Message | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put_member(member.with_(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, revoking={}))
        return
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    group.put_member(
        (member or ConsumerMember(key.member_id)).with_(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_read_partitions(value.assigned_partitions, value.member_epoch),
            revoking=_read_partitions(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _read_partitions(held: Iterable[CurrentPartitions], member_epoch: int) -> dict[UUID, dict[int, int]]:
    """Return the partitions with epochs: brokers before 4.3 did not write them, so the member's epoch is used."""
    found = {}
    for topic in held:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, JOIN_EPOCH)] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _replay_pattern(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Message | None) -> None:
    if value is None:
        group.patterns.pop(key.regular_expression, None)
        return
    assert isinstance(value, ConsumerGroupRegularExpressionValue)
    # They are in the order in which they were resolved: the first one has the oldest time.
    group.patterns.pop(key.regular_expression, None)
    group.patterns[key.regular_expression] = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)


_REPLAY: dict[type[Message], Callable[..., None]] = {
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    ConsumerGroupRegularExpressionKey: _replay_pattern,
}


def replay(groups: dict[str, ConsumerGroup], key: Message, value: Message | None) -> ConsumerGroup | None:
    """Apply a record if it belongs to a consumer group; return the group if it is new."""
    take_over = _REPLAY.get(type(key))
    if take_over is None:
        return None
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        groups.pop(group_id, None)
        return None
    if group is not None:
        take_over(group, key, value)
        return None
    if value is None:
        return None
    group = groups[group_id] = ConsumerGroup(group_id)
    take_over(group, key, value)
    return group
