"""Throw-away certificates for tests, by `trustme`: an authority, the broker's certificate, and those of clients.

Never for production: the authority's key is not kept, but nothing else is protected either.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kclient.errors import ConfigError
from refbroker.settings.listeners import LOOPBACK

if TYPE_CHECKING:
    import trustme

HOSTS = ("localhost", LOOPBACK, "::1")
CLIENT = "client"
"""The common name of the client's certificate."""


class Certified(NamedTuple):
    """A certificate chain and its key, each PEM text."""

    chain: str
    key: str


class Certificates:
    """An authority that signs for one broker and its clients.

    Parameters:
        hosts: the names and addresses that clients connect to, besides those of this machine.

    Attributes:
        authority: its certificate as PEM text, which clients have to trust.
        broker: the certificate of the broker.

    Raises:
        ConfigError: the package trustme is not installed.
    """

    def __init__(self, hosts: tuple[str, ...] = ()) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ConfigError("certificates for tests need the package trustme: pip install 'kclient[tls]'") from error
        self._authority = trustme.CA()
        self.authority = self._authority.cert_pem.bytes().decode()
        self.broker = _certified(self._authority.issue_cert(*dict.fromkeys((*HOSTS, *hosts)), common_name="broker"))

    def issue(self, name: str = CLIENT) -> Certified:
        """Return a new certificate for a client.

        Parameters:
            name: its common name, which is part of the client's principal.
        """
        # The host is not used: clients are not connected to.
        return _certified(self._authority.issue_cert(HOSTS[0], common_name=name))

    def broker_settings(self) -> dict[str, str]:
        """Return the settings of a broker that uses them."""
        return {
            "ssl.keystore.certificate.chain": self.broker.chain,
            "ssl.keystore.key": self.broker.key,
            "ssl.truststore.certificates": self.authority,
        }


def write_certificates(directory: Path) -> dict[str, str]:
    """Write certificates for a broker in another process and its clients, unless they are there from an earlier run.

    The directory then has `ca.pem`, `broker.pem`, `client.pem` (certificate and key in one file) and
    `client.properties`, which a client of Kafka can use. Only its owner can read it.

    Returns:
        The settings of the broker.

    Raises:
        ConfigError: the package trustme is not installed.
        OSError: a file cannot be written.
    """
    authority, broker, client = (directory / name for name in ("ca.pem", "broker.pem", "client.pem"))
    properties = directory / "client.properties"
    if not properties.exists():
        made = Certificates()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(authority, made.authority)
        _write(broker, made.broker.chain + made.broker.key)
        own = made.issue()
        _write(client, own.chain + own.key)
        _write(properties, _client_properties(authority, client))
    return {
        "ssl.keystore.location": str(broker),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "ssl.truststore.type": "PEM",
    }


def _client_properties(authority: Path, client: Path) -> str:
    return (
        "security.protocol=SSL\n"
        f"ssl.truststore.location={authority}\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={client}\nssl.keystore.type=PEM\n"
    )


def _certified(issued: trustme.LeafCert) -> Certified:
    # trustme itself depends on cryptography.
    from cryptography.hazmat.primitives import serialization

    chain = "".join(part.bytes().decode() for part in issued.cert_chain_pems)
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    # Java reads no other format.
    pkcs8, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Certified(chain, key.private_bytes(serialization.Encoding.PEM, pkcs8, no_password).decode())


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
