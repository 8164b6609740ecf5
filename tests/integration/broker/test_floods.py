"""Floods of connections whose clients finish nothing: the broker keeps few of them, and serves everybody else."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import re
import socket
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
import pytest

from kclient import Admin, Producer
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from refbroker.broker import Broker
from refbroker.runtime import limited_log
from refbroker.runtime.file_limit import file_limit, raise_file_limit
from refbroker.server import connection, pending_connections, tls
from refbroker.server.connection import Connection
from refbroker.server.pending_connections import MOST_PENDING
from refbroker.server.tls import TlsProtocol
from refbroker.testing import RefBroker
from refbroker.testing.certificates import write_certificates
from tests.support.broker_process import BrokerProcess
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until
from tests.support.wire import Wire, frame

AT_ONCE = 10
LIMIT = 20
"""More than come at once, so that a client that comes after them is not among the oldest."""
MANY, MOST = 100, 10_000
"""Connections of a short and of a long flood."""
MB = 1_000_000
BYTE_BY_BYTE = frame(ApiVersionsRequest(), 0)


@cache
def hello() -> bytes:
    """Return the first message of a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


class Kind(NamedTuple):
    """A kind of flood: the options of a broker, and the first bytes of each connection."""

    broker: dict[str, Any]
    first: Callable[[], bytes]


