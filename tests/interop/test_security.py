"""TLS and SASL with others: this client with Apache Kafka, other clients and Kafka's tools with refbroker."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer
from kclient.errors import SaslAuthenticationError, SslAuthenticationError, UnsupportedSaslMechanismError
from kclient.protocol import Message
from kclient.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kclient.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.scram import MECHANISMS, salted_password
from refbroker.testing import RefBroker
from tests.support import pki
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

LISTENERS = {"MUTUAL": "SSL", "SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT"}
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
MODULE = "org.apache.kafka.common.security.{}LoginModule required"
Change = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
User = DescribeUserScramCredentialsRequest.UserName


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Change:
    found = next((one for one in MECHANISMS.values() if one.type == mechanism), MECHANISMS["SCRAM-SHA-256"])
    salted = salted_password(found, f"{name}-secret", b"salt", iterations)
    return Change(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted)


class SecuredKafka(KafkaCluster):
    """Apache Kafka with three further listeners: TLS that asks for a certificate, and SASL with and without TLS."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, listeners=LISTENERS)
        self._store = pki.write_pkcs12(directory / "kafka.p12", pki.certificate("kafka", host="127.0.0.1"))
        self._trust = directory / "ca.pem"
        self._trust.write_text(pki.authority_pem())

    def options(self, listener: str) -> dict[str, Any]:
        """Return the options of a client of a listener, without a user."""
        protocol = LISTENERS[listener]
        found = {"bootstrap_servers": self.address(listener=listener), "security_protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl_truststore_location"] = str(self._trust)
        return found

    def _settings(self, node: int) -> Iterator[tuple[str, object]]:
        settings = dict(super()._settings(node))
        settings |= {
            "ssl.keystore.location": self._store,
            "ssl.keystore.password": pki.PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.truststore.location": self._trust,
            "ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
        }
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        for listener in ("sasl_ssl", "sasl_plaintext"):
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = f"{MODULE.format('plain.Plain')} {users};"
            for mechanism in MECHANISMS:
                name = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
                settings[name] = f"{MODULE.format('scram.Scram')};"
        return iter(settings.items())


