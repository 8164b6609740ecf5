"""Describes classic groups: state, protocol and members with their assignments.

Sent to the coordinator of each group. Version 6 reports unknown groups as errors (KIP-1043).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, since


@request(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    groups: list[str] = array()
    include_authorized_operations: Annotated[bool, since(3)] = False


@response(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    groups: list[DescribedGroup] = array()

    class DescribedGroup(Struct):
        error_code: int16 = 0
        error_message: Annotated[str | None, since(6)] = None
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[DescribeGroupsResponse.DescribedGroupMember] = array()
        authorized_operations: Annotated[int32, since(3)] = -2147483648

    class DescribedGroupMember(Struct):
        member_id: str = ""
        group_instance_id: Annotated[str | None, since(4), ignorable] = None
        client_id: str = ""
        client_host: str = ""
        member_metadata: bytes = b""
        member_assignment: bytes = b""
