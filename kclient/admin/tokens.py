"""Delegation tokens: create, renew, expire and describe them (KIP-48, KIP-373).

A program that may log in creates a token and passes it to others, which log in with it as the owner of the token, until
it expires. They can neither create tokens nor renew theirs.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable

import msgspec

from kclient.admin.arguments import duration, several, text
from kclient.admin.core import AdminCore
from kclient.errors import ConfigError, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kclient.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kclient.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kclient.security.secret import Secret

_DEFAULT_MS = -1
_REMOVE_MS = -1
_FIRST_WITH_OWNER = 3


class DelegationToken(msgspec.Struct, frozen=True):
    """A delegation token; a client that has its id and its HMAC can log in as its owner.

    Attributes:
        token_id: the id, by which a client logs in with SCRAM.
        hmac: the HMAC in base64, which is the password.
        owner: the principal of clients that log in with the token, such as "User:anne".
        requester: the principal that created it; empty for a broker before Kafka 3.3.
        renewers: the principals that may renew it and let it expire, besides the owner.
        issue_timestamp: when it was created, in milliseconds since the epoch.
        expiry_timestamp: when it expires unless it is renewed.
        max_timestamp: when it expires in any case.
    """

    token_id: str
    hmac: Secret
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    def jaas_config(self) -> Secret:
        """Return the option `sasl_jaas_config` of a client that logs in with the token by SCRAM.

        The text, which `reveal` returns, is also the `sasl.jaas.config` of a Java client.
        """
        return Secret(
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{self.token_id}" password="{self.hmac.reveal()}" tokenauth="true";'
        )


def create_delegation_token(
    core: AdminCore,
    owner: str | None,
    renewers: str | Iterable[str],
    max_lifetime: float | None,
    deadline: Deadline,
) -> Operation[DelegationToken]:
    name = deadline.name
    owner_type, owner_name = (None, None) if owner is None else _principal(owner, f"{name}(owner=)")
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=renewer)
            for kind, renewer in _principals(renewers, f"{name}(renewers=)")
        ],
        max_lifetime_ms=_DEFAULT_MS if max_lifetime is None else _milliseconds(max_lifetime, f"{name}(max_lifetime=)"),
    )
    without_owner = msgspec.structs.replace(request, owner_principal_type="", owner_principal_name="")
    answer: CreateDelegationTokenResponse = yield from core.request_until_answered(
        ANY_NODE,
        CreateDelegationTokenRequest,
        lambda version: request if version >= _FIRST_WITH_OWNER else without_owner,
        deadline,
        None if owner is None else _FIRST_WITH_OWNER,
    )
    raise_for_code(answer.error_code)
    return DelegationToken(
        token_id=answer.token_id,
        hmac=_secret(answer.hmac),
        owner=_written(answer.principal_type, answer.principal_name),
        requester=_written(answer.token_requester_principal_type, answer.token_requester_principal_name),
        renewers=tuple(_written(each.principal_type, each.principal_name) for each in request.renewers),
        issue_timestamp=answer.issue_timestamp_ms,
        expiry_timestamp=answer.expiry_timestamp_ms,
        max_timestamp=answer.max_timestamp_ms,
    )


def renew_delegation_token(
    core: AdminCore, hmac: str | Secret, renew_period: float | None, deadline: Deadline
) -> Operation[int]:
    period = _DEFAULT_MS if renew_period is None else _milliseconds(renew_period, f"{deadline.name}(renew_period=)")
    request = RenewDelegationTokenRequest(hmac=_decoded(hmac, deadline.name), renew_period_ms=period)
    answer: RenewDelegationTokenResponse = yield from core.request_until_answered(
        ANY_NODE, RenewDelegationTokenRequest, lambda version: request, deadline
    )
    raise_for_code(answer.error_code)
    return answer.expiry_timestamp_ms


def expire_delegation_token(
    core: AdminCore, hmac: str | Secret, expiry_period: float | None, deadline: Deadline
) -> Operation[int]:
    what = f"{deadline.name}(expiry_period=)"
    period = _REMOVE_MS if expiry_period is None else _milliseconds(expiry_period, what, allows_zero=True)
    request = ExpireDelegationTokenRequest(hmac=_decoded(hmac, deadline.name), expiry_time_period_ms=period)
    answer: ExpireDelegationTokenResponse = yield from core.request_until_answered(
        ANY_NODE, ExpireDelegationTokenRequest, lambda version: request, deadline
    )
    raise_for_code(answer.error_code)
    return answer.expiry_timestamp_ms


def describe_delegation_token(
    core: AdminCore, owners: str | Iterable[str] | None, deadline: Deadline
) -> Operation[list[DelegationToken]]:
    wanted = None
    if owners is not None:
        wanted = [
            DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in _principals(owners, f"{deadline.name}(owners=)")
        ]
    request = DescribeDelegationTokenRequest(owners=wanted)
    answer: DescribeDelegationTokenResponse = yield from core.request_until_answered(
        ANY_NODE, DescribeDelegationTokenRequest, lambda version: request, deadline
    )
    raise_for_code(answer.error_code)
    return sorted(map(_described, answer.tokens), key=lambda token: (token.issue_timestamp, token.token_id))


def _described(token: DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token_id=token.token_id,
        hmac=_secret(token.hmac),
        owner=_written(token.principal_type, token.principal_name),
        requester=_written(token.token_requester_principal_type, token.token_requester_principal_name),
        renewers=tuple(_written(each.principal_type, each.principal_name) for each in token.renewers),
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
    )


def _principals(given: str | Iterable[str], what: str) -> list[tuple[str, str]]:
    return [_principal(each, what) for each in several(given, str, what)]


def _principal(given: str, what: str) -> tuple[str, str]:
    """Return the type and the name of a principal.

    Raises:
        ConfigError: the text has no type.
    """
    kind, colon, name = text(given, what).partition(":")
    if not colon:
        raise ConfigError(f'{what} takes a principal with its type, such as "User:anne", not {given!r}')
    return kind, name


def _written(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind or name else ""


def _milliseconds(given: float, what: str, *, allows_zero: bool = False) -> int:
    """Return a duration in milliseconds, rounded up.

    Raises:
        ConfigError: it is negative, or zero where the broker would take that for its default.
    """
    seconds = duration(given, what)
    if seconds < 0 or (seconds == 0 and not allows_zero):
        least = "0 or more" if allows_zero else "more than 0"
        raise ConfigError(f"{what} takes {least} seconds, not {given!r}")
    return math.ceil(seconds * 1000)


def _secret(hmac: bytes) -> Secret:
    return Secret(b64encode(hmac).decode())


def _decoded(hmac: str | Secret, what: str) -> bytes:
    """Return the bytes of an HMAC; errors do not show it.

    Raises:
        ConfigError: it is not base64.
    """
    if not isinstance(hmac, str | Secret):
        raise TypeError(f"{what} takes the HMAC of a token in base64, not a {type(hmac).__name__}")
    try:
        return b64decode(Secret(hmac).reveal(), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{what} takes the HMAC of a token in base64, and this is not base64") from None
