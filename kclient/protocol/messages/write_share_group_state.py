"""Stores the state of share partitions (KIP-932).

Sent by the leader of a share partition to the share coordinator.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int8, int16, int32, int64, since


@request(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: list[WriteStateData] = array()

    class WriteStateData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[WriteShareGroupStateRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition: int32 = 0
        state_epoch: int32 = 0
        leader_epoch: int32 = 0
        start_offset: int64 = 0
        delivery_complete_count: Annotated[int32, since(1), ignorable] = -1
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = array()

    class StateBatch(Struct):
        first_offset: int64 = 0
        last_offset: int64 = 0
        delivery_state: int8 = 0
        delivery_count: int16 = 0


@response(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    results: list[WriteStateResult] = array()

    class WriteStateResult(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
