"""The broker's own configuration: the settings given, their validation, and the values that apply.

It uses Kafka's names; an unknown name is an error that suggests the nearest one. Settings that are stored but have no
effect are logged when the broker starts. Settings that it would have to disobey are refused.

Elsewhere: the listeners (`settings.listeners`), the authorizer (`security.authorizer`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from kclient import _properties
from kclient.errors import ConfigError, InvalidConfigurationError
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings
from refbroker.log import LogConfig
from refbroker.security.authorizer import SETTINGS as AUTHORIZER_SETTINGS
from refbroker.security.authorizer import Authorizer
from refbroker.settings.cross_checks import check_broker
from refbroker.settings.definitions import broker_settings
from refbroker.settings.dynamic import static_setting
from refbroker.settings.effective import BrokerLayers, topic_texts
from refbroker.settings.hints import broker_synonym, nearest
from refbroker.settings.listeners import Listeners, check_mechanisms
from refbroker.settings.values import parse_list

logger = logging.getLogger(__name__)

CORDONED = "cordoned.log.dirs"
ALL_DIRECTORIES = "*"
LISTENER_PREFIX = "listener.name."
CLIENT_AUTH, NO_CLIENT_AUTH = "ssl.client.auth", "none"
NO_NODE_ID = -1
MISTYPED = 0.9
"""How similar an unknown name in a server.properties must be to a setting's name to count as misspelled. A less similar
one may belong to a plugin or to an older Kafka, whose settings resemble some of today's.
"""
_NODE_ID = ("node.id", "broker.id")
CLASSES_OF_SECURITY = ("principal.builder.class", "ssl.engine.factory.class")
"""Settings of classes that decide who clients are, or whom to trust."""
# Settings that Kafka's own brokers need and that have no effect here, so that they need no message; stores are
# recognized by their content.
_EXPECTED = frozenset(
    {
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "process.roles",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.keystore.type",
        "ssl.truststore.type",
    }
)


class BrokerConfig:
    """The settings of one broker.

    Parameters:
        settings: the values given, by Kafka's names.

    Attributes:
        static: these settings, with the node id under both of its names.
        layers: the static settings and those set at runtime.

    Raises:
        ConfigError: a setting does not exist, or its value is invalid.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.static = {name: str(value) for name, value in (settings or {}).items()}
        self._check()
        for name in _NODE_ID:
            if int(self.static.get(name, NO_NODE_ID)) < 0:
                self.static[name] = str(self.node_id)
        self.layers = BrokerLayers(static=self.static)
        self._check_quorum()
        try:
            check_broker(self.layers)
        except InvalidConfigurationError as error:
            raise ConfigError(error.message) from error
        self._refresh()

    def _check(self) -> None:
        known = broker_settings()
        for name, value in self.static.items():
            setting = static_setting(name)
            if setting is None and _is_special(name):
                continue
            if setting is None:
                like = broker_synonym(name) or nearest(name, known)
                raise ConfigError(f"the broker has no setting {name}{f'; did you mean {like}?' if like else ''}")
            try:
                setting.check(value)
            except InvalidConfigurationError as error:
                raise ConfigError(error.message) from error

    def check_runnable(self) -> None:
        """Check that a broker obeys these settings; tools that only read them need not call this.

        Raises:
            ConfigError: the settings name an authorizer, another class of security, or listeners that this broker does
                not have, or those of brokers and controllers contradict each other.
        """
        for name in CLASSES_OF_SECURITY:
            if (value := self.static.get(name)) not in (None, broker_settings()[name].default):
                raise ConfigError(f"{name}={value}: this broker runs no Java classes")
        # Both raise if this broker does not have them.
        Authorizer.from_settings(self.static)
        _ = self.listeners
        try:
            check_mechanisms(self.layers, self.listeners)
        except InvalidConfigurationError as error:
            raise ConfigError(error.message) from error

    def log_stored(self) -> None:
        """Log which settings are stored but have no effect."""
        known = broker_settings()
        stored = sorted(
            name for name in self.static if name in known and not known[name].acted_on and name not in _EXPECTED
        )
        if not self.text("authorizer.class.name"):
            stored += sorted(AUTHORIZER_SETTINGS.intersection(self.static))
        if stored:
            logger.warning("stored, but not acted on by this broker yet: %s", ", ".join(stored))

    def _check_quorum(self) -> None:
        """Refuse settings of a node that is one of several controllers."""
        roles = parse_list(self.static.get("process.roles", ""))
        voters = parse_list(self.static.get("controller.quorum.voters", ""))
        if roles and "broker" not in roles:
            raise ConfigError("this broker is its own controller: process.roles=controller has no place here")
        if not self.is_controller:
            return
        if len(voters) > 1:
            raise ConfigError(
                f"this broker is one node and its own controller, unlike controller.quorum.voters={','.join(voters)}; "
                f"set process.roles=broker for a broker under these controllers"
            )
        if voters and "controller" in roles and voters[0].partition("@")[0] != str(self.node_id):
            raise ConfigError(
                f"If process.roles contains the 'controller' role, the node id {self.node_id} must be included in the "
                f"set of voters controller.quorum.voters={voters[0]}"
            )

    def set_dynamic(self, broker: Mapping[str, str], every_broker: Mapping[str, str]) -> None:
        """Apply the settings that were set at runtime on this broker and on all brokers."""
        self.layers = BrokerLayers(dict(broker), dict(every_broker), self.static)
        self._refresh()

    def _refresh(self) -> None:
        self.socket_request_max_bytes = self.integer("socket.request.max.bytes")
        self.fetch_max_bytes = self.integer("fetch.max.bytes")
        self.auto_create_topics = self.boolean("auto.create.topics.enable")
        self.min_insync_replicas = self.integer("min.insync.replicas")
        self.connections_max_idle_ms = self.integer("connections.max.idle.ms")
        self.log_defaults = self.log_config({})

    def text(self, name: str) -> str | None:
        """Return the value of a setting, None when it has none."""
        return self.layers.value(name)

    def listener_text(self, listener: str, name: str) -> str | None:
        """Return the value of a setting for a listener: its own, `listener.name.LISTENER.NAME`, or that for all."""
        own = self.layers.set_values.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}")
        return self.text(name) if own is None else own

    def client_auth(self, listener: str) -> str:
        """Return whether a listener with TLS asks its clients for a certificate: none, requested or required.

        As in Kafka, the setting for all listeners is not for those with SASL (KIP-684).
        """
        if not self.listeners.protocol(listener).has_sasl:
            return self.listener_text(listener, CLIENT_AUTH) or NO_CLIENT_AUTH
        return self.layers.set_values.get(f"{LISTENER_PREFIX}{listener.lower()}.{CLIENT_AUTH}") or NO_CLIENT_AUTH

    def tls_settings(self, listener: str) -> TlsSettings:
        """Return the current settings of TLS of a listener, with the names of a broker's settings for errors."""

        def text(setting: str) -> str | None:
            return self.listener_text(listener, setting)

        def secret(setting: str) -> Secret | None:
            found = text(setting)
            return None if found is None else Secret(found)

        return TlsSettings(
            option=_setting_name,
            truststore_location=text("ssl.truststore.location"),
            truststore_certificates=text("ssl.truststore.certificates"),
            truststore_password=secret("ssl.truststore.password"),
            keystore_location=text("ssl.keystore.location"),
            keystore_password=secret("ssl.keystore.password"),
            keystore_certificate_chain=text("ssl.keystore.certificate.chain"),
            keystore_key=secret("ssl.keystore.key"),
            key_password=secret("ssl.key.password"),
            enabled_protocols=parse_list(text("ssl.enabled.protocols") or ""),
            cipher_suites=parse_list(text("ssl.cipher.suites") or ""),
            client_auth=self.client_auth(listener),
        )

    def integer(self, name: str) -> int:
        """Return the value of a numeric setting.

        Raises:
            ConfigError: it has no value.
        """
        value = self.text(name)
        if value is None:
            raise ConfigError(f"{name} is not set")
        return int(value)

    def boolean(self, name: str) -> bool:
        """Return the value of a boolean setting."""
        return (self.text(name) or "").strip().lower() == "true"

    def log_config(self, topic: Mapping[str, str]) -> LogConfig:
        """Return the log settings of a topic.

        Parameters:
            topic: the settings of the topic itself.
        """
        return LogConfig().with_topic_configs(topic_texts(topic, self.layers))

    @property
    def node_id(self) -> int:
        """The broker's id; 1 unless `node.id` or `broker.id` is set."""
        given = (int(self.static.get(name, NO_NODE_ID)) for name in _NODE_ID)
        return next((number for number in given if number >= 0), 1)

    @property
    def is_controller(self) -> bool:
        """Whether the node is its own controller; else it joins the cluster of the controllers in its settings
        (`process.roles=broker`).
        """
        roles = parse_list(self.static.get("process.roles", ""))
        return not roles or "controller" in roles

    @property
    def rack(self) -> str | None:
        return self.static.get("broker.rack")

    @property
    def data_directories(self) -> list[Path]:
        """The directories of the logs; `log.dirs` takes precedence over `log.dir`."""
        return [Path(part) for part in parse_list(self.text("log.dirs") or self.text("log.dir") or "")]

    @property
    def replica_move_threads(self) -> int:
        """The number of partitions that move between data directories at a time:
        `num.replica.alter.log.dirs.threads`.
        """
        own = self.text("num.replica.alter.log.dirs.threads")
        return max(len(self.data_directories) if own is None else int(own), 1)

    @property
    def metadata_directory(self) -> Path | None:
        """The directory of the metadata log; None means the first data directory."""
        path = self.static.get("metadata.log.dir")
        return None if not path else Path(path)

    @property
    def replica_move_bytes_per_second(self) -> float:
        """The rate at which partitions move between data directories, in bytes per second:
        `replica.alter.log.dirs.io.max.bytes.per.second`.
        """
        return float(self.layers.set_values.get("replica.alter.log.dirs.io.max.bytes.per.second", "inf"))

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """The data directories that receive no new logs, as written in `log.dirs`."""
        named, known = parse_list(self.text(CORDONED) or ""), {str(path) for path in self.data_directories}
        return frozenset(known if ALL_DIRECTORIES in named else known.intersection(named))

    @cached_property
    def listeners(self) -> Listeners:
        """The listeners for clients.

        Raises:
            ConfigError: see Listeners.
        """
        return Listeners(self.static)


def _setting_name(option: str) -> str:
    return option.replace("_", ".")


def _is_special(name: str) -> bool:
    """Return whether a setting that is not one of the broker's belongs to a listener or to the authorizer."""
    return name.startswith(LISTENER_PREFIX) or name in AUTHORIZER_SETTINGS


def read_properties(path: Path) -> dict[str, str]:
    """Read the settings in a server.properties. As in Kafka, names that may belong to plugins are logged and ignored.

    Raises:
        ConfigError: the file cannot be read, or a name looks misspelled.
    """
    try:
        settings = _properties.read_properties(path)
    except OSError as error:
        raise ConfigError(f"could not read {path}: {error}") from error
    known = broker_settings()
    for name in [name for name in settings if name not in known and not _is_special(name)]:
        like = nearest(name, known, MISTYPED)
        if like is not None:
            raise ConfigError(f"{path}: the broker has no setting {name}; did you mean {like}?")
        logger.warning("%s: the broker has no setting %s, which is left to plugins", path, name)
        del settings[name]
    # Kafka strips leading and trailing blanks from every value, including passwords (ConfigDef.parseType).
    return {name: value.strip() for name, value in settings.items()}
