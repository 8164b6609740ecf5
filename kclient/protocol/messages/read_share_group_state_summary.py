"""Reads a summary of the stored state of share partitions (KIP-932).

Sent by the group coordinator to the share coordinator.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, int64, since


@request(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = ""
    topics: list[ReadStateSummaryData] = array()

    class ReadStateSummaryData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition: int32 = 0
        leader_epoch: int32 = 0


@response(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult] = array()

    class ReadStateSummaryResult(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
        state_epoch: int32 = 0
        leader_epoch: int32 = 0
        start_offset: int64 = 0
        delivery_complete_count: Annotated[int32, since(1), ignorable] = -1
