"""Describes streams groups: state, topology, and members with their tasks (KIP-1071)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, fresh, int16, int32, int64, uint16


@request(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    group_ids: list[str] = array()
    include_authorized_operations: bool = False


@response(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = array()

    class DescribedGroup(Struct):
        error_code: int16 = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int32 = 0
        assignment_epoch: int32 = 0
        topology: StreamsGroupDescribeResponse.Topology | None = None
        members: list[StreamsGroupDescribeResponse.Member] = array()
        authorized_operations: int32 = -2147483648

    class Topology(Struct):
        epoch: int32 = 0
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = None

    class Subtopology(Struct):
        subtopology_id: str = ""
        source_topics: list[str] = array()
        repartition_sink_topics: list[str] = array()
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array()
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array()

    class TopicInfo(Struct):
        name: str = ""
        partitions: int32 = 0
        replication_factor: int16 = 0
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = array()

    class KeyValue(Struct):
        key: str = ""
        value: str = ""

    class Member(Struct):
        member_id: str = ""
        member_epoch: int32 = 0
        instance_id: str | None = None
        rack_id: str | None = None
        client_id: str = ""
        client_host: str = ""
        topology_epoch: int32 = 0
        process_id: str = ""
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = array()
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array()
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array()
        assignment: StreamsGroupDescribeResponse.Assignment = fresh(lambda: StreamsGroupDescribeResponse.Assignment())
        target_assignment: StreamsGroupDescribeResponse.Assignment = fresh(
            lambda: StreamsGroupDescribeResponse.Assignment()
        )
        is_classic: bool = False

    class Endpoint(Struct):
        host: str = ""
        port: uint16 = 0

    class TaskOffset(Struct):
        subtopology_id: str = ""
        partition: int32 = 0
        offset: int64 = 0

    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array()
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array()
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array()

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[int32] = array()
