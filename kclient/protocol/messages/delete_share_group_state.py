"""Deletes the stored state of share partitions (KIP-932).

Sent by the group coordinator to the share coordinator.
"""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32


@request(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: list[DeleteStateData] = array()

    class DeleteStateData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition: int32 = 0


@response(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult] = array()

    class DeleteStateResult(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
