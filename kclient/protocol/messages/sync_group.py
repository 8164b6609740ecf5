"""Hands out the assignment of a classic group, which its leader sends and the others wait for.

Static members came with version 3 (KIP-345), protocol type and name with 5 (KIP-559).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, null_as_empty, since


@request(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = array()

    class SyncGroupRequestAssignment(Struct):
        member_id: str = ""
        assignment: bytes = b""


@response(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    # The mock cluster of librdkafka sends null beside an error.
    assignment: Annotated[bytes, null_as_empty] = b""
