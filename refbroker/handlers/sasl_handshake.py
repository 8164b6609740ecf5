"""SaslHandshake (17), versions 0 to 1: chooses the mechanism of a login (KIP-43).

After version 0 the messages of the mechanism follow without requests, after version 1 in SaslAuthenticate. On a
listener without SASL the response is ILLEGAL_SASL_STATE, as in Kafka.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kclient.errors import IllegalSaslStateError, UnsupportedSaslMechanismError
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from refbroker.handlers.context import Context
from refbroker.handlers.failed_logins import close_later
from refbroker.handlers.services import MetadataServices
from refbroker.runtime.error_codes import code_of


def handle(
    context: Context[MetadataServices], request: SaslHandshakeRequest
) -> SaslHandshakeResponse | asyncio.Future[Any]:
    """Answer a SaslHandshake request."""
    login = context.connection.authenticator
    if login is None:
        advice = context.broker.config.listeners.client_advice(context.connection.listener)
        context.connection.warn(f"its client logs in, and the listener has no SASL: {advice}")
        return SaslHandshakeResponse(error_code=IllegalSaslStateError.code)
    response = SaslHandshakeResponse(mechanisms=login.mechanisms)
    try:
        login.on_handshake(request.mechanism, context.version)
    except IllegalSaslStateError as error:
        response.error_code = code_of(error)
    except UnsupportedSaslMechanismError as error:
        response.error_code = code_of(error)
        return close_later(context, response, error)
    return response
