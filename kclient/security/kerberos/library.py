"""Security contexts of Kerberos, by the package `gssapi` and the system's library of Kerberos.

Credentials come from a credential store, so that neither environment variables nor other users of the library matter.
All calls block: for files, and those of a client for the key distribution center (KDC). Elsewhere: what a failure means
(`failures`), and which store to use (`settings`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kclient.errors import ConfigError
from kclient.security.kerberos.exchange import Context

_NOT_INSTALLED = (
    "GSSAPI needs the package gssapi: pip install 'kclient[gssapi]'. It is compiled with the headers of Kerberos, so "
    "install libkrb5-dev (Debian, Ubuntu) or krb5-devel (Fedora, RHEL) first"
)
T = TypeVar("T")

_SIGNED = 1 << 32
_EMPTY_TEXTS = ("Success", "Unknown error")
"""What Kerberos says of an error that is not its own."""


class KerberosFailureError(Exception):
    """A call of the library failed.

    Attributes:
        text: what the library says.
        major, minor: the numbers of the error: GSSAPI's, and the one of Kerberos.
    """

    def __init__(self, text: str, major: int = 0, minor: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.major = major
        self.minor = minor


def load_library() -> Any:
    """Return the package `gssapi`.

    Raises:
        ConfigError: it is not installed, or does not find the library of Kerberos.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "gssapi"
        raise ConfigError(_NOT_INSTALLED if is_missing else f"{_NOT_INSTALLED} ({error})") from None
    return gssapi


def initiate(service: str, principal: str | None, store: Mapping[str, str]) -> Context:
    """Return the client's side of a security context with mutual authentication. Blocks.

    Parameters:
        service: the service and the host of the broker, as "kafka@broker-1".
        principal: whose ticket to use; None for that of the store.
        store: a credential store of the library; empty for the default one.

    Raises:
        KerberosFailureError: there are no valid credentials, and the library could not get any.
    """
    library = load_library()
    flag = library.RequirementFlag

    def make() -> Context:
        context = library.SecurityContext(
            name=library.Name(service, library.NameType.hostbased_service),
            creds=_client_credentials(library, principal, store),
            mech=library.MechType.kerberos,
            flags=[flag.mutual_authentication, flag.integrity],
            usage="initiate",
        )
        return _LibraryContext(library, context)

    return _translated(library, make)


def lifetime_of(principal: str | None, store: Mapping[str, str]) -> float:
    """Return the seconds until the credentials of a client expire; parameters as for `initiate`. Blocks.

    Raises:
        KerberosFailureError: there are no valid credentials.
    """
    library = load_library()
    return _translated(library, lambda: float(_client_credentials(library, principal, store).lifetime or 0))


def _client_credentials(library: Any, principal: str | None, store: Mapping[str, str]) -> Any:
    name = None if principal is None else library.Name(principal, library.NameType.kerberos_principal)
    mechanisms = [library.MechType.kerberos]
    return library.Credentials(name=name, usage="initiate", mechs=mechanisms, store=dict(store) or None)


def accept(principal: str, keytab: str) -> Context:
    """Return the broker's side of a security context. Blocks.

    Parameters:
        principal: the broker's.
        keytab: the file with its keys.

    Raises:
        KerberosFailureError: the keytab has no key of the principal.
    """
    library = load_library()

    def make() -> Context:
        credentials = library.Credentials(
            name=library.Name(principal, library.NameType.kerberos_principal),
            usage="accept",
            mechs=[library.MechType.kerberos],
            store={"keytab": keytab},
        )
        return _LibraryContext(library, library.SecurityContext(creds=credentials, usage="accept"))

    return _translated(library, make)


def default_realm() -> str:
    """Return the realm of names without one; empty if the system has none."""
    library = load_library()

    def canonical() -> str:
        name = library.Name("name", library.NameType.user)
        return str(name.canonicalize(library.MechType.kerberos))

    try:
        return _translated(library, canonical).rpartition("@")[2]
    except KerberosFailureError:
        return ""


class _LibraryContext:
    """A security context of the library; see `exchange.Context`."""

    def __init__(self, library: Any, context: Any) -> None:
        self._library = library
        self._context = context
        # Otherwise `step` would return a token for the peer instead of raising an error.
        context.__DEFER_STEP_ERRORS__ = False

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        return _translated(self._library, lambda: bytes(self._context.step(token) or b""))

    def wrap(self, message: bytes) -> bytes:
        return _translated(self._library, lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return _translated(self._library, lambda: bytes(self._context.unwrap(message).message))


def _translated(library: Any, function: Callable[[], T]) -> T:
    """Call a function of the library.

    Raises:
        KerberosFailureError: the library reports an error.
    """
    try:
        return function()
    except library.exceptions.GSSError as error:
        minor = int(error.min_code)
        # The library of Kerberos has negative numbers, which GSSAPI passes on without a sign.
        minor -= _SIGNED if minor >= _SIGNED >> 1 else 0
        raise KerberosFailureError(_text_of(error), int(error.maj_code), minor) from None


def _text_of(library_error: Any) -> str:
    """Return what Kerberos says or, without a word of it, what GSSAPI says."""
    kerberos: list[str] = library_error.get_all_statuses(library_error.min_code, False)
    gssapi: list[str] = library_error.get_all_statuses(library_error.maj_code, True)
    return next((text for text in kerberos if text not in _EMPTY_TEXTS), ", ".join(gssapi))
