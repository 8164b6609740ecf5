"""What is not Kafka's protocol costs its own connection, one log line, and no memory; the others never notice."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from kclient.protocol.frames import decode_response_header
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from refbroker.testing import RefBroker
from tests.support.waiting import wait_until
from tests.support.wire import Wire, frame

CONNECTIONS = 10_000
AT_ONCE = 100
"""Less than the backlog of the listening socket: the system retries a connection beyond that after a second."""
MB = 1_000_000


@pytest.fixture
def bystander(kafka: RefBroker) -> Iterator[Wire]:
    """A well-behaved connection, which works before and after whatever the others do."""
    with Wire(kafka.bootstrap_servers) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 12).brokers
        yield wire
        assert wire.ask(MetadataRequest(topics=[]), 12).brokers


def lines_about(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if name in record.getMessage()]


def request(api_key: int, version: int, body: bytes = b"") -> bytes:
    data = struct.pack(">hhih", api_key, version, 1, -1) + body
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\xff\xff\xff\xff", "a request of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a request of 2147483647 bytes"),
        (struct.pack(">i", 104857601), "a request of 104857601 bytes, where 0 to 104857600 are allowed"),
        (b"\0\0\0\0", "the bytes end within the header"),
        (b"\0\0\0\x04\0\x03\0\x0c", "the bytes end within"),
        (request(999, 0), "no API with key 999"),
        (request(-1, 0), "no API with key -1"),
        (request(3, 99), "not 99"),
        (request(3, -1), "not -1"),
        (request(0, 2), "not 2"),
        (request(52, 0, b"\0"), "no API 52 in version 0"),
        (request(22, 6, b"\0"), "no API 22 in version 6"),
        (request(3, 1, b"\x7f\xff\xff\xff"), "Metadata"),
        (request(19, 2, b"\0\0\0\x01\xff\xff"), "CreateTopics"),
    ],
    ids=lambda value: value.decode("ascii", "backslashreplace")[:24] if isinstance(value, bytes) else "",
)
def test_what_cannot_be_understood_closes_its_connection_with_one_line(
    kafka: RefBroker, bystander: Wire, caplog: pytest.LogCaptureFixture, data: bytes, says: str
) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        name = wire.name
        wire.write(data)
        assert wire.is_closed()
    (line,) = lines_about(caplog, name)
    assert line.startswith(f"closing the connection of {name}: ")
    assert says in line


def test_bytes_that_follow_a_request_are_passed_over(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(request(3, 13, b"\0\0\0\0\0\x01\0\0"))
        correlation_id, body = decode_response_header(MetadataRequest.api_key, 13, wire.read_frame())
        assert correlation_id == 1
        assert MetadataResponse.decode(body, 13).brokers


@pytest.mark.parametrize("cut", [3, 20])
def test_half_a_request_is_one_line_when_the_client_goes(
    kafka: RefBroker, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        name = wire.name
        wire.write(frame(MetadataRequest(topics=[]), 12)[:cut])
    wait_until(lambda: bool(lines_about(caplog, name)))
    assert lines_about(caplog, name) == [f"the connection of {name}: it was closed in the middle of a request"]


def test_a_client_that_comes_and_goes_is_no_line_at_all(kafka: RefBroker, caplog: pytest.LogCaptureFixture) -> None:
    for abruptly in (False, True):
        wire = Wire(kafka.bootstrap_servers)
        assert wire.ask(MetadataRequest(topics=[]), 12)
        if abruptly:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.socket.close()
        wait_until(lambda: not kafka.call(lambda broker: len(broker.server.connections)))
    assert not caplog.records


def test_a_request_that_comes_byte_by_byte_is_answered(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        for byte in frame(ApiVersionsRequest(), 0):
            wire.write(bytes([byte]))
        correlation_id, body = decode_response_header(18, 0, wire.read_frame())
        assert correlation_id == 1
        assert ApiVersionsResponse.decode(body, 0).api_keys


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(request(18, 77, b"\0\x02x\x02y\0"))
        data = wire.read_frame()
        assert data[:4] == b"\0\0\0\x01"
        answer = ApiVersionsResponse.decode(data[4:], 0)
        assert answer.error_code == 35
        assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]
        # The connection is equal to before.
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0


def test_garbage_never_hurts_anybody_else(
    kafka: RefBroker, bystander: Wire, rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    whole = frame(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 12)
    for _ in range(300):
        data = bytearray(whole * rng.randrange(1, 4))
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with Wire(kafka.bootstrap_servers) as wire, contextlib.suppress(ConnectionError):
            wire.write(bytes(data))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.socket.recv(65536):
                continue
    assert not caplog.records


def test_a_size_that_is_only_claimed_takes_no_memory(kafka: RefBroker, bystander: Wire) -> None:
    before = psutil.Process().memory_info().rss
    wires = [Wire(kafka.bootstrap_servers) for _ in range(50)]
    for wire in wires:
        wire.write(struct.pack(">i", 100_000_000) + b"\0\0\0\x0d")
    wait_until(lambda: kafka.call(lambda broker: len(broker.server.connections)) == 51)
    assert psutil.Process().memory_info().rss - before < 20 * MB
    for wire in wires:
        wire.socket.close()


@pytest.mark.slow
@pytest.mark.not_secured("its connections send no TLS")
def test_memory_stays_flat_under_ten_thousand_bad_connections(
    kafka: RefBroker, bystander: Wire, rng: random.Random
) -> None:
    logging.getLogger("refbroker").setLevel(logging.ERROR)
    kinds = [b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff\xff\xff", b"", b"\0\0\x03\xe8abc", request(3, 99), rng.randbytes(64)]
    address = ("127.0.0.1", kafka.port)

    def accepted() -> int:
        return kafka.call(lambda broker: broker.parts.metrics.connections_opened)

    def open_and_close() -> None:
        expected = accepted() + AT_ONCE
        sockets = []
        for _ in range(AT_ONCE):
            one = socket.create_connection(address)
            with contextlib.suppress(ConnectionError):
                one.sendall(rng.choice(kinds))
            sockets.append(one)
        for one in sockets:
            one.close()
        wait_until(lambda: accepted() == expected)
        wait_until(lambda: kafka.call(lambda broker: len(broker.server.connections)) == 1)

    try:
        for _ in range(5):
            open_and_close()
        gc.collect()
        before = psutil.Process().memory_info().rss
        for _ in range(CONNECTIONS // AT_ONCE - 5):
            open_and_close()
        gc.collect()
        assert psutil.Process().memory_info().rss - before < 8 * MB
    finally:
        logging.getLogger("refbroker").setLevel(logging.NOTSET)
