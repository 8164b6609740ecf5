"""Describes a broker's log directories and what is in them (KIP-113).

Version 4 adds the size of the volumes (KIP-827).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, int64, map_key, since


@request(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = array()

    class DescribableLogDirTopic(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


@response(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(3), ignorable] = 0
    results: list[DescribeLogDirsResult] = array()

    class DescribeLogDirsResult(Struct):
        error_code: int16 = 0
        log_dir: str = ""
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = array()
        total_bytes: Annotated[int64, since(4), ignorable] = -1
        usable_bytes: Annotated[int64, since(4), ignorable] = -1
        is_cordoned: Annotated[bool, since(5), ignorable] = False

    class DescribeLogDirsTopic(Struct):
        name: str = ""
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = array()

    class DescribeLogDirsPartition(Struct):
        partition_index: int32 = 0
        partition_size: int64 = 0
        offset_lag: int64 = 0
        is_future_key: bool = False
