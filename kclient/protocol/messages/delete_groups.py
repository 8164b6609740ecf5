"""Deletes groups that have no members, with their committed offsets (KIP-229).

Sent to the coordinator of each group.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, map_key


@request(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[str] = array()


@response(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = array()

    class DeletableGroupResult(Struct):
        group_id: Annotated[str, map_key] = ""
        error_code: int16 = 0
