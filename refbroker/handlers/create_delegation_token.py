"""CreateDelegationToken (38), versions 1 to 3: issues a delegation token (KIP-48), also for another owner (KIP-373).

Permissions: CREATE_TOKENS on the owner, a resource of the type USER, unless the owner is the client itself. A client on
a listener without SASL and client certificates, or with a token, is refused.
"""

from __future__ import annotations

from kclient.errors import (
    DelegationTokenAuthorizationError,
    InvalidPrincipalTypeError,
    KafkaError,
    UnknownServerError,
)
from kclient.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.protocol.messages.records.metadata_log import DelegationTokenRecord
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import TokenServices
from refbroker.handlers.token_permissions import ERROR_TIMESTAMP, check_may_manage_tokens
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CREATE_TOKENS_OF_USER
from refbroker.security.principals import ANONYMOUS, USER_TYPE, Principal

_FIRST_WITH_REQUESTER = 3


def handle(
    context: Context[TokenServices], request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | Change:
    """Carry out a CreateDelegationToken request."""
    requester = owner = context.connection.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            # Kafka fails in this way, too, and then names nobody.
            return _refuse(context, ANONYMOUS, ANONYMOUS, UnknownServerError(), ERROR_TIMESTAMP)
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
    try:
        _check(context, requester, owner, renewers)
    except KafkaError as error:
        return _refuse(context, owner, requester, error, ERROR_TIMESTAMP)
    tokens, control = context.broker.tokens, context.broker.token_control
    try:
        token = control.create(requester, owner, renewers, request.max_lifetime_ms)
    except KafkaError as error:
        # Kafka's controller leaves the times at 0, unlike its broker.
        return _refuse(context, owner, requester, error, 0)
    response = _response(context, owner, requester)
    _describe(response, token, tokens.hmac(token.token_id))
    return Change([token], lambda: response)


def _check(context: Context[TokenServices], requester: Principal, owner: Principal, renewers: list[Principal]) -> None:
    """Check that the client may create this token.

    Raises:
        UnsupportedByAuthenticationError: it may not create any.
        DelegationTokenAuthorizationError: it may not create tokens of this owner.
        InvalidPrincipalTypeError: a renewer is not a user.
    """
    check_may_manage_tokens(context)
    if owner != requester and not context.access.allows(CREATE_TOKENS_OF_USER, str(owner)):
        raise DelegationTokenAuthorizationError
    if any(renewer.type != USER_TYPE for renewer in renewers):
        raise InvalidPrincipalTypeError


def _response(context: Context[TokenServices], owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(principal_type=owner.type, principal_name=owner.name)
    if context.version >= _FIRST_WITH_REQUESTER:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response


def _describe(response: CreateDelegationTokenResponse, token: DelegationTokenRecord, hmac: bytes) -> None:
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.token_id
    response.hmac = hmac


def _refuse(
    context: Context[TokenServices], owner: Principal, requester: Principal, error: KafkaError, timestamp: int
) -> CreateDelegationTokenResponse:
    response = _response(context, owner, requester)
    response.error_code = code_of(error)
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = timestamp
    return response
