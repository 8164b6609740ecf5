"""The listeners of a broker: where it accepts connections, and the address of each that it advertises to clients.

A client learns the addresses of the listener it is connected to. Thus clients inside and outside of a network, who need
different addresses, use different listeners. Controllers' listeners (`controller.listener.names`) do not count: clients
do not use them.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kclient.errors import ConfigError
from refbroker.settings.effective import BrokerLayers
from refbroker.settings.inter_broker import (
    PLAINTEXT,
    check_controllers,
    check_mechanism,
    controller_names,
    inter_broker_listener,
)
from refbroker.settings.values import parse_list

LOOPBACK = "127.0.0.1"
SSL = "SSL"
ALL_ADDRESSES = frozenset({"", "0.0.0.0", "::"})


class SecurityProtocol(enum.IntEnum):
    """How the clients of a listener are secured, by the number in a broker's registration."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(NamedTuple):
    """An address to listen on, or to advertise to clients."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Listeners:
    """The listeners for clients, as the settings have them.

    Parameters:
        settings: the broker's settings by name; missing ones have their defaults.

    Attributes:
        all: the listeners, in the order of the settings; port 0 picks a free port.
        inter_broker: the name of the listener that brokers connect to.
        controllers: the names of the listeners of controllers.

    Raises:
        ConfigError: no listener is for clients, or settings contradict each other or are not implemented.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        text = settings.get("listeners", f"{PLAINTEXT}://{LOOPBACK}:9092")
        controllers = controller_names(settings)
        given = [parse_listener(each) for each in parse_list(text)]
        self.all = [listener for listener in given if listener.name not in controllers]
        if not self.all:
            raise ConfigError(f"none of the listeners {text} is for clients")
        self._protocols = _protocols(settings)
        self._advertised = _advertised(settings, self.all, controllers)
        self._check_distinct(given)
        if not self._protocols and all(listener.name == PLAINTEXT for listener in self.all):
            # As in Kafka, where controllers need no entry in the map while nothing is secured.
            self._protocols = dict.fromkeys([PLAINTEXT, *controllers], PLAINTEXT)
        for name in [listener.name for listener in given] + (controllers if settings.get("process.roles") else []):
            # Raises if the settings name none.
            self.protocol(name)
        check_controllers(settings, [listener.name for listener in given])
        self.controllers = controllers
        self.inter_broker = inter_broker_listener(settings, self._advertised)

    def protocol(self, name: str) -> SecurityProtocol:
        """Return the security protocol of a listener.

        Raises:
            ConfigError: the settings name none, or one that does not exist.
        """
        # Without the setting each name is that of its security protocol, as by Kafka's default.
        found = self._protocols.get(name, "" if self._protocols else name)
        if found in SecurityProtocol.__members__:
            return SecurityProtocol[found]
        if found in (name, ""):
            missing = f"{name}:{PLAINTEXT}"
            raise ConfigError(
                f"the listener {name} has no security protocol: add {missing} to listener.security.protocol.map"
            )
        raise ConfigError(
            f"listener.security.protocol.map has {name}:{found}, which is not a security protocol; they are "
            f"{', '.join(SecurityProtocol.__members__)}"
        )

    def has_protocol(self, name: str) -> bool:
        """Return whether a listener, which may be on another node, has a security protocol."""
        return self._protocols.get(name, "" if self._protocols else name) in SecurityProtocol.__members__

    def client_advice(self, name: str) -> str:
        """Return what to do about a client that has another security protocol than a listener, for log lines."""
        return f"set security.protocol={self.protocol(name).name} in the client, or use another listener than {name}"

    def advertised(self, ports: Mapping[str, int]) -> list[Listener]:
        """Return the addresses to advertise; a listener that `advertised.listeners` lacks has none.

        Parameters:
            ports: the port of each listener by its name, for addresses without one; a missing one is 0.
        """
        found = [self._advertised[listener.name] for listener in self.all if listener.name in self._advertised]
        return [
            listener if listener.port else listener._replace(port=ports.get(listener.name, 0)) for listener in found
        ]

    def _check_distinct(self, listeners: Iterable[Listener]) -> None:
        """Check that no two listeners, controllers' included, have the same name or port."""
        _check_names(self.all)
        taken: dict[int, list[Listener]] = {}
        for listener in listeners:
            others = taken.setdefault(listener.port, [])
            # A port may be used twice, by an IPv4 and by an IPv6 address.
            versions = sorted(_ip_version(one.host) for one in (*others, listener))
            if listener.port and others and versions != [4, 6]:
                raise ConfigError(f"the listeners {others[0]} and {listener} have the same port")
            others.append(listener)


def check_mechanisms(layers: BrokerLayers, listeners: Listeners) -> None:
    """Check that the mechanisms with which brokers and controllers log in at each other are enabled.

    Raises:
        InvalidConfigurationError: one is not.
    """
    for name in (listeners.inter_broker, *listeners.controllers):
        if listeners.has_protocol(name) and listeners.protocol(name).has_sasl:
            check_mechanism(layers, name, of_controller=name in listeners.controllers)


def parse_listener(text: str) -> Listener:
    """Parse `NAME://host:port`; names are in capitals.

    Raises:
        ConfigError: the text has another form.
    """
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not slashes or not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"a listener must have the form NAME://host:port, not {text!r}")
    return Listener(name.upper(), host.strip("[]"), int(port))


def _check_names(listeners: list[Listener]) -> None:
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise ConfigError(f"each listener needs a name of its own: {', '.join(map(str, listeners))}")


def _ip_version(host: str) -> int:
    """Return 4 or 6 for an address, 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _protocols(settings: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for part in parse_list(settings.get("listener.security.protocol.map", "")):
        name, colon, protocol = part.partition(":")
        if not colon:
            raise ConfigError(f"listener.security.protocol.map must have the form NAME:PROTOCOL,..., not {part!r}")
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def _advertised(settings: Mapping[str, str], listeners: list[Listener], controllers: list[str]) -> dict[str, Listener]:
    """Return the advertised addresses by name; port 0 stands for the port of the listener."""
    given = [parse_listener(text) for text in parse_list(settings.get("advertised.listeners", ""))]
    if not given:
        return {
            listener.name: listener._replace(host=LOOPBACK) if listener.host in ALL_ADDRESSES else listener
            for listener in listeners
        }
    _check_names(given)
    # As in Kafka, where an address without a host stands for this machine.
    given = [listener._replace(host=listener.host or LOOPBACK) for listener in given]
    found = {listener.name: listener for listener in given if listener.name not in controllers}
    names = [listener.name for listener in listeners]
    if not found:
        raise ConfigError(f"advertised.listeners names none of the listeners for clients: {', '.join(names)}")
    strange = [name for name in found if name not in names]
    if strange:
        raise ConfigError(
            f"advertised.listeners names {', '.join(strange)}, which is not among the listeners: {', '.join(names)}"
        )
    for listener in found.values():
        if listener.host in ALL_ADDRESSES:
            raise ConfigError(f"no client can connect to {listener}: advertised.listeners needs a host name or address")
    return found
