"""The SASL of each listener, from the settings: its mechanisms and users.

Passwords for PLAIN are those of `listener.name.LISTENER.plain.sasl.jaas.config`, as `user_NAME="PASSWORD"`; those for
SCRAM, and delegation tokens, are in the metadata log. Elsewhere: the logins themselves (`refbroker.security.sasl`), and
the tokens of OAUTHBEARER (`oauth`) and tickets of GSSAPI (`kerberos`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from functools import partial

from kclient.errors import ConfigError
from kclient.security.jaas import parse_jaas
from kclient.security.oauth.urls import is_loopback
from kclient.security.sasl import GSSAPI, OAUTHBEARER, PLAIN
from kclient.security.scram import ScramCredential, ScramMechanism
from kclient.security.secret import Secret
from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.tokens import DelegationTokens
from refbroker.runtime.background import Background
from refbroker.runtime.clock import Clock
from refbroker.security.oauth import bearer_server
from refbroker.security.sasl import Authenticator, Mechanism, Users
from refbroker.server.kerberos import kerberos_mechanism
from refbroker.server.oauth import HANDLER, OAuthListener, check_keys_are_used
from refbroker.settings.values import parse_list

logger = logging.getLogger(__name__)

_USER = "user_"
_PLAIN_MODULE = "PlainLoginModule"
_MAX_REAUTH = "connections.max.reauth.ms"


class SaslListener:
    """The SASL of one listener.

    Parameters:
        config: the broker's settings.
        name: the listener.
        clock: measures sessions.

    Attributes:
        enabled: its mechanisms.
        oauth: its OAUTHBEARER, if it has that.

    Raises:
        ConfigError: a mechanism is not implemented, or cannot be set up.
    """

    def __init__(self, config: BrokerConfig, name: str, clock: Clock) -> None:
        self._clock = clock
        enabled = parse_list(config.listener_text(name, "sasl.enabled.mechanisms") or "")
        _check_handlers(config, name, enabled)
        self._plain = _plain_users(config, name) if PLAIN in enabled else {}
        self._secret = secrets.token_bytes(32)
        self.enabled = enabled
        self._max_session_ms = {mechanism: _max_session_ms(config, name, mechanism) for mechanism in enabled}
        self.oauth = OAuthListener(config, name, clock) if OAUTHBEARER in enabled else None
        self._others: dict[str, Mechanism] = {}
        if self.oauth is not None:
            self._others[OAUTHBEARER] = Mechanism(partial(bearer_server, self.oauth.validator))
        if GSSAPI in enabled:
            self._others[GSSAPI] = kerberos_mechanism(config, name)
        # Raises if a mechanism is not implemented.
        Users(self._plain, _nobody, _nobody, self._secret, self._others).mechanisms(enabled)

    def plan(self, background: Background) -> None:
        """Have refreshed what has to be, from the start of the periodic tasks on."""
        if self.oauth is not None and self.oauth.refresh is not None:
            self.oauth.refresh.plan(background)

    def authenticator(self, image: ClusterImage, tokens: DelegationTokens) -> Authenticator:
        """Return the login of a new connection.

        Parameters:
            image: has the credentials of SCRAM.
            tokens: the delegation tokens, with which clients log in by SCRAM, too.
        """

        def lookup(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
            found = image.scram.get((mechanism.type, user))
            if found is None:
                return None
            return ScramCredential(
                bytes(found.salt), found.iterations, bytes(found.stored_key), bytes(found.server_key)
            )

        users = Users(self._plain, lookup, tokens.account, self._secret, self._others)
        return Authenticator(users.mechanisms(self.enabled, self._max_session_ms.__getitem__), self._clock)


def _nobody(mechanism: ScramMechanism, name: str) -> None:
    """Look up a user or a token where none exist."""


def sasl_listeners(config: BrokerConfig, clock: Clock) -> dict[str, SaslListener]:
    """Return the SASL of each listener that has it, by name.

    Raises:
        ConfigError: see SaslListener.
    """
    listeners = [each for each in config.listeners.all if config.listeners.protocol(each.name).has_sasl]
    found = {each.name: SaslListener(config, each.name, clock) for each in listeners}
    for name, host, _ in listeners:
        if PLAIN in found[name].enabled and not (config.listeners.protocol(name).has_tls or is_loopback(host)):
            logger.warning("listener %s: PLAIN sends passwords unencrypted; use SASL_SSL or SCRAM", name)
    check_keys_are_used(config, [each.oauth for each in found.values() if each.oauth is not None])
    return found


def _check_handlers(config: BrokerConfig, listener: str, mechanisms: Iterable[str]) -> None:
    """Check that no class is named that Kafka would run, or would not although its name is there.

    Raises:
        ConfigError: one is.
    """
    prefix = f"listener.name.{listener.lower()}."
    for setting in (HANDLER, f"{prefix}{HANDLER}"):
        if setting in config.static:
            raise ConfigError(f"{setting} has no effect in Kafka without {prefix}MECHANISM. before it")
    for mechanism in mechanisms:
        setting = f"{prefix}{mechanism.lower()}.{HANDLER}"
        if mechanism != OAUTHBEARER and setting in config.static:
            raise ConfigError(f"{setting}={config.static[setting]}: this broker runs no Java classes")


def _max_session_ms(config: BrokerConfig, listener: str, mechanism: str) -> int:
    """Return `connections.max.reauth.ms` of a mechanism, of its listener, or of the broker."""
    own = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_MAX_REAUTH}"
    return int(config.static.get(own) or config.listener_text(listener, _MAX_REAUTH) or "0")


def _plain_users(config: BrokerConfig, listener: str) -> Mapping[str, Secret]:
    setting = f"listener.name.{listener.lower()}.{PLAIN.lower()}.sasl.jaas.config"
    text = config.layers.set_values.get(setting)
    if text is None:
        raise ConfigError(f'{setting} is missing: it has the users of PLAIN, as user_NAME="PASSWORD"')
    module = parse_jaas(Secret(text), setting)
    if module.name != _PLAIN_MODULE:
        raise ConfigError(f"{setting} must have {_PLAIN_MODULE}, not {module.name}")
    return {name.removeprefix(_USER): value for name, value in module.options.items() if name.startswith(_USER)}
