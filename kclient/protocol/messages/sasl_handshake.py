"""Picks the SASL mechanism for a connection.

Version 1 is followed by SaslAuthenticate requests (KIP-152); after version 0 the raw SASL tokens
follow.
"""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import array, int16


@request(api_key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    mechanism: str = ""


@response(api_key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    error_code: int16 = 0
    mechanisms: list[str] = array()
