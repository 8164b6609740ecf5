"""Kafka's settings for brokers, topics, groups and client metrics: names, types, defaults, ranges, effective values.

The `_table` modules list the settings, and `definitions` parses the lists. `values` checks single values, and
`cross_checks` checks settings together. `effective` selects a value among those of the resource, the broker and the
default. `dynamic` and `reconfiguration` decide which changes a running broker accepts. `documentation` describes the
settings, and `hints` suggests a name for an unknown one.
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
