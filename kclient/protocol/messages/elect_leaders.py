"""Elects leaders of partitions: the preferred ones, or unclean ones (KIP-460)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32, map_key, since


@request(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    election_type: Annotated[int8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None = array()
    timeout_ms: int32 = 60000

    class TopicPartitions(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


@response(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = array()

    class ReplicaElectionResult(Struct):
        topic: str = ""
        partition_result: list[ElectLeadersResponse.PartitionResult] = array()

    class PartitionResult(Struct):
        partition_id: int32 = 0
        error_code: int16 = 0
        error_message: str | None = ""
