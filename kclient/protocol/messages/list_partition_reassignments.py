"""Lists the moves of partitions that are under way (KIP-455)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32


@request(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None

    class ListPartitionReassignmentsTopics(Struct):
        name: str = ""
        partition_indexes: list[int32] = array()


@response(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = array()

    class OngoingTopicReassignment(Struct):
        name: str = ""
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = array()

    class OngoingPartitionReassignment(Struct):
        partition_index: int32 = 0
        replicas: list[int32] = array()
        adding_replicas: list[int32] = array()
        removing_replicas: list[int32] = array()
