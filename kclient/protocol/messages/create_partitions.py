"""Adds partitions to topics (KIP-195).

Carried out by the controller, to which any broker forwards it.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, map_key


@request(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = array()
    timeout_ms: int32 = 0
    validate_only: bool = False

    class CreatePartitionsTopic(Struct):
        name: Annotated[str, map_key] = ""
        count: int32 = 0
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = array()

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int32] = array()


@response(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = array()

    class CreatePartitionsTopicResult(Struct):
        name: str = ""
        error_code: int16 = 0
        error_message: str | None = None
