"""What dump-log does not show of the metadata log: the keys and salts of users, and passwords among settings.

Kafka's own tool shows them.
"""

from __future__ import annotations

from typing import Any

from kclient.protocol import Message
from kclient.protocol.fields import fields_of
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from kclient.security.secret import MASK
from refbroker.dump.kafka_json import camel_case
from refbroker.settings.dynamic import base_name, broker_setting
from refbroker.settings.values import Type


def hide_secrets(record: Message, data: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a record without its secrets.

    Parameters:
        data: the JSON with them.
    """
    if isinstance(record, ConfigRecord) and broker_setting(base_name(record.name)).type is not Type.PASSWORD:
        return data
    hidden = {camel_case(field.name) for field in fields_of(type(record)) if field.secret}
    return {name: MASK if name in hidden and value else value for name, value in data.items()}
