"""The listeners and mechanisms by which brokers and controllers connect to each other, and what contradicts itself.

The checks are those of Kafka's KafkaConfig. They apply to what is set: a broker of one node needs no listener for
brokers, so Kafka's defaults (a listener PLAINTEXT, the mechanism GSSAPI) need not fit the listeners. Elsewhere: the
listeners themselves (`listeners`), how a broker connects (`refbroker.peers`). Source: KIP-103, KIP-500.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kclient.errors import ConfigError, InvalidConfigurationError
from refbroker.settings.effective import BrokerLayers
from refbroker.settings.values import parse_list

PLAINTEXT = "PLAINTEXT"
LISTENER = "inter.broker.listener.name"
PROTOCOL = "security.inter.broker.protocol"
MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLERS = "controller.listener.names"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
_ENABLED = "sasl.enabled.mechanisms"


def controller_names(settings: Mapping[str, str]) -> list[str]:
    """Return the names of the controllers' listeners."""
    return [name.upper() for name in parse_list(settings.get(CONTROLLERS, ""))]


def inter_broker_listener(settings: Mapping[str, str], advertised: Collection[str]) -> str:
    """Return the name of the listener that brokers connect to; the first one if the settings name none.

    Parameters:
        settings: the broker's settings by name.
        advertised: the names of the listeners for clients and brokers that are advertised.

    Raises:
        ConfigError: the settings name a listener that is not advertised, or name it twice.
    """
    name, protocol = settings.get(LISTENER, "").upper(), settings.get(PROTOCOL)
    names = ", ".join(advertised)
    if name and protocol is not None:
        raise ConfigError(f"only one of {LISTENER} and {PROTOCOL} can be set")
    if name in controller_names(settings):
        raise ConfigError(f"{LISTENER}={name} is among {CONTROLLERS}; brokers need a listener of their own")
    if name and name not in advertised:
        raise ConfigError(f"{LISTENER}={name} is not among the advertised listeners: {names}")
    if protocol is not None and protocol not in advertised:
        raise ConfigError(
            f"{PROTOCOL}={protocol} stands for a listener {protocol}, which is not among the advertised listeners: "
            f"{names}; set {LISTENER} instead"
        )
    default = protocol or PLAINTEXT
    return name or (default if default in advertised else next(iter(advertised)))


def check_controllers(settings: Mapping[str, str], listeners: Collection[str]) -> None:
    """Check the listeners of controllers against the roles of the node.

    Parameters:
        settings: the broker's settings by name.
        listeners: the names of all listeners, those of controllers included.

    Raises:
        ConfigError: the settings contradict each other.
    """
    roles, names = parse_list(settings.get("process.roles", "")), controller_names(settings)
    if not roles:
        return
    shown = f"process.roles={','.join(roles)}"
    if not names:
        raise ConfigError(f"{shown} needs {CONTROLLERS}, the names of the controllers' listeners")
    if "controller" in roles:
        missing = [name for name in names if name not in listeners]
        if missing:
            raise ConfigError(f"{CONTROLLERS} has {missing[0]}, which listeners must have, too, with {shown}")
    else:
        present = [name for name in names if name in listeners]
        if present:
            raise ConfigError(f"{CONTROLLERS} has {present[0]}, which listeners must not have with {shown}")


def check_mechanism(layers: BrokerLayers, listener: str, *, of_controller: bool) -> None:
    """Check that the mechanism with which nodes log in at a listener with SASL is enabled there.

    Parameters:
        layers: the broker's settings.
        of_controller: whether the listener is that of a controller.

    Raises:
        InvalidConfigurationError: it is not; the message is Kafka's.
    """
    setting, kind = (CONTROLLER_MECHANISM, "controller") if of_controller else (MECHANISM, "inter-broker")
    mechanism = layers.set_values.get(setting)
    own = layers.set_values.get(f"listener.name.{listener.lower()}.{_ENABLED}")
    enabled = parse_list((layers.value(_ENABLED) if own is None else own) or "")
    if mechanism is not None and mechanism not in enabled:
        raise InvalidConfigurationError(
            f"requirement failed: {setting} must be included in {_ENABLED} when SASL is used for {kind} communication"
        )
