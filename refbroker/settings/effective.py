"""Which value of a setting applies, and where it comes from.

For a topic, in this order: the topic's own, the broker's (dynamic, dynamic for all brokers, from its
configuration file) under the synonyms of `topic_table`, the default. For a broker the same without
the topic. Source: KIP-226.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from refbroker.settings.definitions import Setting, broker_settings, topic_settings
from refbroker.settings.topic_table import BROKER_SYNONYMS


class Source(enum.IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """A value under the name it was set."""

    name: str
    value: str | None
    source: Source


class ConfigValue(NamedTuple):
    """The value that applies, and all that were in line for it.

    Attributes:
        setting: which setting.
        value: as text, None when it has none.
        source: of the value.
        synonyms: the values in line, the one that applies first.
    """

    setting: Setting
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]


class BrokerLayers(NamedTuple):
    """What was set on a broker: for it alone, for all brokers, and in its configuration file."""

    dynamic: Mapping[str, str] = {}
    dynamic_default: Mapping[str, str] = {}
    static: Mapping[str, str] = {}

    def synonyms(self, name: str) -> list[Synonym]:
        """The values of a broker setting, the default last."""
        layers = (
            (self.dynamic, Source.DYNAMIC_BROKER),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )
        found = [Synonym(name, layer[name], source) for layer, source in layers if name in layer]
        default = broker_settings()[name].default
        if default is not None:
            found.append(Synonym(name, default, Source.DEFAULT))
        return found


def _chosen(setting: Setting, synonyms: list[Synonym]) -> ConfigValue:
    if not synonyms:
        return ConfigValue(setting, setting.default, Source.DEFAULT, ())
    return ConfigValue(setting, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def broker_values(layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Every broker setting with the value that applies."""
    return {name: _chosen(setting, layers.synonyms(name)) for name, setting in broker_settings().items()}


def topic_values(topic: Mapping[str, str], layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Every topic setting with the value that applies.

    Parameters:
        topic: what was set on the topic.
        layers: what was set on the broker.
    """
    return {name: topic_value(name, topic, layers) for name in topic_settings()}


def topic_value(name: str, topic: Mapping[str, str], layers: BrokerLayers) -> ConfigValue:
    """One topic setting with the value that applies; parameters as for `topic_values`."""
    setting = topic_settings()[name]
    found = [Synonym(name, topic[name], Source.TOPIC)] if name in topic else []
    for broker_name, factor in BROKER_SYNONYMS.get(name, ()):
        found += [
            synonym._replace(value=_scaled(synonym.value, factor))
            for synonym in layers.synonyms(broker_name)
            if synonym.source is not Source.DEFAULT
        ]
    for broker_name, factor in BROKER_SYNONYMS.get(name, ()):
        default = broker_settings()[broker_name].default
        if default is not None and factor == 1:
            found.append(Synonym(broker_name, default, Source.DEFAULT))
            break
    return _chosen(setting, found)


def _scaled(value: str | None, factor: int) -> str | None:
    return value if value is None or factor == 1 or int(value) < 0 else str(int(value) * factor)
