"""Updates the addresses and supported versions of a voter of a KRaft quorum (KIP-853)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, fresh, int16, int32, map_key, tagged, uint16


@request(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest(Message):
    cluster_id: str | None = ""
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: UUID = ZERO_UUID
    listeners: list[Listener] = array()
    kraft_version_feature: KRaftVersionFeature = fresh(lambda: UpdateRaftVoterRequest.KRaftVersionFeature())

    class Listener(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0

    class KRaftVersionFeature(Struct):
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0


@response(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: Annotated[CurrentLeader, tagged(0)] = fresh(lambda: UpdateRaftVoterResponse.CurrentLeader())

    class CurrentLeader(Struct):
        leader_id: int32 = -1
        leader_epoch: int32 = -1
        host: str = ""
        port: int32 = 0
