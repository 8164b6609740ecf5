"""Keeps a member of a classic group alive, and tells it when to join again.

Static members came with version 3 (KIP-345).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ignorable, int16, int32, since


@request(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None


@response(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
