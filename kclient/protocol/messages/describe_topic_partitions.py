"""Describes topics partition by partition, in pages (KIP-966)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, map_key


@request(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    topics: list[TopicRequest] = array()
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None

    class TopicRequest(Struct):
        name: str = ""

    class Cursor(Struct):
        topic_name: str = ""
        partition_index: int32 = 0


@response(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = array()
    next_cursor: Cursor | None = None

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int16 = 0
        name: Annotated[str | None, map_key] = ""
        topic_id: Annotated[UUID, ignorable] = ZERO_UUID
        is_internal: Annotated[bool, ignorable] = False
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = array()
        topic_authorized_operations: int32 = -2147483648

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int16 = 0
        partition_index: int32 = 0
        leader_id: int32 = 0
        leader_epoch: Annotated[int32, ignorable] = -1
        replica_nodes: list[int32] = array()
        isr_nodes: list[int32] = array()
        eligible_leader_replicas: list[int32] | None = None
        last_known_elr: list[int32] | None = None
        offline_replicas: Annotated[list[int32], ignorable] = array()

    class Cursor(Struct):
        topic_name: str = ""
        partition_index: int32 = 0
