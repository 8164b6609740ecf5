"""What dump-log does not show of the metadata log: the keys and salts of users, and passwords among settings.

An unknown setting of a broker may be a password, such as the users of PLAIN on a listener. Kafka's own tool shows all.
"""

from __future__ import annotations

from typing import Any

from kclient.protocol import Message
from kclient.protocol.fields import fields_of
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from kclient.security.secret import MASK
from refbroker.dump.kafka_json import camel_case
from refbroker.metadata.image import BROKER_RESOURCE
from refbroker.settings.dynamic import broker_setting


def hide_secrets(record: Message, data: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a record without its secrets.

    Parameters:
        data: the JSON with them.
    """
    if isinstance(record, ConfigRecord) and not (
        record.resource_type == BROKER_RESOURCE and broker_setting(record.name).sensitive
    ):
        return data
    hidden = {camel_case(field.name) for field in fields_of(type(record)) if field.secret}
    return {name: MASK if name in hidden and value else value for name, value in data.items()}
