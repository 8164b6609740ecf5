"""Makes and keeps a Kafka Streams client a member of a streams group, and brings its tasks (KIP-1071)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, fresh, int8, int16, int32, int64, uint16


@request(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False

    class Topology(Struct):
        epoch: int32 = 0
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = array()

    class Subtopology(Struct):
        subtopology_id: str = ""
        source_topics: list[str] = array()
        source_topic_regex: list[str] = array()
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array()
        repartition_sink_topics: list[str] = array()
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array()
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = array()

    class TopicInfo(Struct):
        name: str = ""
        partitions: int32 = 0
        replication_factor: int16 = 0
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = array()

    class KeyValue(Struct):
        key: str = ""
        value: str = ""

    class CopartitionGroup(Struct):
        source_topics: list[int16] = array()
        source_topic_regex: list[int16] = array()
        repartition_source_topics: list[int16] = array()

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[int32] = array()

    class Endpoint(Struct):
        host: str = ""
        port: uint16 = 0

    class TaskOffset(Struct):
        subtopology_id: str = ""
        partition: int32 = 0
        offset: int64 = 0


@response(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag: int32 = 0
    task_offset_interval_ms: int32 = 0
    status: list[Status] | None = array()
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None

    class Status(Struct):
        status_code: int8 = 0
        status_detail: str = ""

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[int32] = array()

    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = fresh(lambda: StreamsGroupHeartbeatResponse.Endpoint())
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array()
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array()

    class Endpoint(Struct):
        host: str = ""
        port: uint16 = 0

    class TopicPartition(Struct):
        topic: str = ""
        partitions: list[int32] = array()
