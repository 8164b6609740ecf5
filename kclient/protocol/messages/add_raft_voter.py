"""Adds a controller to the voters of a KRaft quorum (KIP-853)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, map_key, since, uint16


@request(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest(Message):
    cluster_id: str | None = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: UUID = ZERO_UUID
    listeners: list[Listener] = array()
    ack_when_committed: Annotated[bool, since(1)] = True

    class Listener(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0


@response(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[str | None, ignorable] = ""
