"""Which value of a setting applies, and where it comes from.

For a broker: what was set for it alone, for all brokers, in its configuration file, the default. For a topic or
group its own value goes before the broker's, under the synonyms of `topic_table` and `group_table`. Some broker
settings are one thing in several units (`log.retention.ms`, `.minutes`, `.hours`): one that is set in a layer hides
all of them in the layers below, and within a layer the finer unit applies.

What DescribeConfigs calls synonyms are the values in line, by layer; Kafka drops those before the first one that
has the name asked for, so a topic whose retention comes from `log.retention.hours` shows no synonym and the source
"default". Source: KIP-226.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from refbroker.settings.definitions import (
    Setting,
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
)
from refbroker.settings.dynamic import base_name, broker_setting
from refbroker.settings.group_table import GROUP_SYNONYMS
from refbroker.settings.topic_table import BROKER_SYNONYMS


class Source(enum.IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


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


_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_UNITS = (_RETENTION, ("log.roll.ms", "log.roll.hours"), ("log.roll.jitter.ms", "log.roll.jitter.hours"))
_SAME = {name: names for names in _UNITS for name in names} | {
    # The scheduler's interval is the default of the other, and hides nothing itself.
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def _same(name: str) -> tuple[str, ...]:
    """The names under which a broker setting may be set, the one that applies first."""
    return _SAME.get(name, (name,))


@dataclass(frozen=True)
class BrokerLayers:
    """What was set on a broker: for it alone, for all brokers, and in its configuration file."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def set_values(self) -> dict[str, str]:
        """What was set, each with the value that applies; without what another unit hides."""
        values = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic):
            for name, value in layer.items():
                for other in _same(name):
                    values.pop(other, None)
                values[name] = value
        return values

    def value(self, name: str) -> str | None:
        """The value of a broker setting that applies, None when it has none."""
        found = self.set_values.get(name)
        return broker_settings()[name].default if found is None else found

    def first_value(self, units: Iterable[tuple[str, int]]) -> str | None:
        """The value of the first that is set, else the first default; each name comes with the factor of its unit."""
        units = tuple(units)
        defaults = broker_settings()
        for name, factor in units:
            if name in self.set_values:
                return _converted(name, self.set_values[name], factor)
        for name, factor in units:
            default = defaults[name].default
            if default is not None:
                return _converted(name, default, factor)
        return None

    def synonyms(self, name: str) -> list[Synonym]:
        """The values in line for a broker setting, by layer, the default last."""
        base = base_name(name)
        names = (name, base) if base != name else _same(name)
        settings = broker_settings()
        defaults = {other: settings[other].default for other in names if other in settings}
        found = [
            Synonym(other, value, source)
            for layer, source in (
                (self.dynamic, Source.DYNAMIC_BROKER),
                (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
                (self.static, Source.STATIC_BROKER),
                (defaults, Source.DEFAULT),
            )
            for other in names
            if (value := layer.get(other)) is not None
        ]
        while found and found[0].name != name:
            del found[0]
        return found


def _converted(name: str, value: str, factor: int) -> str:
    if name in _RETENTION:
        return str(max(int(value) * factor, -1))
    return value if factor == 1 else str(int(value) * factor)


def _config_value(setting: Setting, value: str | None, synonyms: list[Synonym]) -> ConfigValue:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return ConfigValue(setting, None if value is None else setting.shown(value), source, tuple(synonyms))


def broker_values(layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Every broker setting, and what else was set on the broker, with the value that applies."""
    found = {
        name: _config_value(setting, layers.value(name), layers.synonyms(name))
        for name, setting in broker_settings().items()
        if not setting.internal or name in layers.set_values
    }
    for name, value in layers.set_values.items():
        if name not in found:
            # Kafka shows as it was set what no configuration file has.
            found[name] = _config_value(broker_setting(name), None, layers.synonyms(name))._replace(value=value)
    return found


def every_broker_values(layers: BrokerLayers) -> dict[str, ConfigValue]:
    """What was set for all brokers, as it was set."""
    source = Source.DYNAMIC_DEFAULT_BROKER
    return {
        name: ConfigValue(broker_setting(name), value, source, (Synonym(name, value, source),))
        for name, value in layers.dynamic_default.items()
    }


def topic_values(topic: Mapping[str, str], layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Every topic setting with the value that applies; parameters as for `topic_texts`."""
    found = {}
    for name, setting in topic_settings().items():
        units = BROKER_SYNONYMS.get(name, ())
        synonyms = layers.synonyms(units[0][0]) if units else []
        value = layers.first_value(units) if units else setting.default
        found[name] = _with_own(setting, topic, Source.TOPIC, value, synonyms)
    return found


def topic_texts(topic: Mapping[str, str], layers: BrokerLayers) -> dict[str, str]:
    """The value of every topic setting that has one, without where it comes from.

    Parameters:
        topic: what was set on the topic.
        layers: what was set on the broker.
    """
    found = {}
    for name, setting in topic_settings().items():
        value = topic.get(name)
        if value is None:
            units = BROKER_SYNONYMS.get(name, ())
            value = layers.first_value(units) if units else setting.default
        if value is not None:
            found[name] = setting.shown(value)
    return found


def group_values(group: Mapping[str, str], layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Every group setting with the value that applies; parameters as for `topic_values`."""
    found = {}
    for name, setting in group_settings().items():
        broker_name = GROUP_SYNONYMS.get(name)
        if broker_name is None:
            synonyms = [Synonym(name, setting.default, Source.DEFAULT)]
            value = setting.default
        else:
            synonyms, value = layers.synonyms(broker_name), layers.value(broker_name)
        found[name] = _with_own(setting, group, Source.GROUP, value, synonyms)
    return found


def client_metrics_values(subscription: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Every setting of a client metrics subscription with the value that applies."""
    return {
        name: _with_own(setting, subscription, Source.CLIENT_METRICS, setting.default, [])
        for name, setting in client_metrics_settings().items()
    }


def _with_own(
    setting: Setting, own: Mapping[str, str], source: Source, value: str | None, synonyms: list[Synonym]
) -> ConfigValue:
    if setting.name in own:
        value = own[setting.name]
        synonyms = [Synonym(setting.name, setting.shown(value), source), *synonyms]
    return _config_value(setting, value, synonyms)
