"""SaslAuthenticate (36), versions 0 to 2: returns ILLEGAL_SASL_STATE, as Kafka does on a listener without SASL."""

from __future__ import annotations

from kclient.errors import IllegalSaslStateError
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from refbroker.handlers.context import Context


def handle(context: Context[object], request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answer a SaslAuthenticate request."""
    return SaslAuthenticateResponse(
        error_code=IllegalSaslStateError.code,
        error_message="SaslAuthenticate request received after successful authentication",
    )
