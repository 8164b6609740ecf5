"""The values of the security options, and how they are read.

Elsewhere: the options, and which of them contradict each other (`client`); the TLS context that they make
(`kclient.security.context`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kclient.security.secret import Secret

PLAINTEXT, SSL = "PLAINTEXT", "SSL"
NOT_YET = ("SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols that this version does not implement yet."""
PROTOCOLS = (PLAINTEXT, SSL, *NOT_YET)
STORE_TYPES = (None, "PEM", "PKCS12", "JKS")
SECRETS = ("ssl_truststore_password", "ssl_keystore_password", "ssl_keystore_key", "ssl_key_password")
"""The options whose values nothing shows."""
SSL_DEFAULTS: dict[str, Any] = {
    "ssl_endpoint_identification_algorithm": "https",
    "ssl_enabled_protocols": ("TLSv1.2", "TLSv1.3"),
    "ssl_cipher_suites": (),
}
"""The defaults of the ssl options that are not None."""


def secret(value: str | Secret | None) -> Secret | None:
    """Return an option as a secret; None if it is not set."""
    return None if value is None else Secret(value)


def names(value: str | Sequence[str]) -> list[str]:
    """Return the names in an option: a sequence, or one string with commas between them."""
    found = value.split(",") if isinstance(value, str) else value
    return [name.strip() for name in found if name.strip()]
