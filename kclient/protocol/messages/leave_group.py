"""Takes members out of a classic group at once, instead of after their session timeout.

Several members at once from version 3, for administration (KIP-345); a reason from 5 (KIP-800).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, since, until


@request(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = array()

    class MemberIdentity(Struct):
        member_id: str = ""
        group_instance_id: str | None = None
        reason: Annotated[str | None, since(5), ignorable] = None


@response(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = array()

    class MemberResponse(Struct):
        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: int16 = 0
