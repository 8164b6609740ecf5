"""Deletes the start offsets of a share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32


@request(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array()

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = ""


@response(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array()

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = ""
        topic_id: UUID = ZERO_UUID
        error_code: int16 = 0
        error_message: str | None = None
