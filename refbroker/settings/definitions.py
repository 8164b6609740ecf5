"""Definitions of settings (type, default, range), read from the tables of broker, topic, group and client metrics.

A line of a table is `name type default range flags`:

    default `null` for none, `""` for an empty string
    range   `*` any value; `1..`, `0..9` bounds; `a|b` one of these (for a list: any of these); alternatives
            can be mixed, as in `-1|1..9`; `nocase:a|b` in any case; `nonempty`, for a list also `nonempty:a|b`;
            `throttled-replicas` and `offset-reset` are formats defined in `values`
    flags   `A` this broker acts on the setting; `D` the setting can be changed while the broker runs; `I` the setting
            is internal in Kafka, and shown only if it is set; `-` none of these

Elsewhere: `values` checks a value against its type and range.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from refbroker.settings import values
from refbroker.settings.values import Type


class Setting(NamedTuple):
    """The definition of a setting.

    Attributes:
        name: Kafka's name, with dots.
        type: the type of the value.
        default: the default as text, None without a default.
        range: the valid values, in the notation of the tables.
        acted_on: whether this broker uses the value; if False, it only stores it.
        dynamic: whether the setting can be changed while the broker runs.
        internal: whether the setting is shown only if it is set.
    """

    name: str
    type: Type
    default: str | None
    range: str
    acted_on: bool
    dynamic: bool
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the value must not be shown: that of a password, or of an unknown setting, which could be one."""
        return self.type in (Type.PASSWORD, Type.UNKNOWN)

    def check(self, text: str) -> None:
        """Check a value.

        Raises:
            InvalidConfigurationError: it is not of the type, or out of range.
        """
        values.check(self.type, self.name, self.range, text)

    def parse(self, text: str) -> values.Parsed:
        """Return the value as a Python object; its range was checked when it was set.

        Raises:
            InvalidConfigurationError: it is not of the type.
        """
        values.check(self.type, self.name, values.ANY, text)
        return values.parsed(self.type, text)

    def shown(self, text: str) -> str:
        """Return a checked value as DescribeConfigs shows it."""
        return values.shown(self.type, text)


def read_table(table: str) -> dict[str, Setting]:
    """Return the settings of a table by name."""
    settings = {}
    for line in table.strip().splitlines():
        name, kind, default, allowed, flags = line.split()
        settings[name] = Setting(
            name,
            Type[kind.upper()],
            {"null": None, '""': ""}.get(default, default),
            allowed,
            "A" in flags,
            "D" in flags,
            "I" in flags,
        )
    return settings


@cache
def broker_settings() -> dict[str, Setting]:
    """Return every broker setting by name."""
    from refbroker.settings.broker_table import BROKER_TABLE

    return read_table(BROKER_TABLE)


@cache
def topic_settings() -> dict[str, Setting]:
    """Return every topic setting by name."""
    from refbroker.settings.topic_table import BROKER_SYNONYMS, TOPIC_TABLE

    settings = {}
    for line in TOPIC_TABLE.strip().splitlines():
        own, _, _ = line.partition("=")
        name, *definition = own.split()
        if definition:
            settings.update(read_table(own))
        else:
            settings[name] = broker_settings()[BROKER_SYNONYMS[name][0][0]]._replace(name=name)
    return settings


@cache
def group_settings() -> dict[str, Setting]:
    """Return every group setting by name."""
    from refbroker.settings.group_table import GROUP_TABLE

    return read_table(GROUP_TABLE)


@cache
def client_metrics_settings() -> dict[str, Setting]:
    """Return every setting of a client metrics subscription by name."""
    from refbroker.settings.client_metrics_table import CLIENT_METRICS_TABLE

    return read_table(CLIENT_METRICS_TABLE)
