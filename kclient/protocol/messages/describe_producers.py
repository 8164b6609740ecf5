"""Describes the producers active on partitions, to find hanging transactions (KIP-664)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64


@request(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = array()

    class TopicRequest(Struct):
        name: str = ""
        partition_indexes: list[int32] = array()


@response(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = array()

    class TopicResponse(Struct):
        name: str = ""
        partitions: list[DescribeProducersResponse.PartitionResponse] = array()

    class PartitionResponse(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
        active_producers: list[DescribeProducersResponse.ProducerState] = array()

    class ProducerState(Struct):
        producer_id: int64 = 0
        producer_epoch: int32 = 0
        last_sequence: int32 = -1
        last_timestamp: int64 = -1
        coordinator_epoch: int32 = 0
        current_txn_start_offset: int64 = -1
