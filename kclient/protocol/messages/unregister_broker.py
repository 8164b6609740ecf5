"""Removes a broker from the cluster for good (KIP-631)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import int16, int32


@request(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    broker_id: int32 = 0


@response(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
