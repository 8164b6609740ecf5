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
from refbroker.runtime.threads import in_thread
from refbroker.security.sasl import Answer, Authenticator, StepResult


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
    message = bytes(request.auth_bytes)
    try:
        return _handle_later(context, login, message) if login.blocks else _response(login.on_token(message))
    except IllegalSaslStateError as error:
        return SaslAuthenticateResponse(error_code=code_of(error), error_message=error.message)
    except SaslAuthenticationError as error:
        return close_later(context, _refusal(error), error)


def _handle_later(
    context: Context[MetadataServices], login: Authenticator, message: bytes
) -> asyncio.Future[SaslAuthenticateResponse]:
    """Make the step of a mechanism in a worker thread, and return the response to come."""
    answer: asyncio.Future[SaslAuthenticateResponse] = asyncio.get_running_loop().create_future()
    step = asyncio.ensure_future(in_thread(login.begin_step(message)))

    def end(done: asyncio.Future[StepResult]) -> None:
        if answer.done() or done.cancelled():
            return
        try:
            answer.set_result(_response(login.end_step(done.result())))
        except SaslAuthenticationError as error:
            close_later(context, _refusal(error), error, answer)
        except Exception as error:  # noqa: BLE001 - the connection handles it
            answer.set_exception(error)

    step.add_done_callback(end)
    return answer


def _response(answer: Answer) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        auth_bytes=answer.token or b"", session_lifetime_ms=answer.session_lifetime_ms, error_message=None
    )


def _refusal(error: SaslAuthenticationError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code_of(error), error_message=error.message)
