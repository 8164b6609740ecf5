"""Carries the tokens of a SASL exchange (KIP-152).

Version 1 tells how long the session lasts before it has to be authenticated again (KIP-368).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ignorable, int16, int64, secret, since


@request(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: Annotated[bytes, secret] = b""


@response(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int16 = 0
    error_message: str | None = ""
    auth_bytes: Annotated[bytes, secret] = b""
    session_lifetime_ms: Annotated[int64, since(1), ignorable] = 0
