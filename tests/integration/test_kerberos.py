"""Clients and refbroker with GSSAPI on a stand-in for Kerberos: logins, refusals, names, settings."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Producer
from kclient.errors import ConfigError, KafkaTimeoutError, SaslAuthenticationError
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from refbroker.testing import RefBroker
from tests.support.fake_gssapi import FIRST, FakeGssapi, GSSError
from tests.support.patience import ANSWER

pytestmark = [pytest.mark.refbroker_only, pytest.mark.not_simulated("steps of a login run in worker threads")]

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SETTING = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"

REFUSALS = [
    (KafkaTimeoutError, "refuses the first principal of .*/alice.keytab in this way: check"),
    (SaslAuthenticationError, "that the broker's keytab has the current keys"),
]
"""What a client raises, by the version of SaslHandshake."""


@pytest.fixture
def keytabs(fake_gssapi: FakeGssapi, tmp_path: Path) -> dict[str, str]:
    """The paths of the keytabs of a broker and of two users."""
    found = {}
    for name, principal in {"kafka": "kafka/localhost", "alice": "alice", "web": "web/host"}.items():
        path = tmp_path / f"{name}.keytab"
        path.write_bytes(b"\x05\x02")
        found[name] = str(path)
        fake_gssapi.keytabs[str(path)] = [principal]
    return found


def settings(keytabs: dict[str, str], **further: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.kerberos.service.name": "kafka",
        SETTING: f'{MODULE} useKeyTab=true keyTab="{keytabs["kafka"]}" principal="kafka/localhost";',
        **further,
    }


def client(broker: RefBroker, keytab: str, **further: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_jaas_config": f'{MODULE} useKeyTab=true keyTab="{keytab}";',
        **further,
    }


def principals(broker: RefBroker) -> set[str]:
    return broker.call(lambda kafka: {str(connection.principal) for connection in kafka.server.connections})


def test_a_client_logs_in_and_its_user_is_named_by_the_rules(keytabs: dict[str, str]) -> None:
    rules = "RULE:[2:$1-$2](web-.*)s/host/one/,DEFAULT"
    with RefBroker(settings=settings(keytabs, **{"sasl.kerberos.principal.to.local.rules": rules})) as broker:
        for keytab, user in (("alice", "User:alice"), ("web", "User:web-one")):
            with Producer(**client(broker, keytabs[keytab])) as producer:
                producer.send("t", b"v").result(ANSWER)
                assert principals(broker) == {user}


def test_the_default_mechanism_of_kafka_is_gssapi(keytabs: dict[str, str]) -> None:
    with RefBroker(settings=settings(keytabs)) as broker, Admin(**client(broker, keytabs["alice"])) as admin:
        assert admin.list_topics() == {}


def test_a_principal_without_a_name_is_refused(keytabs: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    rules = {"sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]"}
    with (
        RefBroker(settings=settings(keytabs, **rules)) as broker,
        Admin(**client(broker, keytabs["web"])) as admin,
        pytest.raises(SaslAuthenticationError, match="invalid credentials with SASL mechanism GSSAPI; check") as caught,
    ):
        admin.list_topics()
    assert "web/host" not in str(caught.value)
    assert "no rule of sasl.kerberos.principal.to.local.rules=RULE:[1:$1] applies to 'web/host" in caplog.text


@pytest.mark.parametrize("version", [0, 1])
def test_a_ticket_that_the_broker_refuses_is_an_error(
    keytabs: dict[str, str], fake_gssapi: FakeGssapi, version: int,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(SaslHandshakeRequest, "max_version", version)
    fake_gssapi.failures["accept"] = repeat(GSSError("Decrypt integrity check failed", minor=FIRST + 31))
    kind, text = REFUSALS[version]
    with RefBroker(settings=settings(keytabs)) as broker:
        options = client(broker, keytabs["alice"], default_api_timeout_ms=1000)
        with Admin(**options) as admin, pytest.raises(kind, match=text):
            admin.list_topics()
    assert "its login failed: Authentication failed" in caplog.text
    assert "GSSAPI (Decrypt integrity check failed)" in caplog.text


@pytest.mark.parametrize("version", [0, 1])
def test_a_ticket_that_is_not_valid_yet_is_tried_again(
    keytabs: dict[str, str], fake_gssapi: FakeGssapi, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SaslHandshakeRequest, "max_version", version)
    fake_gssapi.failures["accept"] = iter([GSSError("Ticket not yet valid", minor=FIRST + 33)])
    with RefBroker(settings=settings(keytabs)) as broker, Admin(**client(broker, keytabs["alice"])) as admin:
        assert admin.list_topics() == {}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({SETTING: ""}, f"{SETTING} is missing: Krb5LoginModule required"),
        ({SETTING: "x.PlainLoginModule required;"}, "must have Krb5LoginModule, not PlainLoginModule"),
        ({SETTING: f"{MODULE} useKeyTab=true principal=a;"}, "needs useKeyTab=true, keyTab and principal"),
        ({SETTING: f'{MODULE} useKeyTab=true keyTab="/none" principal=a;'}, "the keytab cannot be used: No cred"),
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name is missing"),
        ({SETTING: f"{MODULE} serviceName=other;"}, "and serviceName in listener.name.sasl_plaintext"),
        ({"sasl.kerberos.principal.to.local.rules": "NONE"}, "'NONE' must be DEFAULT or RULE"),
    ],
    ids=["no jaas", "module", "no keytab", "no keys", "no service", "two services", "rules"],
)
def test_a_broker_that_cannot_have_gssapi_does_not_start(
    keytabs: dict[str, str], changes: dict[str, str], text: str
) -> None:
    found = {name: value for name, value in (settings(keytabs) | changes).items() if value}
    with pytest.raises(ConfigError, match=text):
        RefBroker(settings=found).start()
