"""The effective value of a setting, and its source.

A broker setting has layers, the first of which applies: the value set for this broker, the value set for all brokers,
the value in its configuration file, the default. The value of a topic or group overrides the broker setting that
`topic_table` or `group_table` names. Some broker settings exist in several units (`log.retention.ms`, `.minutes`,
`.hours`): a value in one layer hides all of them in lower layers, and within a layer the finest unit applies.

The synonyms in DescribeConfigs are all candidates, by layer. Kafka drops the candidates before the first one with the
requested name, so a topic whose retention comes from `log.retention.hours` shows no synonym and the source "default".
Source: KIP-226.
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
    """The source of a value, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A candidate for the value of a setting, under the name with which it was set."""

    name: str
    value: str | None
    source: Source


class ConfigValue(NamedTuple):
    """The effective value of a setting, and all candidates.

    Attributes:
        setting: the setting.
        value: the effective value as text, None without a value.
        source: the source of the value.
        synonyms: the candidates; the effective value is the first.
    """

    setting: Setting
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]


_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_UNITS = (_RETENTION, ("log.roll.ms", "log.roll.hours"), ("log.roll.jitter.ms", "log.roll.jitter.hours"))
_ALTERNATIVES = {name: names for names in _UNITS for name in names} | {
    # Setting the scheduler's interval, which is only a fallback, does not hide log.flush.interval.ms.
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def _alternatives(name: str) -> tuple[str, ...]:
    """Return the names under which a broker setting may be set, in the order of precedence."""
    return _ALTERNATIVES.get(name, (name,))


@dataclass(frozen=True)
class BrokerLayers:
    """The values that were set on a broker: for it alone, for all brokers, and in its configuration file."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def set_values(self) -> dict[str, str]:
        """The settings that were set, each with its effective value; without those that another unit hides."""
        values = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic):
            for name, value in layer.items():
                for other in _alternatives(name):
                    values.pop(other, None)
                values[name] = value
        return values

    def value(self, name: str) -> str | None:
        """Return the effective value of a broker setting, None if it has none."""
        found = self.set_values.get(name)
        return broker_settings()[name].default if found is None else found

    def first_value(self, units: Iterable[tuple[str, int]]) -> str | None:
        """Return the value of the first name that is set, or else the first default; None without either.

        Parameters:
            units: names of broker settings, each with the factor by which its value is multiplied.
        """
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
        """Return the candidates for a broker setting by layer; the default is the last."""
        base = base_name(name)
        names = (name, base) if base != name else _alternatives(name)
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
    """Return the effective value of every broker setting, and of other names that were set on the broker."""
    found = {
        name: _config_value(setting, layers.value(name), layers.synonyms(name))
        for name, setting in broker_settings().items()
        if not setting.internal or name in layers.set_values
    }
    for name, value in layers.set_values.items():
        if name not in found:
            # Kafka does not normalize the values of settings that a configuration file cannot contain.
            found[name] = _config_value(broker_setting(name), None, layers.synonyms(name))._replace(value=value)
    return found


def cluster_default_values(layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Return the settings that were set for all brokers, as they were set."""
    source = Source.DYNAMIC_DEFAULT_BROKER
    return {
        name: ConfigValue(broker_setting(name), value, source, (Synonym(name, value, source),))
        for name, value in layers.dynamic_default.items()
    }


def topic_values(topic: Mapping[str, str], layers: BrokerLayers) -> dict[str, ConfigValue]:
    """Return every topic setting with its effective value; parameters as for `topic_texts`."""
    found = {}
    for name, setting in topic_settings().items():
        units = BROKER_SYNONYMS.get(name, ())
        synonyms = layers.synonyms(units[0][0]) if units else []
        value = layers.first_value(units) if units else setting.default
        found[name] = _with_own(setting, topic, Source.TOPIC, value, synonyms)
    return found


def topic_texts(topic: Mapping[str, str], layers: BrokerLayers) -> dict[str, str]:
    """Return the effective value of every topic setting that has one, without its source.

    Parameters:
        topic: the settings of the topic.
        layers: the settings of the broker.
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
    """Return every group setting with its effective value.

    Parameters:
        group: the settings of the group.
        layers: the settings of the broker.
    """
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
    """Return every setting of a client metrics subscription with its effective value."""
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
