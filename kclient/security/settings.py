"""The ssl.* settings of one side of a connection, and which of them contradict each other.

Elsewhere: the TLS context that they make (`context`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kclient.errors import ConfigError
from kclient.security.secret import Secret


class TlsSettings(NamedTuple):
    """The ssl.* settings of one side, named after Kafka's.

    Attributes:
        option: returns how the user writes the name of a setting, for errors.
        truststore_location: a file of the certificates to trust, PEM or PKCS12; None for the system's.
        truststore_certificates: the same as PEM text.
        truststore_password: the password of a PKCS12 truststore.
        keystore_location: a file of the own certificate chain and key, PEM or PKCS12.
        keystore_password: the password of a PKCS12 keystore.
        keystore_certificate_chain, keystore_key: the same as PEM text, or paths of PEM files.
        key_password: the password of the key.
        enabled_protocols: the versions of TLS to allow; none for all.
        cipher_suites: the cipher suites to allow, by Java's or OpenSSL's names; none for the default.
        client_auth: whether a broker asks its clients for a certificate: none, requested or required.
    """

    option: Callable[[str], str]
    truststore_location: str | None = None
    truststore_certificates: str | None = None
    truststore_password: Secret | None = None
    keystore_location: str | None = None
    keystore_password: Secret | None = None
    keystore_certificate_chain: str | None = None
    keystore_key: Secret | None = None
    key_password: Secret | None = None
    enabled_protocols: Sequence[str] = ()
    cipher_suites: Sequence[str] = ()
    client_auth: str = "none"

    @property
    def has_identity(self) -> bool:
        """Whether a certificate is there to show to the other side."""
        return self.keystore_location is not None or self.keystore_certificate_chain is not None

    @property
    def has_trust(self) -> bool:
        """Whether the certificates to trust are given."""
        return self.truststore_location is not None or self.truststore_certificates is not None

    def check(self) -> None:
        """Check that no setting contradicts or needs another one.

        Raises:
            ConfigError: one does; the message has both names.
        """
        self._exclude("truststore_location", "truststore_certificates")
        self._exclude("keystore_location", "keystore_certificate_chain")
        self._exclude("keystore_location", "keystore_key")
        self._require("truststore_password", "truststore_location")
        self._require("keystore_password", "keystore_location")
        self._require("keystore_certificate_chain", "keystore_key")
        self._require("keystore_key", "keystore_certificate_chain")
        if self.key_password is not None and not self.has_identity:
            raise ConfigError(f"{self._name('key_password')} needs {self._name('keystore_location')}")

    def files(self) -> list[Path]:
        """Return the files to read."""
        key = self.keystore_key.reveal() if self.keystore_key is not None else None
        chain = self.keystore_certificate_chain
        texts = [self.truststore_location, self.keystore_location]
        texts += [text for text in (chain, key) if text is not None and not is_pem_text(text)]
        return [Path(text) for text in texts if text is not None]

    def _exclude(self, one: str, other: str) -> None:
        if getattr(self, one) is not None and getattr(self, other) is not None:
            raise ConfigError(f"only one of {self._name(one)} and {self._name(other)} can be set")

    def _require(self, one: str, other: str) -> None:
        if getattr(self, one) is not None and getattr(self, other) is None:
            raise ConfigError(f"{self._name(one)} needs {self._name(other)}")

    def _name(self, setting: str) -> str:
        return self.option(f"ssl_{setting}")


def is_pem_text(text: str) -> bool:
    """Return whether a setting is PEM text, else it is a path."""
    return "-----BEGIN" in text
