"""A package `gssapi` without Kerberos, for tests where it is missing: contexts of two messages, and errors on demand.

Tokens are text, so a test can read who talks to whom. Only what `kclient.security.kerberos.library` uses exists.
Elsewhere: a real realm (`kerberos`).
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

REALM = "FAKE.TEST"
KERBEROS = "krb5"
NO_CREDENTIALS = 7 << 16
FIRST = -1765328384
"""The number of error 0 of Kerberos."""
_NO_CACHE = FIRST + 195


class GSSError(Exception):
    """An error of the library."""

    def __init__(self, text: str, major: int = 13 << 16, minor: int = 0) -> None:
        super().__init__(text)
        self._text = text
        self.maj_code = major
        self.min_code = minor % (1 << 32)

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        if is_major:
            return ["Unspecified GSS failure"]
        return [self._text] if self.min_code else ["Unknown error"]


class Name:
    def __init__(self, text: str, kind: str) -> None:
        self.text = text if "@" in text or kind == "service" else f"{text}@{REALM}"

    def canonicalize(self, mechanism: str) -> Name:
        return self

    def __str__(self) -> str:
        return self.text


class FakeGssapi(types.ModuleType):
    """The package.

    Attributes:
        keytabs: the principals of each keytab, by its path.
        tickets: the owner of each ticket cache, by its name; that of the default one is "".
        failures: the errors that the next calls raise, by "initiate" and "accept".
        targets: the services that clients asked for.
        lifetime: the seconds until tickets expire.
    """

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.keytabs: dict[str, list[str]] = {}
        self.tickets: dict[str, str] = {}
        self.failures: dict[str, Iterator[GSSError]] = {}
        self.targets: list[str] = []
        self.lifetime = 3600
        self.Name = Name
        self.NameType = types.SimpleNamespace(user="user", kerberos_principal="principal", hostbased_service="service")
        self.MechType = types.SimpleNamespace(kerberos=KERBEROS)
        self.RequirementFlag = types.SimpleNamespace(mutual_authentication="mutual", integrity="integrity")
        self.exceptions = types.SimpleNamespace(GSSError=GSSError)

    def Credentials(
        self, name: Name | None, usage: str, mechs: Sequence[str], store: Mapping[str, str] | None
    ) -> types.SimpleNamespace:
        assert mechs == [KERBEROS]
        found = store or {}
        path = found.get("keytab") or found.get("client_keytab")
        principals = self.keytabs.get(path, []) if path else [self.tickets[cache] for cache in self._cache(found)]
        owners = [owner for owner in principals if name is None or str(Name(owner, "")) == str(name)]
        if not owners:
            raise GSSError("No credentials cache found", NO_CREDENTIALS, _NO_CACHE)
        return types.SimpleNamespace(name=Name(owners[0], ""), lifetime=self.lifetime)

    def SecurityContext(self, **arguments: Any) -> Context:
        return Context(self, **arguments)

    def _cache(self, store: Mapping[str, str]) -> list[str]:
        name = store.get("ccache", "")
        return [name] if name in self.tickets else []

    def fail(self, call: str) -> None:
        """Raise what a call has to raise."""
        error = next(self.failures.get(call, iter(())), None)
        if error is not None:
            raise error


class Context:
    """A security context: the client's first token names both sides, and that of the broker is empty of content."""

    def __init__(self, package: FakeGssapi, creds: Any, usage: str, name: Name | None = None, **_: Any) -> None:
        self._package = package
        self._creds = creds
        self._usage = usage
        self._target = name
        self.complete = False
        self.initiator_name: Name | None = None

    def step(self, token: bytes | None) -> bytes | None:
        self._package.fail(self._usage)
        if self._usage == "accept":
            assert token is not None
            kind, _, peer = token.decode().partition(" ")
            if kind != "AP-REQ":
                raise GSSError("Token header is malformed or corrupt", 9 << 16)
            self.initiator_name = Name(peer, "principal")
            self.complete = True
            return b"AP-REP"
        if token is None:
            self._package.targets.append(str(self._target))
            return f"AP-REQ {self._creds.name}".encode()
        if token != b"AP-REP":
            raise GSSError("Mutual authentication failed", minor=FIRST + 158)
        self.complete = True
        return None

    def wrap(self, message: bytes, encrypt: bool) -> types.SimpleNamespace:
        assert not encrypt
        return types.SimpleNamespace(message=b"signed " + message)

    def unwrap(self, message: bytes) -> types.SimpleNamespace:
        if not message.startswith(b"signed "):
            raise GSSError("A token had an invalid signature", 6 << 16)
        return types.SimpleNamespace(message=message.removeprefix(b"signed "))
