"""Delegation tokens in the metadata, and the accounts by which their holders log in.

A token has a random id. Its password is the HMAC of the id with the secret key that all brokers of a cluster share, so
the log contains no password. Without `delegation.token.secret.key`, tokens in the log stay, and nobody can use them.

Elsewhere: changes of tokens (`refbroker.controller.tokens`), the login itself (`refbroker.security.sasl`). Source:
KIP-48, KAFKA-15219, Kafka's DelegationTokenCache.
"""

from __future__ import annotations

import hmac
import random
from base64 import b64encode
from collections.abc import Iterable

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
from refbroker.metadata.image import ClusterImage
from refbroker.security.principals import Principal

_HASH = "sha512"


class DelegationTokens:
    """The delegation tokens of the cluster.

    Parameters:
        image: the state of the cluster.
        config: the settings of the broker.
        rng: makes salts.
    """

    def __init__(self, image: ClusterImage, config: BrokerConfig, rng: random.Random) -> None:
        self._image = image
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
        self.follow(self._image.tokens.values())

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

    def find(self, token_hmac: bytes) -> DelegationTokenRecord | None:
        """Return the token with an HMAC, None if no token has it."""
        # A lookup by hash does not tell how many bytes of a wrong HMAC are right.
        token_id = self._ids.get(token_hmac)
        return None if token_id is None else self._image.tokens[token_id]

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token; its base64 is the password of the token."""
        return hmac.digest(self._key.reveal().encode(), token_id.encode(), _HASH)

    def account(self, mechanism: ScramMechanism, token_id: str) -> ScramAccount | None:
        """Return the account by which the holder of a token logs in, None if there is no such token.

        An expired token has one until it is removed, as in Kafka.
        """
        token = self._image.tokens.get(token_id)
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


def parties(token: DelegationTokenRecord) -> set[str]:
    """Return the principals that always see a token: its owner, its requester and its renewers."""
    return {token.owner, token.requester, *token.renewers}
