"""GSSAPI of a listener, from its settings: the broker's principal and keytab, and the rules that make names.

The keytab is read again for each login, so that it can be replaced. Elsewhere: the logins
(`refbroker.security.kerberos`).
"""

from __future__ import annotations

from functools import partial

from kclient.errors import ConfigError
from kclient.security.jaas import JaasModule, parse_jaas
from kclient.security.kerberos.library import KerberosFailureError, accept, default_realm, load_library
from kclient.security.sasl import GSSAPI
from kclient.security.secret import Secret
from refbroker.config import BrokerConfig
from refbroker.security.kerberos import kerberos_server
from refbroker.security.kerberos_names import KerberosNames
from refbroker.security.sasl import Mechanism
from refbroker.settings.values import parse_list

_MODULE = "Krb5LoginModule"
_SERVICE = "sasl.kerberos.service.name"
_RULES = "sasl.kerberos.principal.to.local.rules"


def kerberos_mechanism(config: BrokerConfig, listener: str) -> Mechanism:
    """Return the GSSAPI of a listener.

    Raises:
        ConfigError: a setting is missing or invalid, the keytab has no key of the principal, or the package gssapi is
            not installed.
    """
    setting = f"listener.name.{listener.lower()}.{GSSAPI.lower()}.sasl.jaas.config"
    principal, keytab = _identity(config, listener, setting)
    load_library()
    try:
        # Raises if the keytab cannot be used.
        accept(principal, keytab)
    except KerberosFailureError as failure:
        raise ConfigError(f"{setting}: the keytab cannot be used: {failure.text}") from None
    rules = parse_list(config.listener_text(listener, _RULES) or "")
    names = KerberosNames(rules, default_realm())
    return Mechanism(partial(kerberos_server, partial(accept, principal, keytab), names), blocks=True)


def _identity(config: BrokerConfig, listener: str, setting: str) -> tuple[str, str]:
    """Return the broker's principal and its keytab."""
    text = config.layers.set_values.get(setting)
    if text is None:
        raise ConfigError(
            f'{setting} is missing: {_MODULE} required useKeyTab=true keyTab="PATH" principal="SERVICE/HOST@REALM";'
        )
    module = parse_jaas(Secret(text), setting)
    if module.name != _MODULE:
        raise ConfigError(f"{setting} must have {_MODULE}, not {module.name}")
    _check_service(module, config.listener_text(listener, _SERVICE), setting)
    principal, keytab = module.text("principal"), module.text("keyTab")
    if principal is None or keytab is None or (module.text("useKeyTab") or "").lower() != "true":
        raise ConfigError(f"{setting} needs useKeyTab=true, keyTab and principal")
    return principal, keytab


def _check_service(module: JaasModule, service: str | None, setting: str) -> None:
    """Check that there is one name of the service, as Kafka does."""
    own = module.text("serviceName")
    if own is None and service is None:
        raise ConfigError(f"{_SERVICE} is missing; set it to the service of the broker's principal, such as kafka")
    if own is not None and service is not None and own != service:
        raise ConfigError(f"{_SERVICE} is {service!r}, and serviceName in {setting} is {own!r}; set one of them")
