"""DescribeDelegationToken (41), versions 1 to 3: returns delegation tokens with their HMACs (KIP-48, KIP-373).

Owners in the request select the tokens that they own, have requested or may renew. Without a list the response has all
tokens, with an empty one it has none.

Permissions: for a token that the client does not own, has not requested and may not renew, DESCRIBE on the token, or
DESCRIBE_TOKENS on the owner, a resource of the type USER; other tokens are omitted. A client on a listener without SASL
and client certificates, or with a token, is refused.
"""

from __future__ import annotations

from kclient.errors import DelegationTokenDisabledError, UnsupportedByAuthenticationError
from kclient.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kclient.protocol.messages.records.metadata_log import DelegationTokenRecord
from refbroker.handlers.context import Context
from refbroker.handlers.services import TokenServices
from refbroker.handlers.token_permissions import check_may_manage_tokens
from refbroker.metadata.tokens import parties
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_OF_USER
from refbroker.security.principals import Principal

_FIRST_WITH_REQUESTER = 3
Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


def handle(context: Context[TokenServices], request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Answer a DescribeDelegationToken request."""
    try:
        check_may_manage_tokens(context)
    except UnsupportedByAuthenticationError as error:
        return DescribeDelegationTokenResponse(error_code=code_of(error))
    if not context.broker.tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=code_of(DelegationTokenDisabledError))
    owners = None
    if request.owners is not None:
        owners = {str(Principal(owner.principal_type, owner.principal_name)) for owner in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _describe(context, token)
            for token in context.broker.image.tokens.values()
            if (owners is None or owners & parties(token)) and _may_describe(context, token)
        ]
    )


def _may_describe(context: Context[TokenServices], token: DelegationTokenRecord) -> bool:
    return (
        str(context.connection.principal) in parties(token)
        or context.access.allows(DESCRIBE_DELEGATION_TOKEN, token.token_id)
        or context.access.allows(DESCRIBE_TOKENS_OF_USER, token.owner)
    )


def _describe(context: Context[TokenServices], token: DelegationTokenRecord) -> Described:
    owner = Principal.parse(token.owner)
    described = Described(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=context.broker.tokens.hmac(token.token_id),
        renewers=[
            Renewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in map(Principal.parse, token.renewers)
        ],
    )
    if context.version >= _FIRST_WITH_REQUESTER:
        requester = Principal.parse(token.requester)
        described.token_requester_principal_type, described.token_requester_principal_name = requester
    return described
