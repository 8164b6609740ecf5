"""RenewDelegationToken (39), versions 1 to 2: lets a delegation token expire later (KIP-48).

Permissions: none of the authorizer. The client must be the owner of the token or one of its renewers. A client on a
listener without SASL and client certificates, or with a token, is refused.
"""

from __future__ import annotations

from kclient.errors import KafkaError, UnsupportedByAuthenticationError
from kclient.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import TokenServices
from refbroker.handlers.token_permissions import ERROR_TIMESTAMP, check_may_manage_tokens
from refbroker.runtime.error_codes import code_of


def handle(
    context: Context[TokenServices], request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | Change:
    """Carry out a RenewDelegationToken request."""
    try:
        check_may_manage_tokens(context)
        token = context.broker.token_control.renew(
            context.connection.principal, bytes(request.hmac), request.renew_period_ms
        )
    except UnsupportedByAuthenticationError as error:
        return RenewDelegationTokenResponse(error_code=code_of(error), expiry_timestamp_ms=ERROR_TIMESTAMP)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=code_of(error))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=token.expiration_timestamp)
    return Change([token], lambda: response)
