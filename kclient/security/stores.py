"""Stores of keys and certificates: PEM and PKCS12, recognized by their content, and always returned as PEM.

PKCS12 needs the package `cryptography`. Java's own format (JKS) is not read; the error says how to convert it. A key
never appears in an error, only the place that it came from. Elsewhere: what a TLS context does with them (`context`).
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kclient.errors import ConfigError
from kclient.security.der import INTEGER, OCTET_STRING, DerError, values
from kclient.security.secret import Secret

_PEM_START = b"-----BEGIN"
_DER_START = b"\x30"
_JKS_START = b"\xfe\xed\xfe\xed"
_PEM_BLOCK = re.compile(rb"-----BEGIN [^-]*ENCRYPTED[^-]*-----([^-]*)-----END")
_CONSTRUCTED, _CONTENT = 0x20, 0x80
"""The bit of a tag of nested values, and the tag of the encrypted content of a PKCS12 store."""
_DEPTH_LIMIT = 30
ITERATIONS_LIMIT = 5_000_000
"""The most iterations of a password's function, as in Java: more would take minutes, during which nothing else runs."""
_STORE_LIMIT = 16 << 20
"""Bytes. A store is far smaller, and a path may be that of a device or a log by mistake."""


class Identity(NamedTuple):
    """The certificate chain and the key of one side, in PEM; `password` is the key's."""

    chain: bytes
    key: bytes
    password: Secret | None


def read_file(path: Path, option: str) -> bytes:
    """Return the content of a file that an option names.

    Raises:
        ConfigError: it cannot be read, or is too large for a store.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_STORE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"{option}: could not read {path}: {error.strerror}") from error
    if len(content) > _STORE_LIMIT:
        raise ConfigError(f"{option}: {path} is larger than {_STORE_LIMIT >> 20} MiB, which is no store")
    return content


def trusted_certificates(path: Path, password: Secret | None, option: str) -> bytes:
    """Return the certificates in a truststore.

    Parameters:
        path: a file of PEM or PKCS12.
        password: the password of a PKCS12 file.
        option: the option with the path, for errors.

    Raises:
        ConfigError: the file cannot be read, or contains no certificate.
    """
    content = read_file(path, option)
    if _is_pem(content, path, option):
        return content
    _, _, others = _open_pkcs12(content, password, path, option)
    if not others:
        raise ConfigError(f"{option}: {path} contains no trusted certificate")
    return b"".join(others)


def identity(path: Path, store_password: Secret | None, key_password: Secret | None, option: str) -> Identity:
    """Return the certificate chain and the key in a keystore.

    Parameters:
        path: a file of PEM or PKCS12.
        store_password: the password of a PKCS12 file.
        key_password: the password of the key in a PEM file.
        option: the option with the path, for errors.

    Raises:
        ConfigError: the file cannot be read, or lacks a certificate or a key.
    """
    content = read_file(path, option)
    if _is_pem(content, path, option):
        return Identity(content, content, key_password)
    key, own, others = _open_pkcs12(content, store_password, path, option)
    if key is None or own is None:
        missing = "key" if key is None else "certificate of its key"
        raise ConfigError(f"{option}: {path} contains no {missing}")
    return Identity(own + b"".join(others), key, None)


def _is_pem(content: bytes, path: Path, option: str) -> bool:
    """Return whether it is PEM, else it is PKCS12.

    Raises:
        ConfigError: it is neither.
    """
    if _PEM_START in content:
        return True
    if content.startswith(_DER_START):
        return False
    if content.startswith(_JKS_START):
        raise ConfigError(
            f"{option}: {path} is a JKS store; convert it with: keytool -importkeystore -srckeystore {path} "
            f"-destkeystore {path.with_suffix('.p12')} -deststoretype PKCS12"
        )
    raise ConfigError(f"{option}: {path} is neither PEM nor PKCS12")


def check_iterations(pem: bytes, where: str) -> None:
    """Check that no key in PEM takes very long to decrypt.

    Parameters:
        where: the option with the key, for errors.

    Raises:
        ConfigError: one does.
    """
    for block in _PEM_BLOCK.findall(pem):
        with suppress(binascii.Error):
            _check_iterations(b64decode(block), where)


def _check_iterations(content: bytes | memoryview, where: str, depth: int = 0) -> None:
    """Look for numbers that follow a salt, as deep as they are in a PKCS12 store.

    Bytes that are not DER are left to the library, whose errors are better.
    """
    if depth > _DEPTH_LIMIT:
        return
    with suppress(DerError):
        parts = values(content)
        for salt, number in pairwise(parts):
            if salt.tag == OCTET_STRING and number.tag == INTEGER:
                iterations = int.from_bytes(number.contents)
                if iterations > ITERATIONS_LIMIT:
                    raise ConfigError(f"{where}: its password takes more than {ITERATIONS_LIMIT} iterations to check")
        for part in parts:
            if part.tag & _CONSTRUCTED or part.tag in (OCTET_STRING, _CONTENT):
                _check_iterations(part.contents, where, depth + 1)


def _open_pkcs12(
    content: bytes, password: Secret | None, path: Path, option: str
) -> tuple[bytes | None, bytes | None, list[bytes]]:
    """Return the key, its certificate and the other certificates, in PEM.

    Raises:
        ConfigError: the password is wrong, the file is damaged, or `cryptography` is not installed.
    """
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError as error:
        raise ConfigError(
            f"{option}: {path} is a PKCS12 store, which needs the package cryptography: pip install 'kclient[tls]'"
        ) from error
    _check_iterations(content, f"{option}: {path}")
    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.reveal().encode())
        key = None
        if store.key is not None:
            key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        own = store.cert.certificate.public_bytes(Encoding.PEM) if store.cert is not None else None
        return key, own, [other.certificate.public_bytes(Encoding.PEM) for other in store.additional_certs]
    except BaseException as error:
        # The library panics at some damaged stores, with an exception that is not an Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            # Not chained: what another library says of a store may quote it.
            raise ConfigError(
                f"{option}: {path} could not be opened; its password is wrong, or it is damaged"
            ) from None
        raise
