"""Reads a snapshot of the metadata log in pieces (KIP-630)."""

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
    int16,
    int32,
    int64,
    map_key,
    since,
    tagged,
    uint16,
)


@request(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest(Message):
    cluster_id: Annotated[str | None, tagged(0)] = None
    replica_id: int32 = -1
    max_bytes: int32 = 0x7FFFFFFF
    topics: list[TopicSnapshot] = array()

    class TopicSnapshot(Struct):
        name: str = ""
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = array()

    class PartitionSnapshot(Struct):
        partition: int32 = 0
        current_leader_epoch: int32 = 0
        snapshot_id: FetchSnapshotRequest.SnapshotId = fresh(lambda: FetchSnapshotRequest.SnapshotId())
        position: int64 = 0
        replica_directory_id: Annotated[UUID, since(1), tagged(0), ignorable] = ZERO_UUID

    class SnapshotId(Struct):
        end_offset: int64 = 0
        epoch: int32 = 0


@response(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    error_code: int16 = 0
    topics: list[TopicSnapshot] = array()
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tagged(0)] = array()

    class TopicSnapshot(Struct):
        name: str = ""
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = array()

    class PartitionSnapshot(Struct):
        index: int32 = 0
        error_code: int16 = 0
        snapshot_id: FetchSnapshotResponse.SnapshotId = fresh(lambda: FetchSnapshotResponse.SnapshotId())
        current_leader: Annotated[FetchSnapshotResponse.LeaderIdAndEpoch, tagged(0)] = fresh(
            lambda: FetchSnapshotResponse.LeaderIdAndEpoch()
        )
        size: int64 = 0
        position: int64 = 0
        unaligned_records: Records = b""

    class SnapshotId(Struct):
        end_offset: int64 = 0
        epoch: int32 = 0

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = 0
        leader_epoch: int32 = 0

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: uint16 = 0
