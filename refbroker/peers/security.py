"""How this node connects to other nodes: the listener, the login and the TLS that the settings have for it.

The login is in `listener.name.LISTENER.MECHANISM.sasl.jaas.config`, as `username` and `password` beside the users of
PLAIN; the certificates are those that the listener shows itself. Not implemented: logins of nodes by OAUTHBEARER and
GSSAPI. Elsewhere: which listener and mechanism (`refbroker.settings.inter_broker`), the connections (`channel`).
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
from refbroker.settings.inter_broker import CONTROLLER_MECHANISM, CONTROLLERS, MECHANISM
from refbroker.settings.listeners import SecurityProtocol
from refbroker.settings.values import parse_list


class PeerSecurity(NamedTuple):
    """How a node connects to others.

    Attributes:
        listener: the name of their listener.
        protocol: its security protocol.
        login: who logs in; None without SASL.
        tls: the contexts of new connections; None without TLS.
    """

    listener: str
    protocol: SecurityProtocol
    login: PasswordLogin | None = None
    tls: ContextSource | None = None

    @property
    def description(self) -> str:
        """The listener, its protocol and the mechanism of the login, for errors and log lines."""
        mechanism = "" if self.login is None else f" with {self.login.mechanism}"
        return f"listener {self.listener}, {self.protocol.name}{mechanism}"


def peer_security(config: BrokerConfig) -> PeerSecurity:
    """Return how a broker with these settings connects to other brokers.

    Raises:
        ConfigError: the login is missing or not implemented, or the certificates cannot be used.
    """
    return _security(config, config.listeners.inter_broker, MECHANISM)


def controller_security(config: BrokerConfig) -> PeerSecurity:
    """Return how a node with these settings connects to controllers: by the first of their listeners, as in Kafka.

    Raises:
        ConfigError: the settings name no listener of controllers, or see `peer_security`.
    """
    if not config.listeners.controllers:
        raise ConfigError(f"a broker under other controllers needs {CONTROLLERS}, the names of their listeners")
    return _security(config, config.listeners.controllers[0], CONTROLLER_MECHANISM)


def _security(config: BrokerConfig, listener: str, setting: str) -> PeerSecurity:
    protocol = config.listeners.protocol(listener)
    return PeerSecurity(
        listener,
        protocol,
        _login(config, listener, setting) if protocol.has_sasl else None,
        _contexts(config, listener) if protocol.has_tls else None,
    )


def _login(config: BrokerConfig, listener: str, mechanism_setting: str) -> PasswordLogin:
    mechanism = config.layers.set_values.get(mechanism_setting) or _first_mechanism(config, listener)
    if mechanism not in WITH_PASSWORD:
        raise ConfigError(
            f"{mechanism_setting}={mechanism} is not implemented for brokers; set it to one of "
            f"{', '.join(WITH_PASSWORD)}"
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

    return ContextSource(lambda: config.tls_settings(listener), prepare, f"nodes at listener {listener}")
