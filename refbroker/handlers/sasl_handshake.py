"""SaslHandshake (17), versions 0 to 1: returns ILLEGAL_SASL_STATE, as Kafka does on a listener without SASL."""

from __future__ import annotations

from kclient.errors import IllegalSaslStateError
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from refbroker.handlers.context import Context


def handle(context: Context[object], request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer a SaslHandshake request."""
    return SaslHandshakeResponse(error_code=IllegalSaslStateError.code)
