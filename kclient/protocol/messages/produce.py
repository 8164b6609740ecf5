"""Appends record batches to partitions; sent by producers to the leader of each partition.

`acks` 0 has no response at all. From version 9 fields are tagged (KIP-482), 10 names the new leader
in an error (KIP-951), 12 starts transactions implicitly (KIP-890), 13 names topics by id (KIP-516).
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import (
    ZERO_UUID,
    Records,
    Struct,
    array,
    fresh,
    ignorable,
    int16,
    int32,
    int64,
    map_key,
    since,
    tagged,
    until,
)


@request(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest(Message):
    transactional_id: str | None = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = array()

    class TopicProduceData(Struct):
        name: Annotated[str, until(12), ignorable, map_key] = ""
        topic_id: Annotated[UUID, since(13), ignorable, map_key] = ZERO_UUID
        partition_data: list[ProduceRequest.PartitionProduceData] = array()

    class PartitionProduceData(Struct):
        index: int32 = 0
        records: Records | None = None


@response(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: Annotated[int32, ignorable] = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tagged(0)] = array()

    class TopicProduceResponse(Struct):
        name: Annotated[str, until(12), ignorable, map_key] = ""
        topic_id: Annotated[UUID, since(13), ignorable, map_key] = ZERO_UUID
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = array()

    class PartitionProduceResponse(Struct):
        index: int32 = 0
        error_code: int16 = 0
        base_offset: int64 = 0
        log_append_time_ms: Annotated[int64, ignorable] = -1
        log_start_offset: Annotated[int64, since(5), ignorable] = -1
        record_errors: Annotated[list[ProduceResponse.BatchIndexAndErrorMessage], since(8), ignorable] = array()
        error_message: Annotated[str | None, since(8), ignorable] = None
        current_leader: Annotated[ProduceResponse.LeaderIdAndEpoch, since(10), tagged(0)] = fresh(
            lambda: ProduceResponse.LeaderIdAndEpoch()
        )

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int32 = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = -1
        leader_epoch: int32 = -1

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: str | None = None
