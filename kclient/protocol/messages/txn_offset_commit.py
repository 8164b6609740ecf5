"""Stores a consumer group's offsets as part of a transaction (KIP-98).

Sent to the group's coordinator. The member's generation is checked from version 3 on (KIP-447);
from 5 on the coordinator adds the partition to the transaction (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, int64, since


@request(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: Annotated[int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = array()

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = ""
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = array()

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int32 = 0
        committed_offset: int64 = 0
        committed_leader_epoch: Annotated[int32, since(2), ignorable] = -1
        committed_metadata: str | None = ""


@response(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = array()

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = ""
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = array()

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
