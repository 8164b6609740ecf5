"""Describes a KRaft quorum: its leader, voters and observers, and how far they are (KIP-595, KIP-836)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, int64, map_key, since, uint16


@request(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Message):
    topics: list[TopicData] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[DescribeQuorumRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0


@response(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    error_code: int16 = 0
    error_message: Annotated[str | None, since(2), ignorable] = ""
    topics: list[TopicData] = array()
    nodes: Annotated[list[Node], since(2)] = array()

    class TopicData(Struct):
        topic_name: str = ""
        partitions: list[DescribeQuorumResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: Annotated[str | None, since(2), ignorable] = ""
        leader_id: int32 = 0
        leader_epoch: int32 = 0
        high_watermark: int64 = 0
        current_voters: list[DescribeQuorumResponse.ReplicaState] = array()
        observers: list[DescribeQuorumResponse.ReplicaState] = array()

    class ReplicaState(Struct):
        replica_id: int32 = 0
        replica_directory_id: Annotated[UUID, since(2)] = ZERO_UUID
        log_end_offset: int64 = 0
        last_fetch_timestamp: Annotated[int64, since(1), ignorable] = -1
        last_caught_up_timestamp: Annotated[int64, since(1), ignorable] = -1

    class Node(Struct):
        node_id: Annotated[int32, map_key] = 0
        listeners: list[DescribeQuorumResponse.Listener] = array()

    class Listener(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0
