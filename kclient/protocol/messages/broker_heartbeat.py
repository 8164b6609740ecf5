"""Keeps a broker's registration alive, and asks to fence, unfence or shut it down (KIP-631)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import array, int16, int32, int64, since, tagged


@request(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Annotated[list[UUID], since(1), tagged(0)] = array()
    cordoned_log_dirs: Annotated[list[UUID] | None, since(2), tagged(1)] = None


@response(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
