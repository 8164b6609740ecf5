"""The keys with which a provider signs tokens: a JSON Web Key Set, from a URL or a file.

The set is fetched at the start, then at intervals, and at once for a key that it lacks, though not again for the same
one within a minute. If fetching fails, the keys stay. Needs `pip install 'kclient[oauth]'`.

A token is verified by one key, which is chosen as in Kafka: it has the name that the token gives and the type of the
signature, and may be used for signatures; of several, the first one without another algorithm. Keys of RSA have at
least 2,048 bits. Unlike in Kafka, secrets among the keys are not used. As in Kafka, a token whose content is another
token (`cty` is JWT) says what the inner one says, and all are verified; names must be unique in all JSON; and no
header may be critical (Kafka knows b64).

Elsewhere: the claims of a token (`oauth`), and when the set is fetched (`refbroker.server.oauth`). Source: KIP-768,
Kafka's RefreshingHttpsJwks, and the VerificationJwkSelector of jose4j.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from kclient.errors import ConfigError, KafkaError
from kclient.security.oauth.exchange import TokenRefusedError

logger = logging.getLogger(__name__)

_RSA, _EC, _EDWARDS = "RSA", "EC", "OKP"
ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), (_RSA, None)),
    "ES256": (_EC, "P-256"),
    "ES384": (_EC, "P-384"),
    "ES512": (_EC, "P-521"),
    "EdDSA": (_EDWARDS, None),
}
"""The signatures that are accepted, with the type and the curve of their keys. Those with a shared secret are not: the
set of keys is public.
"""
_SHORTEST_RSA_BITS = 2048
_MISSING_MS = 60_000
"""How long a key that the set lacks is not asked for again."""
_MISSING_LIMIT = 1_000
"""The most keys that the set lacks to remember: their names come from clients that have not logged in."""
_LONGEST_NAME = 1_000
"""Characters of the name of a key that may exist, as in Kafka."""
_SHOWN = 100
"""Characters of a token that an error shows."""
_NESTED = ("jwt", "application/jwt")
"""What `cty` says of a token that contains another one."""


class _Key(NamedTuple):
    """A key that verifies signatures; `curve` and `algorithm` are None if it does not say so."""

    name: str | None
    type: str
    curve: str | None
    algorithm: str | None
    public: Any


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
        while True:
            header, payload = self._opened(token)
            kind = header.get("cty")
            if not isinstance(kind, str | None):
                raise TokenRefusedError("its header 'cty' is no text")
            if kind is None or kind.lower() not in _NESTED:
                return _json_object(payload)
            # It is shorter than the token around it, so that this ends.
            token = payload.decode(errors="replace")

    def _opened(self, token: str) -> tuple[dict[str, Any], bytes]:
        """Return the header and the content of a token, once its signature is verified.

        Raises:
            TokenRefusedError: see `verify`.
        """
        import jwt

        parts = token.split(".")
        if len(parts) != 3:
            raise TokenRefusedError(f"the token is malformed: it has {len(parts)} parts")
        header = _json_object(_decoded(parts[0]))
        algorithm, name = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenRefusedError(f"the signature {_shown(repr(algorithm))} is not accepted")
        if header.get("crit") not in (None, []):
            raise TokenRefusedError("it has a critical header, and none is known")
        if not isinstance(name, str | None):
            raise TokenRefusedError("the name of its key is no text")
        key = self._choose(algorithm, name)
        signed = f"{parts[0]}.{parts[1]}".encode()
        try:
            is_valid = jwt.get_algorithm_by_name(algorithm).verify(signed, key.public, _decoded(parts[2]))
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise TokenRefusedError(f"the signature is not valid: {_shown(error)}") from None
        if not is_valid:
            raise TokenRefusedError("the signature is not valid")
        return header, _decoded(parts[1])

    def _choose(self, algorithm: str, name: str | None) -> _Key:
        """Return the key that verifies a token.

        Parameters:
            name: what the token says; None if it does not.

        Raises:
            TokenRefusedError: there is no such key.
        """
        kind, curve = ALGORITHMS[algorithm]
        found = [
            key
            for key in self._keys
            if (name is None or key.name == name) and key.type == kind and curve in (None, key.curve)
        ]
        if len(found) > 1:
            found = [key for key in found if key.algorithm in (None, algorithm)]
        if not found:
            if name is not None and len(name) <= _LONGEST_NAME:
                self._ask_for(name)
            raise TokenRefusedError(f"the provider has no key {_shown(repr(name))} for the signature {algorithm}")
        return found[0]

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

    def _load(self) -> list[_Key]:
        """Return the keys.

        Raises:
            KafkaError: they cannot be fetched, or are malformed.
        """
        try:
            import jwt
        except ImportError:
            raise ConfigError("OAUTHBEARER with signed tokens needs PyJWT: pip install 'kclient[oauth]'") from None
        try:
            content = json.loads(self._fetch())["keys"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise ConfigError("it is not a JSON Web Key Set") from None
        except OSError as error:
            raise ConfigError(f"it cannot be read: {error.strerror}") from None
        found = []
        for each in content if isinstance(content, list) else ():
            # A set also has keys of other kinds, which are for others.
            with suppress(jwt.PyJWTError, ValueError, TypeError, AttributeError):
                if _is_for_signatures(each):
                    found.append(_key(jwt.PyJWK(each).key, each))
        if not found:
            raise ConfigError("it has no key for the signatures of tokens")
        return found


def _is_for_signatures(jwk: Any) -> bool:
    """Return whether a JSON Web Key is of a type that is used here, and says that it is for signatures or nothing.

    Raises:
        TypeError, AttributeError: it is no key.
    """
    operations = jwk.get("key_ops")
    return (
        jwk.get("kty") in (_RSA, _EC, _EDWARDS)
        and jwk.get("use") in (None, "sig")
        and (operations is None or "verify" in operations)
    )


def _key(key: Any, jwk: dict[str, Any]) -> _Key:
    """Return a key.

    Parameters:
        key: the key of a JSON Web Key, which is private by mistake.

    Raises:
        ValueError: it is too short.
    """
    public = key.public_key() if hasattr(key, "public_key") else key
    if jwk["kty"] == _RSA and public.key_size < _SHORTEST_RSA_BITS:
        raise ValueError("the key is too short")
    return _Key(jwk.get("kid"), jwk["kty"], jwk.get("crv"), jwk.get("alg"), public)


def _decoded(part: str) -> bytes:
    """Return the bytes of a part of a token.

    Raises:
        TokenRefusedError: it is not encoded as base64url.
    """
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise TokenRefusedError("the token is malformed: a part is not base64url") from None


def _json_object(text: bytes) -> dict[str, Any]:
    """Return a part of a token.

    Raises:
        TokenRefusedError: it is no JSON object, or an object in it has a name twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name twice")
        return found

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        found = json.loads(text.decode(errors="replace"), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefusedError("a part of the token is no JSON object, or has a name twice")
    return found


def _shown(found: object) -> str:
    """Return the beginning of what may be a part of a token, of any length."""
    return str(found)[:_SHOWN]
