"""Tells the voters of a KRaft quorum that the leader resigns (KIP-595)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import (
    ZERO_UUID,
    Struct,
    array,
    ignorable,
    int16,
    int32,
    map_key,
    since,
    tagged,
    uint16,
    until,
)


@request(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest(Message):
    cluster_id: str | None = None
    topics: list[TopicData] = array()
    leader_endpoints: Annotated[list[LeaderEndpoint], since(1), ignorable] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[EndQuorumEpochRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        leader_id: int32 = 0
        leader_epoch: int32 = 0
        preferred_successors: Annotated[list[int32], until(0), ignorable] = array()
        preferred_candidates: Annotated[list[EndQuorumEpochRequest.ReplicaInfo], since(1), ignorable] = array()

    class ReplicaInfo(Struct):
        candidate_id: int32 = 0
        candidate_directory_id: UUID = ZERO_UUID

    class LeaderEndpoint(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0


@response(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    error_code: int16 = 0
    topics: list[TopicData] = array()
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tagged(0)] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[EndQuorumEpochResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        leader_id: int32 = 0
        leader_epoch: int32 = 0

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: uint16 = 0
