"""Certificates for tests of TLS: an authority, and certificates with the faults that a test needs."""

from __future__ import annotations

import ssl
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from kclient.security.context import _as_file
from refbroker.testing.certificates import Certified

PASSWORD = "changeit"


@cache
def authority() -> trustme.CA:
    """Return the authority that the tests trust."""
    return trustme.CA()


@cache
def stranger() -> trustme.CA:
    """Return an authority that nobody trusts."""
    return trustme.CA()


def authority_pem() -> str:
    """Return the certificate of the trusted authority."""
    return authority().cert_pem.bytes().decode()


@cache
def certificate(
    name: str = "client", host: str = "localhost", signer: trustme.CA | None = None, days: int = 30
) -> Certified:
    """Return a certificate and its key.

    Parameters:
        name: its common name.
        host: its host.
        signer: who signs it; the trusted authority by default.
        days: how long it is still valid; negative for an expired one.
    """
    issued = (signer or authority()).issue_cert(
        host,
        common_name=name,
        not_before=datetime.now(UTC) - timedelta(days=60),
        not_after=datetime.now(UTC) + timedelta(days=days),
    )
    chain = "".join(part.bytes().decode() for part in issued.cert_chain_pems)
    return Certified(chain, issued.private_key_pem.bytes().decode())


def server_context(
    host: str = "localhost", signer: trustme.CA | None = None, days: int = 30, **attributes: Any
) -> ssl.SSLContext:
    """Return the context of a server that trusts clients of the authority.

    Parameters:
        host, signer, days: of its certificate; see `certificate`.
        attributes: what to set of the context.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authority_pem())
    own = certificate("broker", host, signer, days)
    with _as_file((own.chain + own.key).encode()) as path:
        context.load_cert_chain(path)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


def client_context() -> ssl.SSLContext:
    """Return the context of a client that trusts the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority_pem())
    return context


def encrypted_key(key: str, password: str = PASSWORD) -> str:
    """Return a key with a password."""
    loaded = load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()


def write_pkcs12(path: Path, own: Certified | None, trusted: str = "", password: str = PASSWORD) -> Path:
    """Write a PKCS12 store with a certificate and its key, with trusted certificates, or with both."""
    key = load_pem_private_key(own.key.encode(), None) if own is not None else None
    cert = load_pem_x509_certificate(own.chain.encode()) if own is not None else None
    others = load_pem_x509_certificates(trusted.encode()) if trusted else None
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, cert, others, encryption))  # type: ignore[arg-type]
    return path


def base64_text(value: bytes | memoryview) -> str:
    """Return bytes as the JSON of Kafka's tools has them."""
    return b64encode(value).decode()
