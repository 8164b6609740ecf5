"""Registers a broker with the controller (KIP-631)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, int64, map_key, since, uint16


@request(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Message):
    broker_id: int32 = 0
    cluster_id: str = ""
    incarnation_id: UUID = ZERO_UUID
    listeners: list[Listener] = array()
    features: list[Feature] = array()
    rack: str | None = ""
    is_migrating_zk_broker: Annotated[bool, since(1)] = False
    log_dirs: Annotated[list[UUID], since(2), ignorable] = array()
    previous_broker_epoch: Annotated[int64, since(3), ignorable] = -1

    class Listener(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0
        security_protocol: int16 = 0

    class Feature(Struct):
        name: Annotated[str, map_key] = ""
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0


@response(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
