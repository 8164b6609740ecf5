"""Finds offsets by time: the first at or after a timestamp, or one of the special ones.

Timestamp -1 asks for the latest offset, -2 the earliest, -3 the one of the largest timestamp
(KIP-734), -4 the earliest local one, -5 the latest in tiered storage (KIP-1005), -6 the earliest
still to be uploaded there (KIP-1023).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, int64, since


@request(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Message):
    replica_id: int32 = 0
    isolation_level: Annotated[int8, since(2)] = 0
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: Annotated[int32, since(10), ignorable] = 0

    class ListOffsetsTopic(Struct):
        name: str = ""
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = array()

    class ListOffsetsPartition(Struct):
        partition_index: int32 = 0
        current_leader_epoch: Annotated[int32, since(4), ignorable] = -1
        timestamp: int64 = 0


@response(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = array()

    class ListOffsetsTopicResponse(Struct):
        name: str = ""
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = array()

    class ListOffsetsPartitionResponse(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        timestamp: int64 = -1
        offset: int64 = -1
        leader_epoch: Annotated[int32, since(4)] = -1
