"""Finds the end offset of a leader epoch, by which a truncated log is noticed (KIP-101, KIP-320).

Sent by consumers and following replicas to the leader of each partition.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, int64, map_key, since


@request(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    replica_id: Annotated[int32, since(3), ignorable] = -2
    topics: list[OffsetForLeaderTopic] = array()

    class OffsetForLeaderTopic(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = array()

    class OffsetForLeaderPartition(Struct):
        partition: int32 = 0
        current_leader_epoch: Annotated[int32, ignorable] = -1
        leader_epoch: int32 = 0


@response(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    topics: list[OffsetForLeaderTopicResult] = array()

    class OffsetForLeaderTopicResult(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = array()

    class EpochEndOffset(Struct):
        error_code: int16 = 0
        partition: int32 = 0
        leader_epoch: Annotated[int32, ignorable] = -1
        end_offset: int64 = -1
