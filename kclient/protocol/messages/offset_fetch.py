"""Reads the offsets a consumer group has committed.

Sent to the group's coordinator. Several groups at once from version 8 (KIP-709); `require_stable`
waits for open transactions (KIP-447); version 9 takes member epochs (KIP-848), 10 topic ids.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import (
    ZERO_UUID,
    Struct,
    array,
    between,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    until,
)


@request(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Message):
    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable("2-7")] = array()
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = array()
    require_stable: Annotated[bool, since(7)] = False

    class OffsetFetchRequestTopic(Struct):
        name: str = ""
        partition_indexes: list[int32] = array()

    class OffsetFetchRequestGroup(Struct):
        group_id: str = ""
        member_id: Annotated[str | None, since(9), ignorable] = None
        member_epoch: Annotated[int32, since(9), ignorable] = -1
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = array()

    class OffsetFetchRequestTopics(Struct):
        name: Annotated[str, until(9), ignorable] = ""
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        partition_indexes: list[int32] = array()


@response(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = array()
    error_code: Annotated[int16, between(2, 7), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = array()

    class OffsetFetchResponseTopic(Struct):
        name: str = ""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = array()

    class OffsetFetchResponsePartition(Struct):
        partition_index: int32 = 0
        committed_offset: int64 = 0
        committed_leader_epoch: Annotated[int32, since(5), ignorable] = -1
        metadata: str | None = ""
        error_code: int16 = 0

    class OffsetFetchResponseGroup(Struct):
        group_id: str = ""
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = array()
        error_code: int16 = 0

    class OffsetFetchResponseTopics(Struct):
        name: Annotated[str, until(9), ignorable] = ""
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = array()

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int32 = 0
        committed_offset: int64 = 0
        committed_leader_epoch: Annotated[int32, ignorable] = -1
        metadata: str | None = ""
        error_code: int16 = 0
