"""Reads the stored state of share partitions (KIP-932).

Sent by the leader of a share partition to the share coordinator.
"""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int8, int16, int32, int64


@request(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: str = ""
    topics: list[ReadStateData] = array()

    class ReadStateData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[ReadShareGroupStateRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition: int32 = 0
        leader_epoch: int32 = 0


@response(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = array()

    class ReadStateResult(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
        state_epoch: int32 = 0
        start_offset: int64 = 0
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = array()

    class StateBatch(Struct):
        first_offset: int64 = 0
        last_offset: int64 = 0
        delivery_state: int8 = 0
        delivery_count: int16 = 0
