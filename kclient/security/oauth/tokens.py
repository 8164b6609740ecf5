"""Tokens of OAUTHBEARER, and the claims of those that are JSON Web Tokens.

Claims are read without a check of the signature, which is the broker's to make. Elsewhere: the messages that carry a
token (`exchange`), and signed tokens of a client's own (`assertions`).
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from kclient.errors import ConfigError
from kclient.security.secret import Secret

_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION_NAME = re.compile("[A-Za-z]+")
_EXTENSION_VALUE = re.compile("[\x21-\x7e \t\r\n]+")
_RESERVED = "auth"
MAX_LENGTH = 256 * 1024
"""Characters of a token; a broker takes 512 KiB in all before a client has logged in."""


class OAuthToken:
    """A token with which a client logs in by OAUTHBEARER.

    Parameters:
        value: the token.
        expires_at_ms: when it expires, in milliseconds since the epoch; by default the claim `exp` of a JSON Web
            Token. A token without either is used for one login, and the next one asks for another.
        extensions: SASL extensions, such as the logical cluster of Confluent Cloud (KIP-342).

    Raises:
        ConfigError: the token, or an extension, cannot be sent.
    """

    __slots__ = ("expires_at_ms", "extensions", "value")

    def __init__(
        self, value: str | Secret, expires_at_ms: int | None = None, extensions: Mapping[str, str] | None = None
    ) -> None:
        self.value = Secret(value)
        text = self.value.reveal()
        if len(text) > MAX_LENGTH or not _TOKEN.fullmatch(text):
            raise ConfigError(
                f"the token has {len(text)} characters, and is not a bearer token, which has letters, digits and "
                f"-._~+/, then =, at most {MAX_LENGTH} of them"
            )
        self.expires_at_ms = expiry_of(text) if expires_at_ms is None else expires_at_ms
        self.extensions = dict(extensions or {})
        check_extensions(self.extensions)

    def __repr__(self) -> str:
        return f"OAuthToken({self.value!r}, expires_at_ms={self.expires_at_ms})"


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Check that SASL extensions can be sent.

    Raises:
        ConfigError: a name or a value is not allowed.
    """
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == _RESERVED:
            raise ConfigError(f"a SASL extension must be named by letters, and not {_RESERVED!r}; this one is {name!r}")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(f"the value of the SASL extension {name!r} is empty, or has other characters than ASCII")


def claims_of(token: str) -> dict[str, Any] | None:
    """Return the claims of a JSON Web Token, without a check of its signature; None for any other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    claims = _decoded_json(parts[1])
    return claims if isinstance(claims, dict) else None


def _decoded_json(part: str) -> Any:
    """Return what a part of a JSON Web Token says; None if it is malformed."""
    try:
        return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None


def expiry_of(token: str) -> int | None:
    """Return when a JSON Web Token expires, in milliseconds since the epoch; None if it does not say so."""
    expiry = (claims_of(token) or {}).get("exp")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    try:
        return int(expiry * 1000)
    except (OverflowError, ValueError):
        return None


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """Return a JSON Web Token without a signature, which anybody can make; for tests (RFC 7515, appendix A.5)."""
    parts = ({"alg": "none"}, dict(claims))
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."
