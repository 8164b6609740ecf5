"""The values of the security options, and how they are read.

Elsewhere: the options, and which of them contradict each other (`client`); the TLS context that they make
(`kclient.security.context`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kclient.errors import ConfigError
from kclient.security.jaas import parse_jaas
from kclient.security.sasl import PLAIN, SaslLogin
from kclient.security.secret import Secret

PLAINTEXT = "PLAINTEXT"
LISTENERS = {PLAINTEXT: "plaintext", "SSL": "TLS", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
"""The security protocols, with what errors call a listener."""
STORE_TYPES = (None, "PEM", "PKCS12", "JKS")
SECRETS = (
    *("ssl_truststore_password", "ssl_keystore_password", "ssl_keystore_key", "ssl_key_password"),
    *("sasl_password", "sasl_jaas_config"),
)
"""The options whose values nothing shows."""
SSL_DEFAULTS: dict[str, Any] = {
    "ssl_endpoint_identification_algorithm": "https",
    "ssl_enabled_protocols": ("TLSv1.2", "TLSv1.3"),
    "ssl_cipher_suites": (),
}
"""The defaults of the ssl options that are not None."""


def login_from_jaas(config: Secret, mechanism: str) -> SaslLogin:
    """Return who logs in by `sasl_jaas_config`.

    Raises:
        ConfigError: it is malformed, for another mechanism, or has no user or password.
    """
    module = parse_jaas(config, "sasl_jaas_config")
    expected = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    if module.name != expected:
        raise ConfigError(f"sasl_jaas_config has {module.name}; sasl_mechanism={mechanism} needs {expected}")
    user, password = module.text("username"), module.options.get("password")
    if user is None or password is None:
        raise ConfigError("sasl_jaas_config needs the options username and password")
    return SaslLogin(mechanism, user, password, (module.text("tokenauth") or "").lower() == "true")


def secret(value: str | Secret | None) -> Secret | None:
    """Return an option as a secret; None if it is not set."""
    return None if value is None else Secret(value)


def names(value: str | Sequence[str]) -> list[str]:
    """Return the names in an option: a sequence, or one string with commas between them."""
    found = value.split(",") if isinstance(value, str) else value
    return [name.strip() for name in found if name.strip()]
