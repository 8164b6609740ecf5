"""Wraps a request that a broker forwards to the controller on behalf of a client (KIP-590)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, message, request, response
from kclient.protocol.schema import int16


@request(api_key=58, versions="0", flexible="0+")
class EnvelopeRequest(Message):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@response(api_key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    response_data: bytes | None = None
    error_code: int16 = 0


@message(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """The principal in `EnvelopeRequest.request_principal`, as Kafka's default builder writes it."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
