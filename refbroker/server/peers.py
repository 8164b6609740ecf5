"""How this broker connects to other brokers: the listener, the login and the TLS that the settings have for it.

The login is in `listener.name.LISTENER.MECHANISM.sasl.jaas.config`, as `username` and `password` beside the users of
PLAIN; the certificates are those that the listener shows itself. Not implemented: brokers that connect to others, and
their logins by OAUTHBEARER and GSSAPI. Elsewhere: which listener and mechanism (`refbroker.settings.inter_broker`).
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from kclient.errors import ConfigError
from kclient.security.context import ContextSource, make_context
from kclient.security.jaas import parse_jaas
from kclient.security.sasl import WITH_PASSWORD, PasswordLogin
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings
from refbroker.config import BrokerConfig
from refbroker.server.tls import tls_settings
from refbroker.settings.inter_broker import MECHANISM
from refbroker.settings.listeners import SecurityProtocol
from refbroker.settings.values import parse_list


class PeerSecurity(NamedTuple):
    """How a broker connects to others.

    Attributes:
        listener: the name of their listener.
        protocol: its security protocol.
        login: who logs in; None without SASL.
        tls: the contexts of new connections; None without TLS.
    """

    listener: str
    protocol: SecurityProtocol
    login: PasswordLogin | None
    tls: ContextSource | None


def peer_security(config: BrokerConfig) -> PeerSecurity:
    """Return how a broker with these settings connects to others.

    Raises:
        ConfigError: the login is missing or not implemented, or the certificates cannot be used.
    """
    listener = config.listeners.inter_broker
    protocol = config.listeners.protocol(listener)
    return PeerSecurity(
        listener,
        protocol,
        _login(config, listener) if protocol.has_sasl else None,
        _contexts(config, listener) if protocol.has_tls else None,
    )


def _login(config: BrokerConfig, listener: str) -> PasswordLogin:
    mechanism = config.layers.set_values.get(MECHANISM) or _first_mechanism(config, listener)
    if mechanism not in WITH_PASSWORD:
        raise ConfigError(
            f"{MECHANISM}={mechanism} is not implemented for brokers; set it to one of {', '.join(WITH_PASSWORD)}"
        )
    setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.layers.set_values.get(setting)
    module = None if text is None else parse_jaas(Secret(text), setting)
    user, password = (None, None) if module is None else (module.text("username"), module.options.get("password"))
    if module is None or user is None or password is None:
        raise ConfigError(f'{setting} needs username="..." and password="...", with which brokers log in')
    login = PasswordLogin(mechanism, user, password, (module.text("tokenauth") or "").lower() == "true")
    login.check()
    return login


def _first_mechanism(config: BrokerConfig, listener: str) -> str:
    enabled = parse_list(config.listener_text(listener, "sasl.enabled.mechanisms") or "")
    return next((mechanism for mechanism in enabled if mechanism in WITH_PASSWORD), enabled[0])


def _contexts(config: BrokerConfig, listener: str) -> ContextSource:
    def prepare(settings: TlsSettings) -> ssl.SSLContext:
        settings.check()
        context = make_context(settings, ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = config.listener_text(listener, "ssl.endpoint.identification.algorithm") == "https"
        return context

    return ContextSource(lambda: tls_settings(config, listener), prepare, f"brokers at listener {listener}")
