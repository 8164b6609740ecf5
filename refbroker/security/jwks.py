"""The keys with which a provider signs tokens: a JSON Web Key Set, from a URL or a file.

The set is fetched at the start, then at intervals, and at once for a key that it lacks, though not again for the same
one within a minute. If fetching fails, the keys stay. Needs `pip install 'kclient[oauth]'`. Elsewhere: the claims of a
token (`oauth`), and when the set is fetched (`refbroker.server.oauth`). Source: KIP-768, Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kclient.errors import ConfigError, KafkaError
from kclient.security.oauth.exchange import TokenRefusedError

logger = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The signatures that are accepted. Those with a shared secret are not: the set of keys is public."""
_MISSING_MS = 60_000
"""How long a key that the set lacks is not asked for again."""
_MISSING_LIMIT = 1_000
"""The most keys that the set lacks to remember: their names come from clients that have not logged in."""


class KeySet:
    """The keys of one provider.

    Parameters:
        fetch: returns the set, as JSON. Blocks.
        source: where it comes from, for errors.
        clock: milliseconds.

    Attributes:
        on_missing: called when a token was signed by a key that the set lacks, so that it is fetched again.

    Raises:
        ConfigError: the set cannot be fetched, has no keys, or the package PyJWT is missing.
    """

    def __init__(self, fetch: Callable[[], bytes], source: str, clock: Callable[[], int]) -> None:
        self._fetch = fetch
        self._source = source
        self._clock = clock
        self._missing: OrderedDict[str, int] = OrderedDict()
        self.on_missing: Callable[[], None] = lambda: None
        try:
            self._keys = self._load()
        except KafkaError as error:
            raise ConfigError(f"the keys of OAUTHBEARER could not be loaded from {source}: {error.message}") from None

    def refresh(self) -> None:
        """Fetch the set again; keep the present one if that fails. Blocks."""
        try:
            self._keys = self._load()
        except KafkaError as error:
            logger.warning("the keys of OAUTHBEARER stay as they are: %s: %s", self._source, error.message)

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token, once its signature is verified.

        Raises:
            TokenRefusedError: it is no signed token, or no key of the set has signed it.
        """
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise TokenRefusedError(f"the token is malformed: {error}") from None
        algorithm, name = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefusedError(f"the signature {algorithm!r} is not accepted")
        options: Any = {f"verify_{claim}": False for claim in ("aud", "iss", "exp", "nbf", "iat", "sub", "jti")}
        for key in self._candidates(name):
            try:
                return jwt.decode(token, key, algorithms=[algorithm], options=options)
            except jwt.PyJWTError as error:
                reason = f"the signature is not valid: {error}"
            except (TypeError, ValueError):
                reason = f"the key {name!r} is not for the signature {algorithm}"
        raise TokenRefusedError(reason)

    def _candidates(self, name: object) -> list[Any]:
        """Return the key with this name, or every key for a token that does not name one.

        Raises:
            TokenRefusedError: there is no such key.
        """
        found = [key for key in self._keys if name is None or key.key_id == name]
        if not found:
            self._ask_for(str(name))
            raise TokenRefusedError(f"the provider has no key {name!r}")
        return found

    def _ask_for(self, name: str) -> None:
        now = self._clock()
        asked = self._missing.get(name)
        if asked is not None and now - asked < _MISSING_MS:
            return
        self._missing[name] = now
        self._missing.move_to_end(name)
        if len(self._missing) > _MISSING_LIMIT:
            self._missing.popitem(last=False)
        self.on_missing()

    def _load(self) -> list[Any]:
        """Return the keys.

        Raises:
            KafkaError: they cannot be fetched, or are malformed.
        """
        try:
            import jwt
        except ImportError:
            raise ConfigError("OAUTHBEARER with signed tokens needs PyJWT: pip install 'kclient[oauth]'") from None
        try:
            return jwt.PyJWKSet.from_json(self._fetch().decode()).keys
        except (jwt.PyJWTError, ValueError, RecursionError, AttributeError, TypeError) as error:
            raise ConfigError(f"it is not a JSON Web Key Set with keys for signatures: {error}") from None
        except OSError as error:
            raise ConfigError(f"it cannot be read: {error.strerror}") from None
