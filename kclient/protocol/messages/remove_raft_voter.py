"""Removes a controller from the voters of a KRaft quorum (KIP-853)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, ignorable, int16, int32


@request(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = ""
    voter_id: int32 = 0
    voter_directory_id: UUID = ZERO_UUID


@response(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[str | None, ignorable] = ""
