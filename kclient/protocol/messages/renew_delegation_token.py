"""Extends the life of a delegation token (KIP-48)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import int16, int32, int64, secret


@request(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: Annotated[bytes, secret] = b""
    renew_period_ms: int64 = 0


@response(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
