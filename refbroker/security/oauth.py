"""OAUTHBEARER of a listener: which tokens the broker accepts, and who they are for.

A token is signed by a key of a provider (`SignedTokens`), or has no signature and is accepted from everybody, which is
Kafka's default and for tests only (`UnsecuredTokens`). Elsewhere: the messages (`kclient.security.oauth.exchange`),
and the keys (`jwks`). Source: KIP-255, KIP-768, Kafka's BrokerJwtValidator and
OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import json
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from kclient.errors import SaslAuthenticationError
from kclient.security.oauth.exchange import ClientMessage, TokenRefusedError, oauth_server
from refbroker.security.jwks import KeySet
from refbroker.security.sasl import Login, Server

_URL_BASE64 = re.compile(r"[\w-]*", re.ASCII)
_LAST_MS = 2**63 - 1
"""The last time in Kafka's protocol."""


class AcceptedToken(NamedTuple):
    """Who a token is for, and when it expires, in milliseconds since the epoch."""

    user: str
    expires_ms: int


class TokenValidator(Protocol):
    """The tokens that a listener accepts."""

    def accept(self, token: str) -> AcceptedToken:
        """Return who a token is for.

        Raises:
            TokenRefusedError: the token is not accepted.
        """


def bearer_server(validator: TokenValidator) -> Server:
    """Yield an empty message, receive the client's, and return the login.

    Raises:
        SaslAuthenticationError: the message is malformed, or the token is refused.
    """

    def accept(message: ClientMessage) -> AcceptedToken:
        accepted = validator.accept(message.token)
        if message.authorization_id not in ("", accepted.user):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({message.authorization_id}) that is "
                f"different from the token's principal name ({accepted.user})"
            )
        return accepted

    accepted, last = yield from oauth_server(accept)
    return Login(accepted.user, last, accepted.expires_ms)


class ClaimNames(NamedTuple):
    """The claims that contain the user and the scope."""

    user: str = "sub"
    scope: str = "scope"


