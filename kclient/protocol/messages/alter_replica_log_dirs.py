"""Moves replicas between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, map_key


@request(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = array()

    class AlterReplicaLogDir(Struct):
        path: Annotated[str, map_key] = ""
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = array()

    class AlterReplicaLogDirTopic(Struct):
        name: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


@response(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = array()

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = ""
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = array()

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
