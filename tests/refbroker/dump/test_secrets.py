"""The values of settings that dump-log hides are those that DescribeConfigs omits."""

from __future__ import annotations

import pytest

from kclient.protocol.messages.records.metadata_log import ConfigRecord
from refbroker.dump.secrets import hide_secrets
from refbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE


@pytest.mark.parametrize(
    ("kind", "name", "is_hidden"),
    [
        (BROKER_RESOURCE, "ssl.key.password", True),
        (BROKER_RESOURCE, "listener.name.outside.ssl.keystore.key", True),
        (BROKER_RESOURCE, "listener.name.outside.plain.sasl.jaas.config", True),
        (BROKER_RESOURCE, "plugin.password", True),
        (BROKER_RESOURCE, "listener.name.outside.ssl.keystore.location", False),
        (BROKER_RESOURCE, "log.retention.ms", False),
        (TOPIC_RESOURCE, "retention.ms", False),
    ],
    ids=["password", "listener", "users", "plugin", "path", "number", "topic"],
)
def test_passwords_and_unknown_settings_of_brokers_are_hidden(kind: int, name: str, is_hidden: bool) -> None:
    record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="7")
    shown = hide_secrets(record, {"resourceName": "1", "name": name, "value": "7"})
    assert shown == {"resourceName": "1", "name": name, "value": "[hidden]" if is_hidden else "7"}
