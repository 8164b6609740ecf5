"""Lists the groups a broker coordinates.

Filtered by state from version 4 (KIP-518) and by type from 5 (KIP-848).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, since


@request(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    states_filter: Annotated[list[str], since(4)] = array()
    types_filter: Annotated[list[str], since(5)] = array()


@response(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    groups: list[ListedGroup] = array()

    class ListedGroup(Struct):
        group_id: str = ""
        protocol_type: str = ""
        group_state: Annotated[str, since(4), ignorable] = ""
        group_type: Annotated[str, since(5), ignorable] = ""
