"""Kafka's settings for brokers, topics, groups and client metrics: names, types, defaults, ranges, and what applies.

The `_table` modules list them, `definitions` reads the lists, `values` checks single values and `cross_checks` what
settings mean together, `effective` finds the value that applies among a resource's own, the broker's and the default,
`dynamic` and `reconfiguration` say what a running broker takes, and `documentation` what settings mean.
"""

from __future__ import annotations

from refbroker.settings.definitions import Setting, broker_settings, topic_settings
from refbroker.settings.effective import ConfigValue, Source, Synonym, broker_values, topic_values
from refbroker.settings.hints import nearest
from refbroker.settings.values import Type

__all__ = [
    "ConfigValue",
    "Setting",
    "Source",
    "Synonym",
    "Type",
    "broker_settings",
    "broker_values",
    "nearest",
    "topic_settings",
    "topic_values",
]