@pytest.fixture(scope="module")
def secured(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as kafka:
        with Wire(kafka.bootstrap_servers) as wire:
            changes = [upsertion("alice"), upsertion("bob", mechanism=2)]
            response = wire.ask(AlterUserScramCredentialsRequest(upsertions=changes), 0)
            assert [result.error_code for result in response.results] == [0, 0]
        yield kafka


def send_and_read(options: dict[str, Any], topic: str) -> None:
    with Producer(**options) as producer:
        producer.send(topic, b"v" * 100_000).result(CHANGE)
    with Consumer(topic, auto_offset_reset="earliest", **options) as consumer:
        assert [len(record.value) for record in consumer.poll(CHANGE)] == [100_000]


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_every_mechanism_logs_in_at_kafka(secured: SecuredKafka, listener: str, mechanism: str) -> None:
    user = "bob" if mechanism == "SCRAM-SHA-512" else "alice"
    login = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": USERS[user]}
    send_and_read({**secured.options(listener), **login}, f"{listener}-{mechanism}")
    refused = f"could not log in with {mechanism}: Authentication failed"
    for wrong in ({"sasl_password": "no"}, {"sasl_username": "nobody"}):
        options = {**secured.options(listener), **login, **wrong}
        with Admin(**options) as admin, pytest.raises(SaslAuthenticationError, match=refused):
            admin.list_topics()


def test_kafka_names_the_mechanisms_that_it_has(secured: SecuredKafka) -> None:
    login = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "token"}
    options = {**secured.options("SASL_PLAINTEXT"), **login}
    with Admin(**options) as admin, pytest.raises(UnsupportedSaslMechanismError) as caught:
        admin.list_topics()
    offered = caught.value.message.partition("it offers ")[2]
    assert sorted(offered.split(", ")) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_a_certificate_logs_in_at_kafka(secured: SecuredKafka, versions: str) -> None:
    options = {**secured.options("MUTUAL"), "ssl_enabled_protocols": versions}
    chain, key = pki.certificate()
    send_and_read({**options, "ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}, f"mutual-{versions}")
    with Admin(**options) as admin, pytest.raises(SslAuthenticationError, match="certificate"):
        admin.list_topics()


@pytest.fixture(scope="module")
def loginbroker() -> Iterator[RefBroker]:
    with RefBroker(tls=True, sasl=USERS) as broker:
        yield broker


@pytest.fixture
def authority(loginbroker: RefBroker, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.write_text(loginbroker.certificates.authority)
    return str(path)


def properties(broker: RefBroker, authority: str, directory: Path, mechanism: str, user: str, password: str) -> str:
    """Write the properties of a Java client; return their path."""
    module = MODULE.format("plain.Plain" if mechanism == "PLAIN" else "scram.Scram")
    path = directory / f"{user}.properties"
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nssl.truststore.location={authority}\n"
        f'ssl.truststore.type=PEM\nsasl.jaas.config={module} username="{user}" password="{password}";\n'
    )
    return str(path)


def test_kafkas_tool_changes_users(needs_kafka: None, loginbroker: RefBroker, authority: str, tmp_path: Path) -> None:
    tools = JavaTools(loginbroker.bootstrap_servers)
    admin = properties(loginbroker, authority, tmp_path, "PLAIN", "alice", USERS["alice"])
    entity = ("--command-config", admin, "--entity-type", "users", "--entity-name", "carol")
    command = "kafka.admin.ConfigCommand"
    added = "SCRAM-SHA-512=[iterations=8192,password=carol-secret]"
    assert "Completed updating config" in tools.run(command, *entity, "--alter", "--add-config", added)
    stored = loginbroker.call(lambda broker: broker.parts.image.scram[MECHANISMS["SCRAM-SHA-512"].type, "carol"])
    assert stored.iterations == 8192
    carol = properties(loginbroker, authority, tmp_path, "SCRAM-SHA-512", "carol", "carol-secret")
    assert "Authentication failed" not in tools.topics("--command-config", carol, "--list")
    deleted = tools.run(command, *entity, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "Completed updating config" in deleted
    assert "Authentication failed" in tools.topics("--command-config", carol, "--list")


def test_changes_of_users_are_answered_as_by_kafka(secured: SecuredKafka) -> None:
    requests: list[Message] = [
        AlterUserScramCredentialsRequest(
            deletions=[Deletion(name="nobody", mechanism=1), Deletion(name="", mechanism=1)],
            upsertions=[upsertion("few", iterations=4095), upsertion("many", iterations=16385), upsertion("odd", 3)],
        ),
        AlterUserScramCredentialsRequest(upsertions=[upsertion("twice"), upsertion("twice", 2), upsertion("once", 2)]),
        AlterUserScramCredentialsRequest(deletions=[Deletion(name="once", mechanism=1)]),
        DescribeUserScramCredentialsRequest(users=[User(name="once"), User(name="twice"), User(name="alice")]),
        DescribeUserScramCredentialsRequest(users=[User(name="once"), User(name="once"), User(name="bob")]),
        DescribeUserScramCredentialsRequest(users=None),
        AlterUserScramCredentialsRequest(deletions=[Deletion(name="once", mechanism=2)]),
        DescribeUserScramCredentialsRequest(users=[User(name="once")]),
    ]
    first = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice"), upsertion("bob", mechanism=2)])
    with RefBroker() as own, Wire(own.bootstrap_servers) as ours, Wire(secured.bootstrap_servers) as theirs:
        ours.ask(first, 0)
        for request in requests:
            expected = seen(ours.ask(request, 0))
            if isinstance(request, DescribeUserScramCredentialsRequest):
                # Kafka's brokers follow the metadata log a little later.
                wait_until(partial(is_answer, theirs, request, expected), CHANGE)
            else:
                assert is_answer(theirs, request, expected)


def is_answer(wire: Wire, request: Message, expected: list[tuple[Any, ...]]) -> bool:
    found = seen(wire.ask(request, 0))
    return found == expected


def seen(response: Any) -> list[tuple[Any, ...]]:
    """Return the results of each user; Kafka's order is that of a hash table."""
    results = (
        (
            result.user,
            result.error_code,
            result.error_message,
            sorted((info.mechanism, info.iterations) for info in getattr(result, "credential_infos", ())),
        )
        for result in response.results
    )
    return [(getattr(response, "error_code", 0), getattr(response, "error_message", "")), *sorted(results)]


FIRST = b"n,,n=alice,r=nonce"
PROOF = b64encode(bytes(32))
MALFORMED: dict[str, list[list[bytes]]] = {
    "PLAIN": [
        [b""],
        [b"\xff"],
        [b"\0alice\0alice-secret\0"],
        [b"\0\0\0\0\0"],
        [b"\0alice\0\xff"],
        [b"\0\0alice-secret"],
        [b"\0alice\0"],
        [b"bob\0alice\0alice-secret"],
        [b"\0alice\0wrong"],
    ],
    "SCRAM-SHA-256": [
        [b""],
        [b"\xff"],
        [b"y,,n=alice,r=nonce"],
        [b"p=tls-unique,,n=alice,r=nonce"],
        [b"n,,n=alice"],
        [b"n,,n=al=ice,r=nonce"],
        [b"n,,m=,n=alice,r=nonce"],
        [b"n,,n=alice,r=nonce,tokenauth"],
        [b"n,a=bob,n=alice,r=nonce"],
        [FIRST, b""],
        [FIRST, b"\xff"],
        [FIRST, b"c=biws,r=other,p=" + PROOF],
        [FIRST, b"c=biws,r=%s"],
        [FIRST, b"c=biws,r=%s,p=A"],
        [FIRST, b"c=biws,r=%s,p=" + PROOF],
        [FIRST, b"c=biws,r=%s,x=1,p=" + PROOF],
        [FIRST, b"r=%s,c=biws,p=" + PROOF],
    ],
}


@pytest.mark.parametrize("mechanism", MALFORMED)
def test_malformed_logins_are_answered_as_by_kafka(secured: SecuredKafka, mechanism: str) -> None:
    with RefBroker(sasl=USERS) as broker:
        addresses = (secured.address(listener="SASL_PLAINTEXT"), broker.bootstrap_servers)
        for messages in MALFORMED[mechanism]:
            kafkas, ours = (answered(address, mechanism, messages) for address in addresses)
            assert ours == kafkas, messages
            assert kafkas[0] == SaslAuthenticationError.code


def answered(address: str, mechanism: str, messages: list[bytes]) -> tuple[int, str | None]:
    """Return the error of the last message of a login; `%s` in a message is the nonce of the broker."""
    nonce = b""
    with Wire(address) as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        for message in messages:
            response = wire.ask(SaslAuthenticateRequest(auth_bytes=message.replace(b"%s", nonce)), 2)
            nonce = bytes(response.auth_bytes).partition(b",")[0].removeprefix(b"r=")
        assert wire.is_closed()
    return response.error_code, response.error_message
