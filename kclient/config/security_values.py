"""The values of the security options, and how they are read.

Elsewhere: the options, and which of them contradict each other (`security`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kclient.security.secret import Secret

PLAINTEXT = "PLAINTEXT"
LISTENERS = {PLAINTEXT: "plaintext", "SSL": "TLS", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
"""The security protocols, with what errors call a listener."""
WITH_TLS = {PLAINTEXT: "SSL", "SASL_PLAINTEXT": "SASL_SSL"}
"""The security protocols that have TLS besides, by those without it."""
WITH_SASL = {PLAINTEXT: "SASL_PLAINTEXT", "SSL": "SASL_SSL"}
"""The security protocols that have SASL besides, by those without it."""
WITHOUT_TLS = {secured: plain for plain, secured in WITH_TLS.items()}
WITHOUT_SASL = {secured: plain for plain, secured in WITH_SASL.items()}
STORE_TYPES = (None, "PEM", "PKCS12", "JKS")
SECRETS = (
    *("ssl_truststore_password", "ssl_keystore_password", "ssl_keystore_key", "ssl_key_password"),
    *("sasl_password", "sasl_jaas_config"),
    *("sasl_oauthbearer_client_credentials_client_secret", "sasl_oauthbearer_assertion_private_key_passphrase"),
)
"""The options whose values nothing shows."""
HANDLERS = (
    None,
    *(
        f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
        for package in ("", "secured.")
    ),
)
"""Kafka's classes, old and new, that fetch tokens from an endpoint."""


def secret(value: str | Secret | None) -> Secret | None:
    """Return an option as a secret; None if it is not set."""
    return None if value is None else Secret(value)


def names(value: str | Sequence[str]) -> list[str]:
    """Return the names in an option: a sequence, or one string with commas between them."""
    found = value.split(",") if isinstance(value, str) else value
    return [name.strip() for name in found if name.strip()]
