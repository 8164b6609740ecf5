"""Registers a controller with the active one (KIP-919)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32, map_key, uint16


@request(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest(Message):
    controller_id: int32 = 0
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = array()
    features: list[Feature] = array()

    class Listener(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0
        security_protocol: int16 = 0

    class Feature(Struct):
        name: Annotated[str, map_key] = ""
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0


@response(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
