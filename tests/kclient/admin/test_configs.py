"""What a setting's value may be, and how Kafka writes it."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.configs import AlterConfig, ConfigEntry, ConfigSource, ConfigSynonym, config_text
from kclient.admin.topics import NewTopic
from kclient.errors import ConfigError
from kclient.security.secret import MASK


@pytest.mark.parametrize(
    ("value", "text"),
    [("3", "3"), (3, "3"), (0.5, "0.5"), (True, "true"), (False, "false"), (None, None)],
    ids=["text", "int", "float", "true", "false", "none"],
)
def test_values_are_written_as_kafka_writes_them(value: Any, text: str | None) -> None:
    assert config_text("retention.ms", value) == text


@pytest.mark.parametrize("value", [b"3", ["compact"], object()], ids=["bytes", "list", "object"])
def test_other_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"the value of retention\.ms must be a str, a number or a bool, not "):
        config_text("retention.ms", value)


SENSITIVE = (
    "ssl.key.password",
    "listener.name.outside.ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "listener.name.outside.plain.sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "my.plugin.Password",
)
PLAIN = ("retention.ms", "ssl.keystore.location", "delegation.token.max.lifetime.ms", "cleanup.policy")


def objects_with(name: str, value: str) -> list[object]:
    """Return an object of each public class that has the value of a setting."""
    synonym = ConfigSynonym(name, value, ConfigSource.DYNAMIC_BROKER_CONFIG)
    return [
        AlterConfig.set(name, value),
        AlterConfig.append(name, value),
        synonym,
        ConfigEntry(name, value, synonyms=(synonym,)),
        NewTopic("orders", configs={name: value}),
    ]


@pytest.mark.parametrize("name", SENSITIVE)
def test_no_object_shows_the_value_of_a_sensitive_setting(name: str) -> None:
    for each in objects_with(name, "wonder"):
        for text in (repr(each), str(each), f"{each}"):
            assert "wonder" not in text
            assert name in text
            assert MASK in text


@pytest.mark.parametrize("name", PLAIN)
def test_objects_show_the_values_of_other_settings(name: str) -> None:
    for each in objects_with(name, "wonder"):
        assert "'wonder'" in repr(each)


def test_an_entry_that_the_broker_calls_sensitive_is_hidden() -> None:
    assert repr(ConfigEntry("a", "wonder", is_sensitive=True)) == "ConfigEntry(a=[hidden], UNKNOWN)"


def test_the_error_of_a_value_does_not_show_a_sensitive_one() -> None:
    value: Any = b"wonder"
    with pytest.raises(ConfigError) as caught:
        config_text("ssl.key.password", value)
    assert "wonder" not in str(caught.value)


def test_a_new_topic_shows_what_it_was_made_from() -> None:
    assert repr(NewTopic("a", 3, 1, configs={"retention.ms": 5})) == (
        "NewTopic('a', num_partitions=3, replication_factor=1, configs={'retention.ms': 5})"
    )
    assert repr(NewTopic("a", replica_assignment={0: [1]})) == (
        "NewTopic('a', num_partitions=-1, replication_factor=-1, replica_assignment={0: [1]}, configs={})"
    )
