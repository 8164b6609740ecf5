"""The SASL of a listener, from its settings."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError
from refbroker.config import BrokerConfig
from refbroker.runtime.clock import Clock
from refbroker.server.sasl import sasl_listeners

JAAS = "listener.name.clients.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.{}LoginModule required user_alice='wonder';"


def config(host: str, *, protocol: str = "SASL_PLAINTEXT", mechanisms: str = "PLAIN", **more: str) -> BrokerConfig:
    return BrokerConfig(
        {
            "listeners": f"CLIENTS://{host}:0",
            "listener.security.protocol.map": f"CLIENTS:{protocol}",
            "sasl.enabled.mechanisms": mechanisms,
            JAAS: MODULE.format("plain.Plain"),
            **more,
        }
    )


@pytest.mark.parametrize(
    ("found", "warns"),
    [
        (config("0.0.0.0"), True),
        (config(""), True),
        (config("kafka-1"), True),
        (config("127.0.0.1"), False),
        (config("[::1]"), False),
        (config("localhost"), False),
        (config("0.0.0.0", protocol="SASL_SSL"), False),
        (config("0.0.0.0", mechanisms="SCRAM-SHA-512"), False),
    ],
    ids=["all", "no host", "host", "loopback", "loopback 6", "localhost", "tls", "scram"],
)
def test_passwords_that_cross_a_network_in_the_clear_are_warned_of(
    found: BrokerConfig, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sasl_listeners(found, Clock())
    expected = "listener CLIENTS: PLAIN sends passwords unencrypted; use SASL_SSL or SCRAM"
    assert caplog.messages == [expected] * warns


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_classes_that_verify_passwords_are_refused(mechanism: str) -> None:
    setting = f"listener.name.clients.{mechanism.lower()}.sasl.server.callback.handler.class"
    with pytest.raises(ConfigError, match=f"{setting}=x.Y: this broker runs no Java classes"):
        sasl_listeners(config("127.0.0.1", mechanisms=mechanism, **{setting: "x.Y"}), Clock())


def test_the_users_of_plain_are_in_its_own_module() -> None:
    with pytest.raises(ConfigError, match=f"{JAAS} must have PlainLoginModule, not ScramLoginModule"):
        sasl_listeners(config("127.0.0.1", **{JAAS: MODULE.format("scram.Scram")}), Clock())
