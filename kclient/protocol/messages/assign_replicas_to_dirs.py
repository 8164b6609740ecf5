"""Tells the controller in which log directory each replica lives (KIP-858)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32, int64


@request(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: list[DirectoryData] = array()

    class DirectoryData(Struct):
        id: UUID = ZERO_UUID
        topics: list[AssignReplicasToDirsRequest.TopicData] = array()

    class TopicData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0


@response(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[DirectoryData] = array()

    class DirectoryData(Struct):
        id: UUID = ZERO_UUID
        topics: list[AssignReplicasToDirsResponse.TopicData] = array()

    class TopicData(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
