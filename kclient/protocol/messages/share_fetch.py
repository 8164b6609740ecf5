"""Acquires records for a member of a share group, and acknowledges earlier ones (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import (
    ZERO_UUID,
    Records,
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
    until,
)


@request(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 0x7FFFFFFF
    max_records: int32 = 0
    batch_size: int32 = 0
    share_acquire_mode: Annotated[int8, since(2), ignorable] = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = array()

    class FetchTopic(Struct):
        topic_id: Annotated[UUID, map_key] = ZERO_UUID
        partitions: list[ShareFetchRequest.FetchPartition] = array()

    class FetchPartition(Struct):
        partition_index: Annotated[int32, map_key] = 0
        partition_max_bytes: Annotated[int32, until(0)] = 0
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = array()

    class AcknowledgementBatch(Struct):
        first_offset: int64 = 0
        last_offset: int64 = 0
        acknowledge_types: list[int8] = array()

    class ForgottenTopic(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()


@response(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: list[ShareFetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array()

    class ShareFetchableTopicResponse(Struct):
        topic_id: Annotated[UUID, map_key] = ZERO_UUID
        partitions: list[ShareFetchResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: str | None = None
        acknowledge_error_code: int16 = 0
        acknowledge_error_message: str | None = None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = fresh(lambda: ShareFetchResponse.LeaderIdAndEpoch())
        records: Records = b""
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = array()

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = 0
        leader_epoch: int32 = 0

    class AcquiredRecords(Struct):
        first_offset: int64 = 0
        last_offset: int64 = 0
        delivery_count: int16 = 0

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: str | None = None
