"""Acknowledges records that a member of a share group has acquired (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import (
    ZERO_UUID,
    Struct,
    array,
    fresh,
    ignorable,
    int8,
    int16,
    int32,
    int64,
    map_key,
    since,
)


@request(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[AcknowledgeTopic] = array()

    class AcknowledgeTopic(Struct):
        topic_id: Annotated[UUID, map_key] = ZERO_UUID
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = array()

    class AcknowledgePartition(Struct):
        partition_index: Annotated[int32, map_key] = 0
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = array()

    class AcknowledgementBatch(Struct):
        first_offset: int64 = 0
        last_offset: int64 = 0
        acknowledge_types: list[int8] = array()


@response(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[int32, since(2), ignorable] = 0
    responses: list[ShareAcknowledgeTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array()

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: Annotated[UUID, map_key] = ZERO_UUID
        partitions: list[ShareAcknowledgeResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = fresh(
            lambda: ShareAcknowledgeResponse.LeaderIdAndEpoch()
        )

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = 0
        leader_epoch: int32 = 0

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: str | None = None
