"""TLS contexts from Kafka's settings: what to trust, what to show, and which versions and ciphers to allow.

A `ContextSource` returns the context for the next connection, and makes a new one when a file has changed, so that
rotated certificates need no restart. Elsewhere: connections (`kclient.net.tls`, `refbroker.server.tls`).
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kclient.errors import ConfigError
from kclient.security.settings import TlsSettings, is_pem_text
from kclient.security.stores import Identity, check_iterations, identity, trusted_certificates

_log = logging.getLogger(__name__)

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The versions of TLS that may be enabled, the older ones first."""
_SUITES_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def make_context(settings: TlsSettings, purpose: ssl._SSLMethod) -> ssl.SSLContext:
    """Return a new context.

    Parameters:
        purpose: `ssl.PROTOCOL_TLS_CLIENT` or `ssl.PROTOCOL_TLS_SERVER`.

    Raises:
        ConfigError: a file cannot be read, a password is wrong, or a setting is invalid.
    """
    # Not create_default_context: since Python 3.13 it refuses the certificates of many private authorities.
    context = ssl.SSLContext(purpose)
    _allow_versions(context, settings)
    _allow_ciphers(context, settings)
    if settings.has_trust:
        _trust(context, settings)
    elif purpose == ssl.PROTOCOL_TLS_CLIENT:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.has_identity:
        _show(context, settings)
    return context


class ContextSource:
    """The current context of some settings, made again when a setting or a file has changed.

    Parameters:
        settings: returns the current settings.
        prepare: makes a context of them.
        label: what it is for, in log lines.

    Raises:
        ConfigError: see make_context.
    """

    def __init__(
        self,
        settings: Callable[[], TlsSettings],
        prepare: Callable[[TlsSettings], ssl.SSLContext],
        label: str,
    ) -> None:
        self._settings = settings
        self._prepare = prepare
        self._label = label
        found = settings()
        self._seen = _state(found)
        self._context = prepare(found)

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection; if what has changed is invalid, the previous one."""
        found = self._settings()
        state = _state(found)
        if state != self._seen:
            self._seen = state
            try:
                self._context = self._prepare(found)
                _log.info("%s: certificates were read again", self._label)
            except ConfigError as error:
                _log.error("%s: the previous certificates stay: %s", self._label, error)
        return self._context


def _state(settings: TlsSettings) -> tuple[TlsSettings, list[tuple[int, int, int] | None]]:
    """Return the settings, and what changes when one of their files is written or replaced."""
    return settings, [_file_state(path) for path in settings.files()]


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _allow_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    names = settings.enabled_protocols or tuple(VERSIONS)
    unknown = [name for name in names if name not in VERSIONS]
    if unknown:
        option = settings.option("ssl_enabled_protocols")
        raise ConfigError(f"{option}: {unknown[0]!r} is not one of {', '.join(VERSIONS)}")
    versions = sorted(VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION


def _allow_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    suites = settings.cipher_suites
    if not suites:
        return
    option = settings.option("ssl_cipher_suites")
    newer = [name for name in suites if name in _SUITES_1_3]
    older = [name for name in suites if name not in _SUITES_1_3]
    # Python has no way to choose among the suites of TLS 1.3; to allow more than was asked for would be wrong.
    if newer and len(set(newer)) < len(_SUITES_1_3):
        raise ConfigError(f"{option}: of the suites of TLS 1.3 name all or none: {', '.join(_SUITES_1_3)}")
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError as error:
            raise ConfigError(f"{option}: OpenSSL has none of {', '.join(older)}") from error
        if not newer:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        versions = settings.option("ssl_enabled_protocols")
        raise ConfigError(f"{option} has no suite for {versions}={','.join(settings.enabled_protocols)}")


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2.

    Parameters:
        suite: Java's name, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, or OpenSSL's.
    """
    found = re.fullmatch(r"TLS_(?P<keys>\w+?)_WITH_(?P<cipher>\w+)_(?P<hash>SHA\d*)", suite)
    if found is None:
        return suite
    cipher = found["cipher"].removesuffix("_CBC").replace("AES_", "AES").replace("_", "-")
    keys = "" if found["keys"] == "RSA" else f"{found['keys'].replace('_', '-')}-"
    last = "" if "CHACHA20" in cipher else f"-{found['hash']}"
    return f"{keys}{cipher}{last}"


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_certificates is not None:
        option, where = settings.option("ssl_truststore_certificates"), "the text"
        pem = settings.truststore_certificates.encode(errors="replace")
    else:
        option, where = settings.option("ssl_truststore_location"), str(settings.truststore_location)
        pem = trusted_certificates(Path(where), settings.truststore_password, option)
    try:
        # Comments between the certificates may have other letters.
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{option}: {where} contains no valid certificate in PEM") from None


def _show(context: ssl.SSLContext, settings: TlsSettings) -> None:
    own = _identity(settings)
    place = settings.option("ssl_keystore_location" if settings.keystore_location else "ssl_keystore_key")
    where = f"{place}={settings.keystore_location}" if settings.keystore_location else place
    # An empty password, because without one OpenSSL would ask for it on the terminal.
    password = own.password.reveal() if own.password is not None else ""
    check_iterations(own.key, where)
    with _as_file(own.chain) as chain, _as_file(own.key) as key:
        try:
            context.load_cert_chain(chain, key, password=lambda: password)
        except (ssl.SSLError, ValueError) as error:
            reason = (getattr(error, "reason", None) or "").replace("_", " ").lower()
            raise ConfigError(f"{where}: {_key_problem(reason, own, settings)}") from None


def _key_problem(reason: str, own: Identity, settings: TlsSettings) -> str:
    if "values mismatch" in reason:
        return "the key does not belong to the certificate"
    if b"ENCRYPTED" in own.key:
        option = settings.option("ssl_key_password")
        return f"the key could not be decrypted; {option} is {'wrong' if own.password is not None else 'missing'}"
    return f"the certificate chain and the key cannot be used{f' ({reason})' if reason else ''}"


def _identity(settings: TlsSettings) -> Identity:
    if settings.keystore_location is not None:
        option = settings.option("ssl_keystore_location")
        return identity(Path(settings.keystore_location), settings.keystore_password, settings.key_password, option)
    key = settings.keystore_key.reveal() if settings.keystore_key is not None else ""
    return Identity(
        _pem(settings.keystore_certificate_chain or "", settings.option("ssl_keystore_certificate_chain")),
        _pem(key, settings.option("ssl_keystore_key")),
        settings.key_password,
    )


def _pem(text: str, option: str) -> bytes:
    """Return the PEM text that an option has, or that is in the file that it names."""
    if is_pem_text(text):
        return text.encode(errors="replace")
    try:
        return Path(text).read_bytes()
    except (OSError, ValueError):
        # The text may be a key that lost its first line.
        raise ConfigError(f"{option} is neither PEM text nor the path of a file that can be read") from None


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provide the path of a file with this content: OpenSSL takes keys from files only. No other user can read it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kclient")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
