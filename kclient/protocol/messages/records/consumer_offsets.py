"""The records of `__consumer_offsets`: committed offsets, and the state of classic and consumer groups.

A key begins with the type of the record, a value with its version (`kclient.protocol.log_records`).
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import (
    ZERO_UUID,
    Struct,
    array,
    between,
    fresh,
    ignorable,
    int8,
    int32,
    int64,
    since,
    tagged,
)


@message(api_key=0, versions="0")
class LegacyOffsetCommitKey(Message):
    """Key: the committed offset of a group for a partition, as ancient brokers wrote it."""

    group: str = ""
    topic: str = ""
    partition: int32 = 0


@message(api_key=0, versions="0")
class LegacyOffsetCommitValue(Message):
    """Value: the committed offset of a group for a partition, as ancient brokers wrote it."""

    offset: int64 = 0
    metadata: str = ""
    commit_timestamp: int64 = 0


@message(api_key=1, versions="0")
class OffsetCommitKey(Message):
    """Key: the committed offset of a group for a partition."""

    group: str = ""
    topic: str = ""
    partition: int32 = 0


@message(api_key=1, versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """Value: the committed offset of a group for a partition."""

    offset: int64 = 0
    leader_epoch: Annotated[int32, since(3), ignorable] = -1
    metadata: str = ""
    commit_timestamp: int64 = 0
    expire_timestamp: Annotated[int64, between(1, 1), ignorable] = -1
    topic_id: Annotated[UUID, since(4), tagged(0), ignorable] = ZERO_UUID


@message(api_key=2, versions="0")
class GroupMetadataKey(Message):
    """Key: the state of a classic group."""

    group: str = ""


@message(api_key=2, versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    """Value: the state of a classic group."""

    protocol_type: str = ""
    generation: int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Annotated[int64, since(2), ignorable] = -1
    members: list[MemberMetadata] = array()

    class MemberMetadata(Struct):
        member_id: str = ""
        group_instance_id: Annotated[str | None, since(3), ignorable] = None
        client_id: str = ""
        client_host: str = ""
        rebalance_timeout: Annotated[int32, since(1), ignorable] = -1
        session_timeout: int32 = 0
        subscription: bytes = b""
        assignment: bytes = b""


@message(api_key=3, versions="0")
class ConsumerGroupMetadataKey(Message):
    """Key: the epoch of a consumer group (KIP-848)."""

    group_id: str = ""


@message(api_key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """Value: the epoch of a consumer group (KIP-848)."""

    epoch: int32 = 0
    metadata_hash: Annotated[int64, tagged(0)] = 0


@message(api_key=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """Key: the partitions of the topics a consumer group is subscribed to; not written any more."""

    group_id: str = ""


@message(api_key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """Value: the partitions of the topics a consumer group is subscribed to; not written any more."""

    topics: list[TopicMetadata] = array()

    class TopicMetadata(Struct):
        topic_id: UUID = ZERO_UUID
        topic_name: str = ""
        num_partitions: int32 = 0
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = array()

    class PartitionMetadata(Struct):
        partition: int32 = 0
        racks: list[str] = array()


@message(api_key=5, versions="0")
class ConsumerGroupMemberMetadataKey(Message):
    """Key: what a member of a consumer group has said about itself."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """Value: what a member of a consumer group has said about itself."""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = array()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: str | None = ""
    # Where the field is absent Java reads an empty struct, whatever its declaration says; so null is always sent.
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tagged(0)] = fresh(
        lambda: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
    )

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int32 = 0
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = array()

    class ClassicProtocol(Struct):
        name: str = ""
        metadata: bytes = b""


@message(api_key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Key: the epoch of a consumer group's target assignment."""

    group_id: str = ""


@message(api_key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of a consumer group's target assignment."""

    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, tagged(0), ignorable] = 0


@message(api_key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Key: the partitions a member of a consumer group is to have."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Value: the partitions a member of a consumer group is to have."""

    topic_partitions: list[TopicPartition] = array()

    class TopicPartition(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()


@message(api_key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Key: the partitions a member of a consumer group has."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Value: the partitions a member of a consumer group has."""

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = array()
    partitions_pending_revocation: list[TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()
        assignment_epochs: Annotated[list[int32] | None, tagged(0)] = None


@message(api_key=16, versions="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Key: the topics a regular expression of a consumer group matches."""

    group_id: str = ""
    regular_expression: str = ""


@message(api_key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """Value: the topics a regular expression of a consumer group matches."""

    topics: list[str] = array()
    version: int64 = 0
    timestamp: int64 = 0
