"""SaslAuthenticate (36), versions 0 to 2: carries the messages of a SASL mechanism (KIP-152).

From version 1 on, the last response of a login says when the session ends (KIP-368). On a listener without SASL the
response is ILLEGAL_SASL_STATE, as in Kafka.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kclient.errors import IllegalSaslStateError, SaslAuthenticationError
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from refbroker.handlers.context import Context
from refbroker.handlers.failed_logins import close_later
from refbroker.handlers.services import MetadataServices
from refbroker.runtime.error_codes import code_of


def handle(
    context: Context[MetadataServices], request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | asyncio.Future[Any]:
    """Answer a SaslAuthenticate request."""
    login = context.connection.authenticator
    if login is None:
        return SaslAuthenticateResponse(
            error_code=IllegalSaslStateError.code,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    try:
        token, lifetime_ms = login.on_token(bytes(request.auth_bytes))
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms, error_message=None)
    except IllegalSaslStateError as error:
        return SaslAuthenticateResponse(error_code=code_of(error), error_message=error.message)
    except SaslAuthenticationError as error:
        response = SaslAuthenticateResponse(error_code=code_of(error), error_message=error.message)
        return close_later(context, response, error)
