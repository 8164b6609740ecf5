"""Reads record batches from partitions; sent by consumers and by following replicas.

The broker waits up to `max_wait_ms` for `min_bytes`. Version 7 adds incremental sessions (KIP-227),
9 and 12 leader epochs and truncation (KIP-320, KIP-595), 11 fetching from followers (KIP-392), 13
topic ids (KIP-516), 16 the new leader in errors (KIP-951), 17 directory ids of voters (KIP-853).
"""

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
    tagged,
    until,
)


@request(api_key=1, versions="4-18", flexible="12+")
class FetchRequest(Message):
    cluster_id: Annotated[str | None, since(12), tagged(0), ignorable] = None
    replica_id: Annotated[int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tagged(1)] = fresh(lambda: FetchRequest.ReplicaState())
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: Annotated[int32, ignorable] = 0x7FFFFFFF
    isolation_level: Annotated[int8, ignorable] = 0
    session_id: Annotated[int32, since(7), ignorable] = 0
    session_epoch: Annotated[int32, since(7), ignorable] = -1
    topics: list[FetchTopic] = array()
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = array()
    rack_id: Annotated[str, since(11), ignorable] = ""

    class ReplicaState(Struct):
        replica_id: int32 = -1
        replica_epoch: int64 = -1

    class FetchTopic(Struct):
        topic: Annotated[str, until(12), ignorable] = ""
        topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
        partitions: list[FetchRequest.FetchPartition] = array()

    class FetchPartition(Struct):
        partition: int32 = 0
        current_leader_epoch: Annotated[int32, since(9), ignorable] = -1
        fetch_offset: int64 = 0
        last_fetched_epoch: Annotated[int32, since(12)] = -1
        log_start_offset: Annotated[int64, since(5), ignorable] = -1
        partition_max_bytes: int32 = 0
        replica_directory_id: Annotated[UUID, since(17), tagged(0), ignorable] = ZERO_UUID
        high_watermark: Annotated[int64, since(18), tagged(1), ignorable] = 9223372036854775807

    class ForgottenTopic(Struct):
        topic: Annotated[str, until(12), ignorable] = ""
        topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
        partitions: list[int32] = array()


@response(api_key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    error_code: Annotated[int16, since(7), ignorable] = 0
    session_id: Annotated[int32, since(7)] = 0
    responses: list[FetchableTopicResponse] = array()
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tagged(0)] = array()

    class FetchableTopicResponse(Struct):
        topic: Annotated[str, until(12), ignorable] = ""
        topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
        partitions: list[FetchResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        high_watermark: int64 = 0
        last_stable_offset: Annotated[int64, ignorable] = -1
        log_start_offset: Annotated[int64, since(5), ignorable] = -1
        diverging_epoch: Annotated[FetchResponse.EpochEndOffset, since(12), tagged(0)] = fresh(
            lambda: FetchResponse.EpochEndOffset()
        )
        current_leader: Annotated[FetchResponse.LeaderIdAndEpoch, since(12), tagged(1)] = fresh(
            lambda: FetchResponse.LeaderIdAndEpoch()
        )
        snapshot_id: Annotated[FetchResponse.SnapshotId, since(12), tagged(2)] = fresh(
            lambda: FetchResponse.SnapshotId()
        )
        aborted_transactions: Annotated[list[FetchResponse.AbortedTransaction] | None, ignorable] = array()
        preferred_read_replica: Annotated[int32, since(11)] = -1
        records: Records | None = None

    class EpochEndOffset(Struct):
        epoch: int32 = -1
        end_offset: int64 = -1

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = -1
        leader_epoch: int32 = -1

    class SnapshotId(Struct):
        end_offset: int64 = -1
        epoch: int32 = -1

    class AbortedTransaction(Struct):
        producer_id: int64 = 0
        first_offset: int64 = 0

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: str | None = None
