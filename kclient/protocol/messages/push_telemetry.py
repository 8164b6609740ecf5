"""Sends a client's metrics to a broker, as serialized OpenTelemetry data (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, int8, int16, int32


@request(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Message):
    client_instance_id: UUID = ZERO_UUID
    subscription_id: int32 = 0
    terminating: bool = False
    compression_type: int8 = 0
    metrics: bytes = b""


@response(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
