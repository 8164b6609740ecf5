"""Whose tickets a client logs in with, from Kafka's settings: those of a keytab, or of a ticket cache.

With a keytab, the system's library gets tickets by itself and keeps them in memory, where the clients of a process
share them. After half of their lifetime, the next login gets new ones. A ticket cache belongs to something else, such
as `kinit`. Elsewhere: the login (`login`), and the syntax of `sasl.jaas.config` (`kclient.security.jaas`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kclient.errors import ConfigError
from kclient.security.jaas import JaasModule
from kclient.security.kerberos.library import load_library
from kclient.security.oauth.source import RefreshPolicy
from kclient.security.stores import read_file

_OPTION = "sasl_jaas_config"
_SERVICE = "sasl_kerberos_service_name"
_FILE = "FILE:"
_KEYTAB_START = b"\x05"
KINIT = "/usr/bin/kinit"
"""Kafka's default command."""


class KerberosSettings(NamedTuple):
    """The settings of GSSAPI on a client.

    Attributes:
        service: the service of the brokers' principals, which are SERVICE/HOST.
        principal: who logs in; None for the principal of the keytab or the ticket cache.
        keytab: the file with the keys of the principal; None to use a ticket cache.
        ticket_cache: the ticket cache; None for the default one.
        renews: whether to renew the tickets of the ticket cache.
        kinit: the command that renews them.
        policy: when to renew them.
    """

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    renews: bool = False
    kinit: str = KINIT
    policy: RefreshPolicy = RefreshPolicy(buffer=0.0)

    @property
    def who(self) -> str:
        """Who logs in, for errors."""
        if self.principal is not None:
            return f"the principal {self.principal!r}"
        if self.keytab is not None:
            return f"the first principal of {self.keytab}"
        return f"the owner of {f'the ticket cache {self.ticket_cache}' if self.ticket_cache else 'the ticket cache'}"

    @property
    def store(self) -> Mapping[str, str]:
        """The credential store of the tickets."""
        if self.keytab is not None:
            name = hashlib.sha256(f"{self.keytab}\0{self.principal}".encode()).hexdigest()
            return {"client_keytab": self.keytab, "ccache": f"MEMORY:kclient-{name[:32]}"}
        return {} if self.ticket_cache is None else {"ccache": self.ticket_cache}

    def check(self) -> None:
        """Check that the package `gssapi` is installed, and that the keytab is one.

        Raises:
            ConfigError: it is not.
        """
        load_library()
        if self.keytab is None or (":" in self.keytab and not self.keytab.startswith(_FILE)):
            return
        path = Path(self.keytab.removeprefix(_FILE))
        if not read_file(path, f"keyTab in {_OPTION}").startswith(_KEYTAB_START):
            raise ConfigError(f"keyTab in {_OPTION}: {path} is not a keytab")


def kerberos_settings(
    service: str | None, module: JaasModule | None, kinit: str, policy: RefreshPolicy
) -> KerberosSettings:
    """Return the settings.

    Parameters:
        service: `sasl.kerberos.service.name`.
        module: Krb5LoginModule of `sasl.jaas.config`; None to use the default ticket cache.
        kinit: `sasl.kerberos.kinit.cmd`.
        policy: when to renew the tickets of a ticket cache.

    Raises:
        ConfigError: they contradict each other, or there is no service.
    """
    own = None if module is None else module.text("serviceName")
    if own is not None and service is not None and own != service:
        raise ConfigError(f"serviceName in {_OPTION} is {own!r}, and {_SERVICE} is {service!r}; set one of them")
    service = own or service
    if not service:
        raise ConfigError(f'sasl_mechanism=GSSAPI needs {_SERVICE}, such as "kafka" for the principals kafka/HOST')
    if module is None:
        return KerberosSettings(service, kinit=kinit, policy=policy)
    keytab = module.text("keyTab")
    uses_keytab, uses_cache = _is_set(module, "useKeyTab"), _is_set(module, "useTicketCache")
    if uses_keytab and keytab is None:
        raise ConfigError(f"useKeyTab in {_OPTION} needs keyTab, the path of a keytab")
    if not (uses_keytab or uses_cache):
        raise ConfigError(
            f'{_OPTION} needs useKeyTab="true" with keyTab, or useTicketCache="true": nobody is asked for a password'
        )
    return KerberosSettings(
        service,
        principal=module.text("principal"),
        keytab=keytab if uses_keytab else None,
        ticket_cache=None if uses_keytab else module.text("ticketCache"),
        renews=not uses_keytab,
        kinit=kinit,
        policy=policy,
    )


def _is_set(module: JaasModule, option: str) -> bool:
    return (module.text(option) or "").lower() == "true"
