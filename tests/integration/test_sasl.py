"""Clients and refbroker with SASL: users, principals, refusals, rotation of passwords, mismatches."""

from __future__ import annotations

import logging
import socket
import struct
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer
from kclient.errors import (
    ConfigError,
    KafkaTimeoutError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kclient.protocol.frames import encode_request
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.scram import MECHANISMS
from refbroker.broker import Broker
from refbroker.controller.scram import credential_record
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until
from tests.support.wire import Wire

pytestmark = pytest.mark.refbroker_only

USERS = {"alice": 'wonder"land\\', "bob": "builder"}


def principals(broker: RefBroker) -> set[str]:
    return broker.call(lambda kafka: {str(connection.principal) for connection in kafka.server.connections})


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_every_mechanism_logs_in(mechanism: str, tls: bool) -> None:
    with RefBroker(sasl=USERS, tls=tls) as kafka:
        options = {**kafka.client_options, "sasl_mechanism": mechanism}
        with Producer(**options) as producer, Consumer("t", auto_offset_reset="earliest", **options) as consumer:
            producer.send("t", b"v").result(ANSWER)
            assert [record.value for record in consumer.poll(ANSWER)] == [b"v"]
            assert principals(kafka) == {"User:alice"}


@pytest.mark.refbroker(sasl=USERS)
@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_a_refused_client_learns_it_from_every_call(
    refbroker: RefBroker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**refbroker.client_options, "sasl_mechanism": mechanism, "sasl_password": "rabbit"}
    text = f"the user 'alice' could not log in with {mechanism}: Authentication failed"
    with caplog.at_level(logging.DEBUG):
        with Admin(**options) as admin:
            for _ in range(2):
                with pytest.raises(SaslAuthenticationError, match=text):
                    admin.list_topics()
        with Producer(**options) as producer, pytest.raises(SaslAuthenticationError, match=text):
            producer.send("t", b"v").result(ANSWER)
        with Consumer("t", group_id="g", **options) as consumer, pytest.raises(SaslAuthenticationError, match=text):
            consumer.poll(ANSWER)
    assert not [secret for secret in (*USERS.values(), "rabbit") if secret in caplog.text]


@pytest.mark.refbroker(sasl=USERS)
def test_a_client_recovers_once_its_password_is_right(refbroker: RefBroker) -> None:
    options = {**refbroker.client_options, "sasl_password": "new"}
    with Admin(**options) as admin:
        with pytest.raises(SaslAuthenticationError):
            admin.list_topics()
        record = credential_record(MECHANISMS["SCRAM-SHA-256"], "alice", "new")
        refbroker.call(lambda kafka: kafka.parts.controller.append([record]))

        def works() -> bool:
            try:
                return admin.list_topics() == {}
            except SaslAuthenticationError:
                return False

        wait_until(works)


@pytest.mark.refbroker(sasl=USERS)
def test_a_producer_raises_while_its_password_is_wrong_and_recovers(refbroker: RefBroker) -> None:
    def change_password(password: str) -> None:
        record = credential_record(MECHANISMS["SCRAM-SHA-256"], "alice", password)
        refbroker.call(lambda kafka: kafka.parts.controller.append([record]))

    def drop_connections(kafka: Broker) -> None:
        for connection in list(kafka.server.connections):
            connection.abort()

    with Producer(**refbroker.client_options) as producer:
        assert producer.send("t", b"v").result(ANSWER).offset == 0
        change_password("new")
        refbroker.call(drop_connections)
        for _ in range(2):
            with pytest.raises(SaslAuthenticationError, match="the user 'alice' could not log in"):
                producer.send("t", b"v").result(ANSWER)
        change_password(USERS["alice"])

        def works() -> bool:
            try:
                return producer.send("t", b"v").result(ANSWER).offset == 1
            except SaslAuthenticationError:
                return False

        wait_until(works)


@pytest.mark.refbroker(sasl=USERS)
def test_users_are_kept_over_a_restart(refbroker: RefBroker) -> None:
    def stored() -> Any:
        return refbroker.call(lambda kafka: dict(kafka.parts.image.scram))

    before = stored()
    refbroker.restart()
    assert stored() == before
    with Admin(**refbroker.client_options) as admin:
        assert admin.list_topics() == {}


@pytest.mark.refbroker(sasl=USERS)
def test_a_mechanism_that_the_listener_lacks_is_named_with_its_own() -> None:
    with RefBroker(sasl=USERS, settings={"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as kafka:
        offered = "does not offer the SASL mechanism SCRAM-SHA-256; it offers SCRAM-SHA-512"
        with Admin(**kafka.client_options) as admin, pytest.raises(UnsupportedSaslMechanismError, match=offered):
            admin.list_topics()


@pytest.mark.refbroker(sasl=USERS)
def test_a_client_may_ask_for_versions_again_after_one_that_the_broker_lacks(refbroker: RefBroker) -> None:
    with Wire(refbroker.bootstrap_servers) as wire:
        newer = struct.pack(">hhih", ApiVersionsRequest.api_key, 77, 1, -1) + b"\0\2x\2y\0"
        wire.write(len(newer).to_bytes(4) + newer)
        assert ApiVersionsResponse.decode(wire.read_frame()[4:], 0).error_code == UnsupportedVersionError.code
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0


def test_each_listener_has_its_own_users() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.one.plain.sasl.jaas.config": f'{module} user_alice="1";',
        "listener.name.two.plain.sasl.jaas.config": f'{module} user_alice="2";',
    }
    with RefBroker(settings=settings) as kafka:
        for name, password in (("ONE", "1"), ("TWO", "2")):
            options: dict[str, Any] = {
                "bootstrap_servers": kafka.address(name),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_username": "alice",
            }
            with Admin(sasl_password=password, **options) as admin:
                admin.list_topics()
            with Admin(sasl_password="3", **options) as admin, pytest.raises(SaslAuthenticationError):
                admin.list_topics()


@pytest.mark.not_simulated("connects a socket of its own")
@pytest.mark.refbroker(sasl=USERS)
def test_after_the_old_handshake_messages_come_without_requests(refbroker: RefBroker) -> None:
    with socket.create_connection(("127.0.0.1", refbroker.port), timeout=ANSWER) as sock:

        def exchange(frame: bytes) -> bytes:
            sock.sendall(frame)
            (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
            return sock.recv(size, socket.MSG_WAITALL) if size else b""

        parts = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 7, "old")
        assert exchange(b"".join(parts))[:6] == struct.pack(">ih", 7, 0)
        token = b"\0bob\0builder"
        assert exchange(struct.pack(">i", len(token)) + token) == b""
        assert "User:bob" in principals(refbroker)


@pytest.mark.not_simulated("connects a socket of its own")
def test_after_the_old_handshake_a_refusal_waits_like_others() -> None:
    settings = {"connection.failed.authentication.delay.ms": "500000"}
    with (
        RefBroker(sasl=USERS, settings=settings) as kafka,
        socket.create_connection(("127.0.0.1", kafka.port), timeout=ANSWER) as sock,
        Admin(**kafka.client_options) as admin,
    ):
        sock.sendall(b"".join(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 7, "old")))
        sock.recv(1024)
        # A second attempt does not end the pause.
        for token in (b"\0bob\0wrong", b"\0bob\0builder"):
            sock.sendall(struct.pack(">i", len(token)) + token)
            admin.list_topics()
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        assert "User:bob" not in principals(kafka)


@pytest.fixture
def old_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have brokers and clients of this process know version 0 of SaslHandshake only, as before Kafka 1.0."""
    monkeypatch.setattr(SaslHandshakeRequest, "max_version", 0)


@pytest.mark.usefixtures("old_handshake")
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_logs_in_after_the_old_handshake(mechanism: str, tls: bool) -> None:
    with RefBroker(sasl=USERS, tls=tls) as kafka:
        options = {**kafka.client_options, "sasl_mechanism": mechanism}
        with Producer(**options) as producer:
            producer.send("t", b"v").result(ANSWER)
            assert principals(kafka) == {"User:alice"}


@pytest.mark.usefixtures("old_handshake")
@pytest.mark.refbroker(sasl=USERS)
def test_after_the_old_handshake_a_refusal_names_what_to_check(refbroker: RefBroker) -> None:
    options = {**refbroker.client_options, "sasl_password": "rabbit", "default_api_timeout_ms": 1000}
    text = "the broker closed the connection during the login; a broker before Kafka 1.0 refuses the user 'alice' in"
    with Admin(**options) as admin, pytest.raises(KafkaTimeoutError, match=text):
        admin.list_topics()


@pytest.mark.not_simulated("connects a socket of its own")
@pytest.mark.parametrize(
    ("settings", "limit"),
    [({}, 524_288), ({"sasl.server.max.receive.size": "1000"}, 1000),
     ({"listener.name.sasl_plaintext.sasl.server.max.receive.size": "2000"}, 2000)],
    ids=["default", "set", "listener"],
)  # fmt: skip
def test_a_large_frame_before_the_login_is_refused(
    settings: dict[str, str], limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RefBroker(sasl=USERS, settings=settings) as kafka,
        socket.create_connection(("127.0.0.1", kafka.port), timeout=ANSWER) as sock,
    ):
        sock.sendall(struct.pack(">i", limit + 1))
        assert sock.recv(1) == b""
    assert f"a request of {limit + 1} bytes, where 0 to {limit} are allowed" in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, r"listener.name.sasl_plaintext.gssapi.sasl.jaas.config is missing: Krb5LoginModule"),
        ({"sasl.enabled.mechanisms": "OTHER"}, "OTHER is not implemented; set it to some of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, r"listener.name.sasl_plaintext.plain.sasl.jaas.config is missing"),
        ({"sasl.enabled.mechanisms": "PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config": "x"},
         r"listener.name.sasl_plaintext.plain.sasl.jaas.config must have the form"),
    ],
    ids=["default mechanism", "unknown mechanism", "no users", "malformed"],
)  # fmt: skip
def test_a_broker_that_cannot_have_sasl_does_not_start(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RefBroker(settings={"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **settings}).start()
