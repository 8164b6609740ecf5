"""Kafka's settings for brokers and topics: names, types, defaults, ranges, and which value applies.

`broker_table` and `topic_table` list them, `definitions` reads the lists and checks values,
`effective` finds the value that applies among a topic's, the broker's and the default, and
`documentation` says what they mean.
"""

from __future__ import annotations

from refbroker.settings.definitions import Setting, Type, broker_settings, nearest, topic_settings
from refbroker.settings.effective import ConfigValue, Source, Synonym, broker_values, topic_values

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
