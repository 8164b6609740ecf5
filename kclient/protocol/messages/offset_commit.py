"""Stores the offsets a consumer group has consumed up to.

Sent to the group's coordinator. Version 9 takes the member epochs of the newer protocol (KIP-848),
10 topic ids.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, int64, since, until


@request(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[int32, ignorable] = -1
    member_id: Annotated[str, ignorable] = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[int64, until(4), ignorable] = -1
    topics: list[OffsetCommitRequestTopic] = array()

    class OffsetCommitRequestTopic(Struct):
        name: Annotated[str, until(9), ignorable] = ""
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = array()

    class OffsetCommitRequestPartition(Struct):
        partition_index: int32 = 0
        committed_offset: int64 = 0
        committed_leader_epoch: Annotated[int32, since(6), ignorable] = -1
        committed_metadata: str | None = ""


@response(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    topics: list[OffsetCommitResponseTopic] = array()

    class OffsetCommitResponseTopic(Struct):
        name: Annotated[str, until(9), ignorable] = ""
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = array()

    class OffsetCommitResponsePartition(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
