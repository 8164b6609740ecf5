"""Deletes committed offsets of a group for topics it is not subscribed to (KIP-496)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, map_key


@request(api_key=47, versions="0")
class OffsetDeleteRequest(Message):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = array()

    class OffsetDeleteRequestTopic(Struct):
        name: Annotated[str, map_key] = ""
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = array()

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int32 = 0


@response(api_key=47, versions="0")
class OffsetDeleteResponse(Message):
    error_code: int16 = 0
    throttle_time_ms: Annotated[int32, ignorable] = 0
    topics: list[OffsetDeleteResponseTopic] = array()

    class OffsetDeleteResponseTopic(Struct):
        name: Annotated[str, map_key] = ""
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = array()

    class OffsetDeleteResponsePartition(Struct):
        partition_index: Annotated[int32, map_key] = 0
        error_code: int16 = 0
