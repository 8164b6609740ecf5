"""Reads the start offsets of share groups (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, int64, since


@request(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array()

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = ""
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = array()

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = ""
        partitions: list[int32] = array()


@response(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array()

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = ""
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = array()
        error_code: int16 = 0
        error_message: str | None = None

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = ""
        topic_id: UUID = ZERO_UUID
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = array()

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int32 = 0
        start_offset: int64 = 0
        leader_epoch: int32 = 0
        lag: Annotated[int64, since(1), ignorable] = -1
        error_code: int16 = 0
        error_message: str | None = None
