"""Asks which metrics a broker wants from this client, and how often (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, array, int8, int16, int32


@request(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: UUID = ZERO_UUID


@response(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: UUID = ZERO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = array()
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = array()
