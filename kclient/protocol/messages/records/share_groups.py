"""The records of `__consumer_offsets` that hold the state of share groups (KIP-932).

A key begins with the type of the record, a value with its version (`kclient.protocol.log_records`).
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int8, int32, int64, tagged


@message(api_key=10, versions="0")
class ShareGroupMemberMetadataKey(Message):
    """Key: what a member of a share group has said about itself."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """Value: what a member of a share group has said about itself."""

    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = array()


@message(api_key=11, versions="0")
class ShareGroupMetadataKey(Message):
    """Key: the epoch of a share group (KIP-932)."""

    group_id: str = ""


@message(api_key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """Value: the epoch of a share group (KIP-932)."""

    epoch: int32 = 0
    metadata_hash: int64 = 0


@message(api_key=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Key: the epoch of a share group's target assignment."""

    group_id: str = ""


@message(api_key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of a share group's target assignment."""

    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, tagged(0), ignorable] = 0


@message(api_key=13, versions="0")
class ShareGroupTargetAssignmentMemberKey(Message):
    """Key: the partitions a member of a share group is to have."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    """Value: the partitions a member of a share group is to have."""

    topic_partitions: list[TopicPartition] = array()

    class TopicPartition(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()


@message(api_key=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Key: the partitions a member of a share group has."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    """Value: the partitions a member of a share group has."""

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()


@message(api_key=15, versions="0")
class ShareGroupStatePartitionMetadataKey(Message):
    """Key: the share partitions of a group and how far their state is initialized."""

    group_id: str = ""


@message(api_key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """Value: the share partitions of a group and how far their state is initialized."""

    initializing_topics: list[TopicPartitionsInfo] = array()
    initialized_topics: list[TopicPartitionsInfo] = array()
    deleting_topics: list[TopicInfo] = array()

    class TopicPartitionsInfo(Struct):
        topic_id: UUID = ZERO_UUID
        topic_name: str = ""
        partitions: list[int32] = array()

    class TopicInfo(Struct):
        topic_id: UUID = ZERO_UUID
        topic_name: str = ""
