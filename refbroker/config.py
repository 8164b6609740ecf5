"""The broker's own configuration: what was set, checked, and the value that applies.

Takes Kafka's names; one that Kafka does not have is an error that names the nearest. Settings that are stored and
not acted on are logged when a broker starts, and those without which it would do something else than it was told are
refused.

Not implemented: TLS, SASL and several listeners.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kclient import _properties
from kclient.errors import ConfigError, InvalidConfigurationError
from refbroker.log import LogConfig
from refbroker.settings.cross_checks import check_broker
from refbroker.settings.definitions import broker_settings
from refbroker.settings.effective import BrokerLayers, topic_texts
from refbroker.settings.hints import broker_setting, nearest
from refbroker.settings.values import parse_list

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PLAINTEXT = "PLAINTEXT"
CORDONED = "cordoned.log.dirs"
ALL_DIRECTORIES = "*"
LISTENER_PREFIX = "listener.name."
NO_NODE_ID = -1
MISTYPED = 0.9
"""How much a name in a server.properties must be like a setting's to be taken for that one: less may be a plugin's, or
a setting that older Kafkas had, which some are much like."""
_NODE_ID = ("node.id", "broker.id")
# What a broker of Kafka's own has set for its sake, and which says nothing that could be acted on here.
_EXPECTED = frozenset(
    {
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "process.roles",
    }
)


class Listener(NamedTuple):
    """Where to listen, or what to tell clients to connect to."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class BrokerConfig:
    """The settings of one broker.

    Parameters:
        settings: what was set, by Kafka's names.

    Attributes:
        static: the same, and the number of the node under both of its names.
        layers: with what was set while the broker runs.

    Raises:
        ConfigError: a setting that does not exist, or a value that it cannot have.
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
            setting = known.get(name)
            if setting is None:
                if name.startswith(LISTENER_PREFIX):
                    continue
                like = broker_setting(name) or nearest(name, known)
                raise ConfigError(f"the broker has no setting {name}{f'; did you mean {like}?' if like else ''}")
            try:
                setting.check(value)
            except InvalidConfigurationError as error:
                raise ConfigError(error.message) from error

    def check_runnable(self) -> None:
        """See that a broker with these settings does what they say; tools that only read them need not call this.

        Raises:
            ConfigError: the settings name an authorizer, or other listeners than one for clients.
        """
        authorizer = self.text("authorizer.class.name")
        if authorizer:
            raise ConfigError(
                f"authorizer.class.name={authorizer} is not implemented: this broker allows every request. "
                "Remove the setting, or run Apache Kafka where requests must be denied."
            )
        listener, names = self.listener, self._client_listeners()
        if len(names) > 1:
            raise ConfigError(
                f"this broker serves one listener, and listeners={self.static['listeners']} names {len(names)}: "
                f"{', '.join(names)}. Keep one; those named in controller.listener.names do not count."
            )
        strange = [
            one.name
            for one in map(parse_listener, parse_list(self.static.get("advertised.listeners", "")))
            if one.name != listener.name and one.name not in self._controller_listeners()
        ]
        if strange:
            raise ConfigError(
                f"advertised.listeners names {', '.join(strange)}, which is not among the listeners: {listener.name}"
            )

    def log_stored(self) -> None:
        """Log which settings are stored and not acted on."""
        known = broker_settings()
        stored = sorted(
            name for name in self.static if name in known and not known[name].acted_on and name not in _EXPECTED
        )
        if stored:
            logger.warning("stored, but not acted on by this broker yet: %s", ", ".join(stored))

    def _check_quorum(self) -> None:
        """See that a file for a node of a cluster is not taken for one of a node that is its own controller."""
        roles = parse_list(self.static.get("process.roles", ""))
        voters = parse_list(self.static.get("controller.quorum.voters", ""))
        if roles and "broker" not in roles:
            raise ConfigError("this broker is its own controller: process.roles=controller has no place here")
        if len(voters) > 1:
            raise ConfigError(
                f"this broker is one node and its own controller, unlike controller.quorum.voters={','.join(voters)}"
            )
        if voters and "controller" in roles and voters[0].partition("@")[0] != str(self.node_id):
            raise ConfigError(
                f"If process.roles contains the 'controller' role, the node id {self.node_id} must be included in the "
                f"set of voters controller.quorum.voters={voters[0]}"
            )

    def set_dynamic(self, broker: Mapping[str, str], every_broker: Mapping[str, str]) -> None:
        """Take over what was set on the running broker and on all brokers."""
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
        """The value of a setting, None when it has none."""
        return self.layers.value(name)

    def integer(self, name: str) -> int:
        """The value of a setting that has a number.

        Raises:
            ConfigError: it has no value.
        """
        value = self.text(name)
        if value is None:
            raise ConfigError(f"{name} is not set")
        return int(value)

    def boolean(self, name: str) -> bool:
        """The value of a setting that is true or false."""
        return (self.text(name) or "").strip().lower() == "true"

    def log_config(self, topic: Mapping[str, str]) -> LogConfig:
        """The settings of the logs of a topic.

        Parameters:
            topic: what was set on the topic.
        """
        return LogConfig().with_topic_configs(topic_texts(topic, self.layers))

    @property
    def node_id(self) -> int:
        """The broker's number; 1 unless `node.id` or `broker.id` says otherwise."""
        given = (int(self.static.get(name, NO_NODE_ID)) for name in _NODE_ID)
        return next((number for number in given if number >= 0), 1)

    @property
    def rack(self) -> str | None:
        return self.static.get("broker.rack")

    @property
    def data_directories(self) -> list[Path]:
        """Where the logs are; `log.dirs` before `log.dir`."""
        return [Path(part) for part in parse_list(self.text("log.dirs") or self.text("log.dir") or "")]

    @property
    def replica_move_threads(self) -> int:
        """How many partitions move between data directories at once: `num.replica.alter.log.dirs.threads`."""
        own = self.text("num.replica.alter.log.dirs.threads")
        return max(len(self.data_directories) if own is None else int(own), 1)

    @property
    def metadata_directory(self) -> Path | None:
        """Where the metadata log is; None leaves it to the first of the data directories."""
        path = self.static.get("metadata.log.dir")
        return None if not path else Path(path)

    @property
    def replica_move_bytes_per_second(self) -> float:
        """How fast partitions move between data directories: `replica.alter.log.dirs.io.max.bytes.per.second`."""
        return float(self.layers.set_values.get("replica.alter.log.dirs.io.max.bytes.per.second", "inf"))

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """The data directories that get no new logs, as they are written in `log.dirs`."""
        named, known = parse_list(self.text(CORDONED) or ""), {str(path) for path in self.data_directories}
        return frozenset(known if ALL_DIRECTORIES in named else known.intersection(named))

    @property
    def listener(self) -> Listener:
        """Where to listen: the first of `listeners` that is not a controller's.

        Raises:
            ConfigError: there is none, or it is not PLAINTEXT.
        """
        listener = next(iter(self._client_listeners().values()), None)
        if listener is None:
            raise ConfigError(f"none of the listeners {self.static['listeners']} is for clients")
        protocols = dict(
            part.split(":", 1) for part in parse_list(self.static.get("listener.security.protocol.map", ""))
        )
        if protocols.get(listener.name, listener.name) != PLAINTEXT:
            raise ConfigError(f"the listener {listener} is not {PLAINTEXT}, which is all this broker has")
        return listener

    def _controller_listeners(self) -> list[str]:
        return parse_list(self.static.get("controller.listener.names", ""))

    def _client_listeners(self) -> dict[str, Listener]:
        """The listeners that are not a controller's, by name."""
        given = parse_list(self.static.get("listeners", f"{PLAINTEXT}://{LOOPBACK}:9092"))
        controllers = self._controller_listeners()
        return {found.name: found for found in map(parse_listener, given) if found.name not in controllers}

    def advertised(self, port: int) -> Listener:
        """What clients are told to connect to.

        Parameters:
            port: the one that is listened on.
        """
        listener = self.listener
        for text in parse_list(self.static.get("advertised.listeners", "")):
            advertised = parse_listener(text)
            if advertised.name == listener.name:
                return advertised if advertised.port else advertised._replace(port=port)
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else LOOPBACK
        return Listener(listener.name, host, port)


def parse_listener(text: str) -> Listener:
    """Read `NAME://host:port`.

    Raises:
        ConfigError: it is not in this form.
    """
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not slashes or not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"a listener has the form NAME://host:port, unlike {text!r}")
    return Listener(name, host.strip("[]"), int(port))


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a server.properties; those that Kafka's plugins may have are logged and left out, as in Kafka.

    Raises:
        ConfigError: the file cannot be read, or a name looks like a mistyped one.
    """
    try:
        settings = _properties.read_properties(path)
    except OSError as error:
        raise ConfigError(f"could not read {path}: {error}") from error
    known = broker_settings()
    for name in [name for name in settings if name not in known and not name.startswith(LISTENER_PREFIX)]:
        like = nearest(name, known, MISTYPED)
        if like is not None:
            raise ConfigError(f"{path}: the broker has no setting {name}; did you mean {like}?")
        logger.warning("%s: the broker has no setting %s, which is left to plugins", path, name)
        del settings[name]
    # Kafka strips the blanks at the ends of every value, passwords included (ConfigDef.parseType).
    return {name: value.strip() for name, value in settings.items()}
