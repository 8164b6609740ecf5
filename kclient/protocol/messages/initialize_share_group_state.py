"""Initializes the stored state of share partitions (KIP-932).

Sent by the group coordinator to the share coordinator.
"""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32, int64


@request(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    group_id: str = ""
    topics: list[InitializeStateData] = array()

    class InitializeStateData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition: int32 = 0
        state_epoch: int32 = 0
        start_offset: int64 = 0


@response(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    results: list[InitializeStateResult] = array()

    class InitializeStateResult(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