KINDS = {
    "half-a-hello": Kind({"tls": True}, lambda: hello()[:100]),
    "half-a-handshake": Kind({"tls": True}, hello),
    "no-login": Kind({"sasl": {"alice": "wonder"}}, lambda: b""),
    "no-request": Kind({"tls": False}, lambda: b""),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def pending(kafka: RefBroker) -> int:
    return kafka.call(lambda broker: len(broker.server.pending))


def kept(kafka: RefBroker) -> int:
    """Return how many connections are in memory; those that were dropped have ended when the loop comes by again."""

    def count(_: Broker) -> int:
        gc.collect()
        return sum(isinstance(one, (Connection, TlsProtocol)) for one in gc.get_objects())

    kafka.call(lambda _: None)
    return kafka.call(count)


class Strangers:
    """Clients that finish nothing.

    Parameters:
        address: of the broker.
        first: returns what each of them sends first.
    """

    def __init__(self, address: str, first: Callable[[], bytes]) -> None:
        self._address = address
        self._first = first
        self._wires: list[Wire] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for wire in self._wires:
            wire.socket.close()

    def connect(self, count: int) -> None:
        for _ in range(count):
            wire = Wire(self._address)
            self._wires.append(wire)
            with contextlib.suppress(ConnectionError):
                wire.write(self._first())

    def send_a_byte_more(self, position: int) -> None:
        for wire in self._wires:
            with contextlib.suppress(ConnectionError):
                wire.write(BYTE_BY_BYTE[position : position + 1])


def test_a_flood_leaves_few_connections_and_everybody_else_served(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_connections, "MOST_PENDING", LIMIT)
    with (
        RefBroker(**kind.broker) as kafka,
        Producer(**kafka.client_options) as early,
        Strangers(kafka.bootstrap_servers, kind.first) as strangers,
    ):
        assert early.send("t", b"before").result(ANSWER).offset == 0
        for _ in range(MANY // AT_ONCE):
            strangers.connect(AT_ONCE)
            # A client that connects after the others is served after they were accepted.
            with Admin(**kafka.client_options) as late:
                assert late.describe_cluster().brokers
            assert pending(kafka) <= LIMIT
        for position in range(len(BYTE_BY_BYTE) - 1):
            strangers.send_a_byte_more(position)
            assert pending(kafka) <= LIMIT
        # Each pending connection with TLS has an object for TLS as well; clients have a few connections.
        assert kept(kafka) <= 2 * LIMIT + 10
        assert early.send("t", b"after").result(ANSWER).offset == 1


LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


@pytest.mark.nightly
@pytest.mark.not_simulated("measures the memory of a process")
@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT"])
def test_memory_stays_flat_under_ten_thousand_unfinished_connections(tmp_path: Path, listener: str) -> None:
    raise_file_limit()
    if file_limit() < MOST + 500:
        pytest.skip(f"the process may open {file_limit()} files only (ulimit -n)")
    settings = {**LISTENERS, **write_certificates(tmp_path / "tls")}
    with BrokerProcess(tmp_path / "data", settings=settings) as kafka:
        ports = dict(re.findall(r"refbroker listener (\S+) on (\S+)", "\n".join(kafka.lines)))
        address = ports.get(listener, kafka.bootstrap_servers)
        with (
            Producer(bootstrap_servers=kafka.bootstrap_servers) as early,
            Wire(kafka.bootstrap_servers) as bystander,
            Strangers(address, hello if listener == "SSL" else bytes) as strangers,
        ):
            assert early.send("t", b"before").result(ANSWER).offset == 0
            process = psutil.Process(kafka.pid)
            sizes = []
            for connections in (MOST // 5, MOST - MOST // 5):
                for _ in range(connections // MANY):
                    # Fewer than the backlog of a listening socket, which the broker then takes before it answers.
                    strangers.connect(MANY)
                    assert bystander.ask(ApiVersionsRequest(), 0).api_keys
                for position in range(len(BYTE_BY_BYTE) - 1):
                    strangers.send_a_byte_more(position)
                with Admin(bootstrap_servers=kafka.bootstrap_servers) as late:
                    assert late.describe_cluster().brokers
                assert process.num_fds() < MOST_PENDING + 2 * MANY
                sizes.append(process.memory_info().rss)
            assert sizes[1] - sizes[0] < 16 * MB
            assert early.send("t", b"after").result(ANSWER).offset == 1


def test_a_client_that_sends_a_request_byte_by_byte_is_served_in_the_end() -> None:
    with RefBroker() as kafka, Wire(kafka.bootstrap_servers) as wire:
        for position in range(len(BYTE_BY_BYTE)):
            wire.write(BYTE_BY_BYTE[position : position + 1])
        assert wire.read_frame()
        assert pending(kafka) == 0


def test_connections_that_their_clients_close_are_not_pending(kind: Kind) -> None:
    with RefBroker(**kind.broker) as kafka:
        for _ in range(3):
            with Wire(kafka.bootstrap_servers) as stranger:
                stranger.write(kind.first())
                wait_until(lambda: pending(kafka) == 1)
            wait_until(lambda: pending(kafka) == 0)


@pytest.mark.parametrize(
    ("name", "says"),
    [("half-a-handshake", "the TLS handshake took too long"), ("no-login", "it has not logged in within 0.01 s")],
    ids=["tls", "sasl"],
)
def test_who_finishes_nothing_is_closed_in_time(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.01)
    monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.01)
    kind = KINDS[name]
    with RefBroker(**kind.broker) as kafka, Wire(kafka.bootstrap_servers) as stranger:
        line = f"closing the connection of {stranger.name}: {says}"
        stranger.write(kind.first())
        with contextlib.suppress(ConnectionError):
            while stranger.socket.recv(4096):
                continue
        wait_until(lambda: pending(kafka) == 0)
    assert line in caplog.text


REQUESTS = [
    frame(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 12),
    frame(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1)]), 7),
    frame(SaslHandshakeRequest(mechanism="PLAIN"), 1),
    frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"), 2),
    frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4),
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    found = bytearray(data * rng.randint(1, 2))
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(found))
        # The first bytes are the size of the request, its API and its version.
        found[rng.randrange(8) if rng.random() < 0.5 else at] = rng.randrange(256)
    return bytes(found)


@pytest.mark.parametrize("name", ["half-a-handshake", "no-login", "no-request"])
def test_a_flood_of_mutated_requests_is_a_few_lines(
    name: str, rng: random.Random, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limited_log, "INTERVAL", 1e9)
    with RefBroker(**KINDS[name].broker) as kafka:
        for _ in range(300):
            with Wire(kafka.bootstrap_servers) as stranger, contextlib.suppress(ConnectionError):
                stranger.write(mutated(rng, rng.choice(REQUESTS)))
                stranger.socket.shutdown(socket.SHUT_WR)
                while stranger.socket.recv(4096):
                    continue
        wait_until(lambda: not kafka.call(lambda broker: broker.server.connection_count))
        lines = [record for record in caplog.records if record.name.startswith("refbroker.server")]
        # One for each cause, and one for those that are too many.
        assert 1 <= len(lines) <= limited_log.CAUSES_LIMIT + 1
        assert all(record.levelno == logging.WARNING and len(record.getMessage()) < 700 for record in lines)
        assert len(lines) == len([record for record in caplog.records if record.name.startswith("refbroker.")])
        with Admin(**kafka.client_options) as admin:
            assert admin.describe_cluster().brokers
