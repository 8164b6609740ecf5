"""The records of `__consumer_offsets` that hold the state of streams groups (KIP-1071).

A key begins with the type of the record, a value with its version (`kclient.protocol.log_records`).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, int64, tagged, uint16


@message(api_key=17, versions="0")
class StreamsGroupMetadataKey(Message):
    """Key: the epoch of a streams group (KIP-1071)."""

    group_id: str = ""


@message(api_key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """Value: the epoch of a streams group (KIP-1071)."""

    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: Annotated[int32, tagged(0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, tagged(1)] = None

    class LastAssignmentConfig(Struct):
        key: str = ""
        value: str = ""


@message(api_key=19, versions="0")
class StreamsGroupMemberMetadataKey(Message):
    """Key: what a member of a streams group has said about itself."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """Value: what a member of a streams group has said about itself."""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = array()

    class Endpoint(Struct):
        host: str = ""
        port: uint16 = 0

    class KeyValue(Struct):
        key: str = ""
        value: str = ""


@message(api_key=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Key: the epoch of a streams group's target assignment."""

    group_id: str = ""


@message(api_key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of a streams group's target assignment."""

    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, tagged(0), ignorable] = 0


@message(api_key=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Key: the tasks a member of a streams group is to have."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """Value: the tasks a member of a streams group is to have."""

    active_tasks: list[TaskIds] = array()
    standby_tasks: list[TaskIds] = array()
    warmup_tasks: list[TaskIds] = array()

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[int32] = array()


@message(api_key=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Key: the tasks a member of a streams group has."""

    group_id: str = ""
    member_id: str = ""


@message(api_key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Value: the tasks a member of a streams group has."""

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: list[TaskIds] = array()
    standby_tasks: list[TaskIds] = array()
    warmup_tasks: list[TaskIds] = array()
    active_tasks_pending_revocation: list[TaskIds] = array()
    standby_tasks_pending_revocation: list[TaskIds] = array()
    warmup_tasks_pending_revocation: list[TaskIds] = array()

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[int32] = array()
        assignment_epochs: Annotated[list[int32] | None, tagged(0)] = None


@message(api_key=23, versions="0")
class StreamsGroupTopologyKey(Message):
    """Key: the topology of a streams group."""

    group_id: str = ""


@message(api_key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """Value: the topology of a streams group."""

    epoch: int32 = 0
    subtopologies: list[Subtopology] = array()

    class Subtopology(Struct):
        subtopology_id: str = ""
        source_topics: list[str] = array()
        source_topic_regex: list[str] = array()
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = array()
        repartition_sink_topics: list[str] = array()
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = array()
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = array()

    class TopicInfo(Struct):
        name: str = ""
        partitions: int32 = 0
        replication_factor: int16 = 0
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = array()

    class TopicConfig(Struct):
        key: str = ""
        value: str = ""

    class CopartitionGroup(Struct):
        source_topics: list[int16] = array()
        source_topic_regex: list[int16] = array()
        repartition_source_topics: list[int16] = array()
