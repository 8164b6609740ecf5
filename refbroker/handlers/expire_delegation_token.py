"""ExpireDelegationToken (40), versions 1 to 2: lets a delegation token expire at a time, or removes it (KIP-48).

Permissions: none of the authorizer. The client must be the owner of the token or one of its renewers. A client on a
listener without SASL and client certificates, or with a token, is refused.
"""

from __future__ import annotations

from kclient.errors import KafkaError, UnsupportedByAuthenticationError
from kclient.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import TokenServices
from refbroker.handlers.token_permissions import ERROR_TIMESTAMP, check_may_manage_tokens
from refbroker.runtime.error_codes import code_of


def handle(
    context: Context[TokenServices], request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | Change:
    """Carry out an ExpireDelegationToken request."""
    try:
        check_may_manage_tokens(context)
        record, expires_ms = context.broker.token_control.expire(
            context.connection.principal, bytes(request.hmac), request.expiry_time_period_ms
        )
    except UnsupportedByAuthenticationError as error:
        return ExpireDelegationTokenResponse(error_code=code_of(error), expiry_timestamp_ms=ERROR_TIMESTAMP)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=code_of(error))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
    return Change([record], lambda: response)
