"""Deletes the records of partitions below an offset (KIP-107).

Sent to the leader of each partition; offset -1 stands for the high watermark.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64, map_key


@request(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = array()
    timeout_ms: int32 = 0

    class DeleteRecordsTopic(Struct):
        name: str = ""
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = array()

    class DeleteRecordsPartition(Struct):
        partition_index: int32 = 0
        offset: int64 = 0


@response(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = array()

    class DeleteRecordsTopicResult(Struct):
        name: Annotated[str, map_key] = ""
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = array()

    class DeleteRecordsPartitionResult(Struct):
        partition_index: Annotated[int32, map_key] = 0
        low_watermark: int64 = 0
        error_code: int16 = 0
