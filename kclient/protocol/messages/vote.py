"""Asks the voters of a KRaft quorum for their vote, or beforehand whether they would give it (KIP-595, KIP-996)."""

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
    int64,
    map_key,
    since,
    tagged,
    uint16,
)


@request(api_key=52, versions="0-2", flexible="0+")
class VoteRequest(Message):
    cluster_id: str | None = None
    voter_id: Annotated[int32, since(1), ignorable] = -1
    topics: list[TopicData] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[VoteRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        replica_epoch: int32 = 0
        replica_id: int32 = 0
        replica_directory_id: Annotated[UUID, since(1), ignorable] = ZERO_UUID
        voter_directory_id: Annotated[UUID, since(1), ignorable] = ZERO_UUID
        last_offset_epoch: int32 = 0
        last_offset: int64 = 0
        pre_vote: Annotated[bool, since(2)] = False


@response(api_key=52, versions="0-2", flexible="0+")
class VoteResponse(Message):
    error_code: int16 = 0
    topics: list[TopicData] = array()
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tagged(0)] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[VoteResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        leader_id: int32 = 0
        leader_epoch: int32 = 0
        vote_granted: bool = False

    class NodeEndpoint(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: uint16 = 0
