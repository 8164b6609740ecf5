"""Clients and refbroker over TLS: throw-away certificates, mutual TLS, principals, rotation, mismatches."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, AsyncProducer, Consumer, Producer
from kclient.errors import ConfigError, IllegalStateError, KafkaTimeoutError, SslAuthenticationError
from kclient.protocol.frames import decode_response_header
from kclient.protocol.messages.fetch import FetchResponse
from refbroker.server.tls import ENCRYPTED_AT_ONCE
from refbroker.testing import RefBroker
from tests.support import pki
from tests.support.broker_process import BrokerProcess
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until
from tests.support.wire import Wire, fetch_request, values

pytestmark = pytest.mark.refbroker_only


def principals(broker: RefBroker) -> set[str]:
    return broker.call(lambda kafka: {str(connection.principal) for connection in kafka.server.connections})


def send(options: dict[str, Any], value: bytes = b"v") -> int:
    with Producer(**options) as producer:
        return producer.send("t", value).result(ANSWER).offset


@pytest.mark.refbroker(tls=True)
def test_a_secured_test_is_one_line(refbroker: RefBroker) -> None:
    large = os.urandom(900_000)
    with Producer(**refbroker.client_options) as producer:
        for value in (b"small", large, b"last"):
            producer.send("t", value)
    with Consumer("t", auto_offset_reset="earliest", group_id="g", **refbroker.client_options) as consumer:
        found: list[Any] = []
        while len(found) < 3:
            found += [record.value for record in consumer.poll(ANSWER)]
    assert found == [b"small", large, b"last"]
    assert principals(refbroker) <= {"User:ANONYMOUS"}


@pytest.mark.refbroker(tls=True)
async def test_async_clients_use_tls_as_well(refbroker: RefBroker) -> None:
    async with AsyncProducer(**refbroker.client_options) as producer:
        assert (await producer.send_and_wait("t", b"v")).offset == 0


@pytest.mark.refbroker(tls=True, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/U")
def test_the_certificate_of_a_client_is_its_principal(refbroker: RefBroker) -> None:
    with Admin(**refbroker.client_options) as admin:
        admin.list_topics()
        assert principals(refbroker) == {"User:CLIENT"}
    chain, key = refbroker.certificates.issue("alice")
    own = {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
    with Admin(**{**refbroker.client_options, **own}) as admin:
        admin.list_topics()
        wait_until(lambda: principals(refbroker) == {"User:ALICE"})


@pytest.mark.refbroker(tls=True, ssl_client_auth="requested")
def test_a_certificate_that_is_requested_may_be_missing(refbroker: RefBroker) -> None:
    options = refbroker.client_options
    with Admin(**options) as admin:
        admin.list_topics()
        assert all(name.startswith("User:CN=client,OU=") for name in principals(refbroker))
    del options["ssl_keystore_certificate_chain"], options["ssl_keystore_key"]
    with Admin(**options) as admin:
        admin.list_topics()
        wait_until(lambda: principals(refbroker) == {"User:ANONYMOUS"})


@pytest.mark.refbroker(tls=True, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob,.*$/bob/")
def test_a_certificate_that_no_rule_applies_to_is_refused(
    refbroker: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with Admin(default_api_timeout_ms=1000, **refbroker.client_options) as admin, pytest.raises(KafkaTimeoutError):
        admin.list_topics()
    wait_until(lambda: "no rule of ssl.principal.mapping.rules=RULE:^CN=bob,.*$/bob/ applies to" in caplog.text)


@pytest.mark.refbroker(tls=True, ssl_client_auth="required")
def test_a_refused_client_learns_it_from_every_call(refbroker: RefBroker) -> None:
    options = refbroker.client_options
    del options["ssl_keystore_certificate_chain"], options["ssl_keystore_key"]
    with Admin(**options) as admin:
        for _ in range(2):
            with pytest.raises(SslAuthenticationError, match="refused a client without a certificate"):
                admin.list_topics()
    with Producer(**options) as producer, pytest.raises(SslAuthenticationError):
        producer.send("t", b"v").result(ANSWER)
    for group in (None, "g"):
        with Consumer("t", group_id=group, **options) as consumer, pytest.raises(SslAuthenticationError):
            consumer.poll(ANSWER)


@pytest.mark.refbroker(tls=True)
def test_a_client_recovers_once_the_certificates_are_right(refbroker: RefBroker, tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(pki.stranger().cert_pem.bytes().decode())
    options: dict[str, Any] = {**refbroker.client_options, "ssl_truststore_location": str(store)}
    del options["ssl_truststore_certificates"]
    with Admin(**options) as admin:
        with pytest.raises(SslAuthenticationError, match=r"is not trusted: .*set ssl_truststore_location"):
            admin.list_topics()
        store.write_text(refbroker.certificates.authority)

        def works() -> bool:
            try:
                return admin.list_topics() == {}
            except SslAuthenticationError:
                return False

        wait_until(works)


@pytest.mark.not_simulated("connects a socket of its own")
def test_the_broker_shows_a_new_certificate_without_a_restart(tmp_path: Path) -> None:
    store = tmp_path / "broker.pem"
    store.write_text("".join(pki.certificate("first")))
    with RefBroker(settings={"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(store)}) as kafka:

        def shown() -> str:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=pki.authority_pem())
            with (
                socket.create_connection(("127.0.0.1", kafka.port)) as sock,
                context.wrap_socket(sock, server_hostname="localhost") as tls,
            ):
                return str(tls.getpeercert()["subject"])  # type: ignore[index]

        assert "'first'" in shown()
        store.write_text("".join(pki.certificate("second")))
        assert "'second'" in shown()
        store.write_text("half")
        assert "'second'" in shown()


def test_each_listener_has_its_own_protocol_and_settings() -> None:
    settings = {
        "listeners": "PLAIN://127.0.0.1:0,OPEN://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,OPEN:SSL,MUTUAL:SSL",
        "listener.name.mutual.ssl.client.auth": "required",
    }
    with RefBroker(tls=True, settings=settings) as kafka:
        assert kafka.client_options == {"bootstrap_servers": kafka.address("PLAIN")}
        trust: dict[str, Any] = {"security_protocol": "SSL"}
        trust["ssl_truststore_certificates"] = kafka.certificates.authority
        chain, key = kafka.certificates.issue()
        own = {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
        mutual = {**trust, "bootstrap_servers": kafka.address("MUTUAL")}
        assert send({"bootstrap_servers": kafka.address("PLAIN")}) == 0
        assert send({**trust, "bootstrap_servers": kafka.address("OPEN")}) == 1
        assert send({**mutual, **own}) == 2
        with Admin(**mutual) as admin, pytest.raises(SslAuthenticationError):
            admin.list_topics()


@pytest.mark.not_simulated("starts a process")
def test_the_command_serves_tls_with_certificates_of_its_own(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", options=["--tls"]) as kafka:
        properties = tmp_path / "data-tls" / "client.properties"
        with Admin.from_properties(properties, bootstrap_servers=kafka.bootstrap_servers) as admin:
            assert admin.list_topics() == {}


@pytest.mark.not_simulated("connects a socket of its own")
@pytest.mark.refbroker(tls=True)
def test_a_slow_client_costs_the_broker_little_memory(refbroker: RefBroker) -> None:
    value = os.urandom(16_000_000)
    refbroker.create_topic("t", max_message_bytes=20_000_000)
    options: dict[str, Any] = {**refbroker.client_options, "max_request_size": 20_000_000}
    with Producer(**options) as producer:
        producer.send("t", value).result(ANSWER)
    context = ssl.create_default_context(cadata=refbroker.certificates.authority)

    def unsent() -> int:
        return refbroker.call(
            lambda kafka: sum(one.transport.get_write_buffer_size() for one in kafka.server.connections)
        )

    with Wire(refbroker.bootstrap_servers) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
        wire.send(fetch_request("t"), 11)
        wait_until(unsent)
        assert unsent() < 1.01 * ENCRYPTED_AT_ONCE
        _, body = decode_response_header(1, 11, wire.read_frame())
        assert values(FetchResponse.decode(body, 11)) == [value]


@pytest.mark.refbroker(tls=True)
def test_stopping_does_not_wait_for_handshakes(refbroker: RefBroker) -> None:
    with socket.create_connection(("127.0.0.1", refbroker.port)) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00")
        assert send(refbroker.client_options) == 0
        refbroker.stop()
        silent.settimeout(ANSWER)
        try:
            assert silent.recv(10) == b""
        except ConnectionResetError:
            pass


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "the listener SSL has TLS, which needs ssl.keystore.location"),
        ({"ssl.keystore.location": "/none"}, "ssl.keystore.location: could not read /none"),
        ({"ssl.keystore.location": "/none", "ssl.principal.mapping.rules": "X"}, "'X' must be DEFAULT or RULE"),
        ({"listener.name.ssl.ssl.client.auth": "maybe"}, "ssl.client.auth"),
    ],
    ids=["no store", "no file", "rule", "client auth"],
)
def test_a_broker_that_cannot_have_tls_does_not_start(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RefBroker(settings={"listeners": "SSL://127.0.0.1:0", **settings}).start()


@pytest.mark.refbroker(tls=False)
def test_certificates_are_those_of_a_broker_with_tls(refbroker: RefBroker) -> None:
    assert refbroker.client_options == {"bootstrap_servers": refbroker.bootstrap_servers}
    with pytest.raises(IllegalStateError, match="make it with RefBroker\\(tls=True\\)"):
        _ = refbroker.certificates


@pytest.mark.refbroker(tls=True, ssl_client_auth="required")
def test_no_key_reaches_a_log(refbroker: RefBroker, caplog: pytest.LogCaptureFixture) -> None:
    options = refbroker.client_options
    wrong = {**options, "ssl_truststore_certificates": pki.authority_pem()}
    with caplog.at_level(logging.DEBUG), Admin(**options) as admin, Admin(**wrong) as other:
        admin.list_topics()
        with pytest.raises(SslAuthenticationError):
            other.list_topics()
    secret = options["ssl_keystore_key"].splitlines()[1]
    assert len(secret) > 40
    assert secret not in caplog.text
