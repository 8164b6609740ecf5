"""Delegation tokens in the metadata log: checks and records of changes, the accounts by which clients log in, expiry.

A token has a random id. Its password is the HMAC of the id with the secret key that all brokers of a cluster share, so
the log contains no password. Without `delegation.token.secret.key`, tokens in the log stay, and nobody can use them.

Checks and their order are Kafka's. Elsewhere: who may ask for a change (the handlers), the login itself
(`refbroker.security.sasl`). Source: KIP-48, KIP-373, KAFKA-15219, Kafka's DelegationTokenControlManager,
DelegationTokenManager and DelegationTokenCache.
"""

from __future__ import annotations

import hmac
import logging
import random
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence

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
from kclient.security.scram import (
    MIN_ITERATIONS,
    SALT_BITS,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salt_of,
    salted_password,
)
from kclient.security.secret import Secret
from refbroker.config import BrokerConfig
from refbroker.log.checkpoints import encode_uuid, random_uuid
from refbroker.metadata.log import MetadataLog
from refbroker.metadata.versions import DELEGATION_TOKENS
from refbroker.security.principals import Principal

logger = logging.getLogger(__name__)

MOST_REMOVED = 1000
"""How many expired tokens one batch of the log removes."""
_MAX_LIFETIME, _EXPIRY_TIME = "delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"
_HASH = "sha512"
_LAST_MS = 2**63 - 1


class DelegationTokens:
    """The delegation tokens of the cluster.

    Parameters:
        metadata: the log that has them.
        config: the settings of the broker.
        clock: returns milliseconds since the epoch.
        rng: makes ids and salts.
    """

    def __init__(
        self, metadata: MetadataLog, config: BrokerConfig, clock: Callable[[], int], rng: random.Random
    ) -> None:
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._rng = rng
        self._key = Secret(config.text("delegation.token.secret.key") or "")
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether the broker has a secret key."""
        return bool(self._key)

    def load(self) -> None:
        """Take over the tokens that the log has at the start."""
        self.follow(self._metadata.image.tokens.values())

    def follow(self, records: Iterable[Message]) -> None:
        """Apply the tokens among the records of a change of the metadata."""
        if not self.is_enabled:
            return
        for record in records:
            if isinstance(record, DelegationTokenRecord):
                self._ids[self.hmac(record.token_id)] = record.token_id
            elif isinstance(record, RemoveDelegationTokenRecord):
                self._ids.pop(self.hmac(record.token_id), None)
                for key in [key for key in self._credentials if key[1] == record.token_id]:
                    del self._credentials[key]

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token; its base64 is the password of the token."""
        return hmac.digest(self._key.reveal().encode(), token_id.encode(), _HASH)

    def account(self, mechanism: ScramMechanism, token_id: str) -> ScramAccount | None:
        """Return the account by which the holder of a token logs in, None if there is no such token.

        An expired token has one until it is removed, as in Kafka.
        """
        token = self._metadata.image.tokens.get(token_id)
        if token is None or not self.is_enabled:
            return None
        key = (mechanism, token_id)
        credential = self._credentials.get(key)
        if credential is None:
            # Computed at the first login: most tokens are used with one mechanism only.
            password, salt = b64encode(self.hmac(token_id)).decode(), salt_of(self._rng.getrandbits(SALT_BITS))
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            credential = self._credentials[key] = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
        return ScramAccount(
            Principal.parse(token.owner).name, credential, is_token=True, expires_ms=token.expiration_timestamp
        )

    # Changes

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
        now, lifetime_ms = self._clock(), self._config.integer(_MAX_LIFETIME)
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        ends_ms = _later(now, lifetime_ms)
        return DelegationTokenRecord(
            owner=str(owner),
            requester=str(requester),
            renewers=list(map(str, renewers)),
            issue_timestamp=now,
            max_timestamp=ends_ms,
            expiration_timestamp=min(ends_ms, _later(now, self._config.integer(_EXPIRY_TIME))),
            token_id=encode_uuid(random_uuid(self._rng)),
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
        longest_ms = self._config.integer(_EXPIRY_TIME)
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
        if not self.is_enabled:
            raise DelegationTokenDisabledError
        if self._metadata.image.metadata_version < DELEGATION_TOKENS:
            raise UnsupportedVersionError("The current metadata.version does not support delegation tokens")

    def _find(self, token_hmac: bytes) -> DelegationTokenRecord:
        self._check_supported()
        # A lookup by hash does not tell how many bytes of a wrong HMAC are right.
        token_id = self._ids.get(token_hmac)
        if token_id is None:
            raise DelegationTokenNotFoundError
        return self._metadata.image.tokens[token_id]

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
        if not self.is_enabled:
            return
        expired = [token for token in self._metadata.image.tokens.values() if self._has_expired(token)]
        for first in range(0, len(expired), MOST_REMOVED):
            removed = expired[first : first + MOST_REMOVED]
            for token in removed:
                logger.info("the delegation token %s of %s has expired", token.token_id, token.owner)
            self._metadata.append([RemoveDelegationTokenRecord(token_id=token.token_id) for token in removed])


def parties(token: DelegationTokenRecord) -> set[str]:
    """Return the principals that always see a token: its owner, its requester and its renewers."""
    return {token.owner, token.requester, *token.renewers}


def _check_may_change(token: DelegationTokenRecord, principal: Principal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise DelegationTokenOwnerMismatchError


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _LAST_MS)
