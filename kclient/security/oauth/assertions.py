"""Assertions: signed JSON Web Tokens with which a client proves who it is to a token endpoint (RFC 7523).

Claims come from options and a template, the times are added, and the key signs. All files are read again for each
assertion, so that they can be replaced. Needs `pip install 'kclient[oauth]'`. Source: KIP-1139, KIP-1258, Kafka's
DefaultAssertionCreator.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kclient.errors import ConfigError
from kclient.security.secret import Secret

ALGORITHMS = ("RS256", "ES256")


class AssertionSettings(NamedTuple):
    """The `sasl.oauthbearer.assertion.*` settings.

    Attributes:
        file: a file with an assertion that is complete, instead of all others.
        private_key_file: the key that signs, as PEM.
        private_key_passphrase: its password.
        algorithm: RS256 or ES256.
        template_file: a JSON file with the objects `header` and `payload`, to which the rest is added.
        audience, issuer, subject: claims.
        lifetime_seconds, backdate_seconds: the times until `exp`, and since `nbf`.
        with_id: whether to add a random `jti`.
    """

    file: str | None = None
    private_key_file: str | None = None
    private_key_passphrase: Secret | None = None
    algorithm: str = "RS256"
    template_file: str | None = None
    audience: str | None = None
    issuer: str | None = None
    subject: str | None = None
    lifetime_seconds: int = 300
    backdate_seconds: int = 60
    with_id: bool = False

    @property
    def is_set(self) -> bool:
        """Whether the client proves who it is by an assertion."""
        return self.file is not None or self.private_key_file is not None

    def assertion(self, time_ms: Callable[[], int]) -> str:
        """Return a new assertion.

        Parameters:
            time_ms: milliseconds since the epoch.

        Raises:
            ConfigError: a file cannot be read, or the key cannot be used.
        """
        if self.file is not None:
            return _text(self.file, "sasl_oauthbearer_assertion_file").strip()
        try:
            import jwt
        except ImportError:
            raise ConfigError("signed assertions need PyJWT: pip install 'kclient[oauth]'") from None
        header, payload = self._template()
        now = time_ms() // 1000
        claims = {"aud": self.audience, "iss": self.issuer, "sub": self.subject}
        payload = {name: value for name, value in claims.items() if value is not None} | payload
        payload |= {"iat": now, "exp": now + self.lifetime_seconds, "nbf": now - self.backdate_seconds}
        if self.with_id:
            payload["jti"] = str(uuid.uuid4())
        header = {name: value for name, value in header.items() if name not in ("alg", "typ")}
        key = self._key()
        try:
            return jwt.encode(payload, key, algorithm=self.algorithm, headers=header)
        except (jwt.PyJWTError, TypeError, ValueError):
            raise ConfigError(
                f"the key in {self.private_key_file} cannot sign with {self.algorithm}; check "
                "sasl_oauthbearer_assertion_algorithm"
            ) from None

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.template_file is None:
            return {}, {}
        option = "sasl_oauthbearer_assertion_template_file"
        try:
            found = json.loads(_text(self.template_file, option))
            header, payload = found.get("header", {}), found.get("payload", {})
        except (ValueError, AttributeError, RecursionError):
            header = payload = None
        if not isinstance(header, dict) or not isinstance(payload, dict):
            raise ConfigError(
                f"{option}: {self.template_file} is not a JSON object with the objects header and payload"
            )
        return header, payload

    def _key(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        text = _text(self.private_key_file or "", "sasl_oauthbearer_assertion_private_key_file")
        password = self.private_key_passphrase
        try:
            return load_pem_private_key(text.encode(), password.reveal().encode() if password else None)
        except (ValueError, TypeError):
            raise ConfigError(
                f"{self.private_key_file} is not a private key in PEM that sasl_oauthbearer_assertion_private_key_"
                "passphrase opens"
            ) from None


def _text(path: str, option: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{option}: {path} cannot be read: {reason}") from None
