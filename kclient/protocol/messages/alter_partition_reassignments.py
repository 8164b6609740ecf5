"""Starts or cancels moving partitions to other brokers (KIP-455).

Null replicas cancel a move.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, since


@request(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[ReassignableTopic] = array()

    class ReassignableTopic(Struct):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = array()

    class ReassignablePartition(Struct):
        partition_index: int32 = 0
        replicas: list[int32] | None = None


@response(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: Annotated[bool, since(1), ignorable] = True
    error_code: int16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = array()

    class ReassignableTopicResponse(Struct):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = array()

    class ReassignablePartitionResponse(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        error_message: str | None = ""
