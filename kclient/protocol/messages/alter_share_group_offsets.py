"""Sets the start offsets of a share group (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32, int64, map_key


@request(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = array()

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: Annotated[str, map_key] = ""
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = array()

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int32 = 0
        start_offset: int64 = 0


@response(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = array()

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: Annotated[str, map_key] = ""
        topic_id: UUID = ZERO_UUID
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = array()

    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
