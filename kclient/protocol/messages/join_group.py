"""Makes a client a member of a group under the classic protocol.

The coordinator answers once all members have joined; the leader of the group gets the others'
metadata and computes the assignment. Static members came with version 5 (KIP-345), the reason with
8 (KIP-800).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, map_key, nullable, since


@request(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: Annotated[int32, since(1), ignorable] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: Annotated[str | None, since(8), ignorable] = None

    class JoinGroupRequestProtocol(Struct):
        name: Annotated[str, map_key] = ""
        metadata: bytes = b""


@response(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: Annotated[str | None, since(7), ignorable] = None
    protocol_name: Annotated[str | None, nullable("7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = array()

    class JoinGroupResponseMember(Struct):
        member_id: str = ""
        group_instance_id: Annotated[str | None, since(5), ignorable] = None
        metadata: bytes = b""
