"""Changes of delegation tokens: their checks and records, and the removal of tokens that have expired.

Checks and their order are Kafka's. Elsewhere: who may ask for a change (the handlers), the tokens themselves
(`refbroker.metadata.tokens`). Source: KIP-48, KIP-373, Kafka's DelegationTokenControlManager and
DelegationTokenManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from kclient.errors import (
    DelegationTokenDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import DelegationTokenRecord, RemoveDelegationTokenRecord
from refbroker.controller.active import ActiveController
from refbroker.log.checkpoints import encode_uuid, random_uuid
from refbroker.metadata.tokens import DelegationTokens
from refbroker.metadata.versions import DELEGATION_TOKENS
from refbroker.security.principals import Principal

logger = logging.getLogger(__name__)

MOST_REMOVED = 1000
"""How many expired tokens one batch of the log removes."""
_MAX_LIFETIME, _EXPIRY_TIME = "delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"
_LAST_MS = 2**63 - 1


class DelegationTokenControl:
    """The changes of the delegation tokens of a cluster.

    Parameters:
        controller: appends the removal of tokens.
        tokens: the tokens.
        clock: returns milliseconds since the epoch.
    """

    def __init__(self, controller: ActiveController, tokens: DelegationTokens, clock: Callable[[], int]) -> None:
        self._controller = controller
        self._tokens = tokens
        self._clock = clock

    def create(
        self, requester: Principal, owner: Principal, renewers: Sequence[Principal], max_lifetime_ms: int
    ) -> DelegationTokenRecord:
        """Return the record of a new token.

        Parameters:
            requester: the client that asks for it.
            owner: the principal of clients that log in with it.
            renewers: who else may renew it and let it expire.
            max_lifetime_ms: how long it can be renewed; 0 and less stand for the broker's setting, which is the most.

        Raises:
            DelegationTokenDisabledError: the broker has no secret key.
            UnsupportedVersionError: the cluster is at a level of `metadata.version` without tokens.
        """
        self._check_supported()
        now, lifetime_ms = self._clock(), self._controller.config.integer(_MAX_LIFETIME)
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        ends_ms = _later(now, lifetime_ms)
        return DelegationTokenRecord(
            owner=str(owner),
            requester=str(requester),
            renewers=list(map(str, renewers)),
            issue_timestamp=now,
            max_timestamp=ends_ms,
            expiration_timestamp=min(ends_ms, _later(now, self._controller.config.integer(_EXPIRY_TIME))),
            token_id=encode_uuid(random_uuid(self._controller.rng)),
        )

    def renew(self, principal: Principal, token_hmac: bytes, period_ms: int) -> DelegationTokenRecord:
        """Return the record that renews a token.

        Parameters:
            principal: the client that asks for it.
            period_ms: from now until the token expires; 0 and less stand for the broker's setting, which is the most.

        Raises:
            DelegationTokenDisabledError, UnsupportedVersionError: see `create`.
            DelegationTokenNotFoundError: there is no token with this HMAC.
            DelegationTokenExpiredError: the token has expired.
            DelegationTokenOwnerMismatchError: the client is neither the owner nor a renewer.
        """
        token = self._find(token_hmac)
        self._check_current(token)
        _check_may_change(token, principal)
        longest_ms = self._controller.config.integer(_EXPIRY_TIME)
        return self._expiring(token, min(longest_ms, period_ms) if period_ms > 0 else longest_ms)

    def expire(self, principal: Principal, token_hmac: bytes, period_ms: int) -> tuple[Message, int]:
        """Return the record that lets a token expire, or removes it, and the time at which it expires.

        Parameters:
            principal: the client that asks for it.
            period_ms: from now until the token expires; a negative number removes it, even if it has expired.

        Raises:
            KafkaError: see `renew`.
        """
        token = self._find(token_hmac)
        _check_may_change(token, principal)
        if period_ms < 0:
            return RemoveDelegationTokenRecord(token_id=token.token_id), self._clock()
        self._check_current(token)
        changed = self._expiring(token, period_ms)
        return changed, changed.expiration_timestamp

    def _expiring(self, token: DelegationTokenRecord, period_ms: int) -> DelegationTokenRecord:
        expires_ms = min(token.max_timestamp, _later(self._clock(), period_ms))
        return msgspec.structs.replace(token, expiration_timestamp=expires_ms)

    def _check_supported(self) -> None:
        if not self._tokens.is_enabled:
            raise DelegationTokenDisabledError
        if self._controller.image.metadata_version < DELEGATION_TOKENS:
            raise UnsupportedVersionError("The current metadata.version does not support delegation tokens")

    def _find(self, token_hmac: bytes) -> DelegationTokenRecord:
        self._check_supported()
        token = self._tokens.find(token_hmac)
        if token is None:
            raise DelegationTokenNotFoundError
        return token

    def _check_current(self, token: DelegationTokenRecord) -> None:
        if self._has_expired(token):
            raise DelegationTokenExpiredError

    def _has_expired(self, token: DelegationTokenRecord) -> bool:
        return min(token.max_timestamp, token.expiration_timestamp) < self._clock()

    # Expiry

    def remove_expired(self) -> None:
        """Remove the tokens that have expired.

        Raises:
            KafkaStorageError: the disk fails.
        """
        if not self._tokens.is_enabled:
            return
        expired = [token for token in self._controller.image.tokens.values() if self._has_expired(token)]
        for first in range(0, len(expired), MOST_REMOVED):
            removed = expired[first : first + MOST_REMOVED]
            for token in removed:
                logger.info("the delegation token %s of %s has expired", token.token_id, token.owner)
            self._controller.append([RemoveDelegationTokenRecord(token_id=token.token_id) for token in removed])


def _check_may_change(token: DelegationTokenRecord, principal: Principal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise DelegationTokenOwnerMismatchError


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _LAST_MS)