class SignedTokens:
    """Tokens that are signed by a key of the provider.

    Parameters:
        keys: the keys.
        clock: milliseconds since the epoch.
        issuer: the provider that must have issued them; None for any.
        audiences: one of these must be their audience; none for tokens without an audience.
        skew_ms: how much the clocks may differ.
        claims: the names of claims.
    """

    def __init__(
        self,
        keys: KeySet,
        clock: Callable[[], int],
        *,
        issuer: str | None = None,
        audiences: Collection[str] = (),
        skew_ms: int = 30_000,
        claims: ClaimNames = ClaimNames(),  # noqa: B008 - it is immutable
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._issuer = issuer
        self._audiences = frozenset(audiences)
        self._skew_ms = skew_ms
        self._names = claims

    def accept(self, token: str) -> AcceptedToken:
        """See TokenValidator."""
        claims = self._keys.verify(token)
        now = self._clock()
        expires_ms, issued_ms = _whole_seconds(claims, "exp") * 1000, _whole_seconds(claims, "iat") * 1000
        begins_ms = None if claims.get("nbf") is None else _whole_seconds(claims, "nbf") * 1000
        if now - self._skew_ms >= expires_ms:
            raise TokenRefusedError("the token has expired")
        if begins_ms is not None and now + self._skew_ms < begins_ms:
            raise TokenRefusedError("the token is not valid yet")
        if expires_ms < max(issued_ms, begins_ms or 0):
            raise TokenRefusedError("it expires before it was issued, or before it is valid")
        for name in ("iss", "jti"):
            if not isinstance(claims.get(name), str | None):
                raise TokenRefusedError(f"the claim {name!r} is no text")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise TokenRefusedError(f"the issuer is {claims.get('iss')!r}, not {self._issuer!r}")
        self._check_audience(claims.get("aud"))
        _check_scope(claims.get(self._names.scope), self._names.scope)
        return AcceptedToken(_user(claims, self._names.user).strip(), expires_ms)

    def _check_audience(self, claim: object) -> None:
        if claim is None and not self._audiences:
            return
        found = [claim] if isinstance(claim, str) else [] if claim is None else claim
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise TokenRefusedError("the claim 'aud' is no text and no list of texts")
        if not self._audiences.intersection(found):
            raise TokenRefusedError(f"the audience is {sorted(found)}, not one of {sorted(self._audiences)}")


class UnsecuredTokens:
    """Tokens without a signature, which anybody can make.

    Parameters:
        clock: milliseconds since the epoch.
        claims: the names of claims.
        required_scope: the parts of a scope that a token needs.
        skew_ms: how much the clocks may differ.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        claims: ClaimNames = ClaimNames(),  # noqa: B008 - it is immutable
        required_scope: Collection[str] = (),
        skew_ms: int = 0,
    ) -> None:
        self._clock = clock
        self._names = claims
        self._required = list(required_scope)
        self._skew_ms = skew_ms

    def accept(self, token: str) -> AcceptedToken:
        """See TokenValidator."""
        parts = token.split(".")
        header, claims = (_as_jackson(part) for part in (*parts, "", "")[:2])
        if len(parts) != 3 or parts[2] or header.get("alg") != "none":
            raise TokenRefusedError("the token is not an unsecured JSON Web Token")
        user = _user(claims, self._names.user)
        now = self._clock()
        expires_ms = _milliseconds(claims, "exp")
        if now - self._skew_ms >= expires_ms:
            raise TokenRefusedError("the token has expired")
        if "iat" in claims:
            issued_ms = _milliseconds(claims, "iat")
            if now + self._skew_ms < issued_ms:
                raise TokenRefusedError("the token was issued in the future")
            if expires_ms <= issued_ms:
                raise TokenRefusedError("the token expires before it was issued")
        scope = claims.get(self._names.scope, [])
        if isinstance(scope, int | float):
            raise TokenRefusedError(f"the claim {self._names.scope!r} is a number")
        # Kafka does not split a text.
        scopes = [part.strip() for part in ([scope] if isinstance(scope, str) else scope)]
        missing = [part for part in self._required if part not in scopes]
        if missing:
            wanted = json.dumps(f"[{', '.join(self._required)}]")
            response = f'{{"status":"insufficient_scope", "scope":{wanted}}}'
            raise TokenRefusedError(f"the scope lacks {missing[0]!r}", response)
        return AcceptedToken(user, expires_ms)


def _as_jackson(part: str) -> dict[str, Any]:
    """Return a part of an unsecured token as Kafka reads it with Jackson: values are numbers, lists of texts, or texts.

    Raises:
        TokenRefusedError: it does not begin with a JSON object.
    """

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        if not _URL_BASE64.fullmatch(part):
            raise ValueError("other characters than those of base64url")
        text = urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
        # What follows the object does not matter.
        found, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefusedError("the token is not an unsecured JSON Web Token")
    return {name: _value(value) for name, value in found.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _text(value: Any) -> str:
    """Return Jackson's text of a value, which is empty for an object and a list."""
    if isinstance(value, dict | list):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _milliseconds(claims: Mapping[str, Any], name: str) -> int:
    """Return a time of the claims of an unsecured token, as Java's Math.round does.

    Raises:
        TokenRefusedError: it is missing, or no number.
    """
    value = claims.get(name)
    if not isinstance(value, int | float):
        raise TokenRefusedError(f"the claim {name!r} is missing, or no number of seconds")
    try:
        return max(-_LAST_MS, min(math.floor(float(value) * 1000 + 0.5), _LAST_MS))
    except OverflowError:
        return _LAST_MS if value > 0 else -_LAST_MS


def _whole_seconds(claims: Mapping[str, Any], name: str) -> int:
    """Return a time of the claims, as Kafka reads those of signed tokens: in whole seconds.

    Raises:
        TokenRefusedError: it is missing, no number of seconds since the epoch, or no time in Kafka's milliseconds.
    """
    seconds = int(_number(claims, name))
    if seconds > _LAST_MS // 1000:
        raise TokenRefusedError(f"the claim {name!r} is too large a number of seconds")
    return seconds


def _number(claims: Mapping[str, Any], name: str) -> int | float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise TokenRefusedError(f"the claim {name!r} is missing, or no number of seconds")
    return value


def _user(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefusedError(f"the claim {name!r} is missing, or no text")
    return value


def _check_scope(scope: object, name: str) -> None:
    """Check that a scope has no empty parts, and none twice.

    Raises:
        TokenRefusedError: it has.
    """
    parts = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    texts = [part.strip() for part in parts if isinstance(part, str)]
    if len(texts) < len(parts) or not all(texts) or len(set(texts)) < len(texts):
        raise TokenRefusedError(f"the claim {name!r} has a part that is empty, or one that stands there twice")
