"""A client of raw bytes: sends complete or broken frames, and reads the responses. Also builds requests that most tests
need.
"""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self

from kclient.protocol import Message
from kclient.protocol.frames import decode_response_header, encode_request
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.records import BatchBuilder, read_batches
from tests.support.patience import ANSWER
from tests.support.security.clients import options_of


class Wire:
    """A connection to a broker. In a secured run it has TLS, and logs in before the first bytes that a test sends."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER)
        self._correlation_id = 0
        self._login: tuple[str, str] | None = None
        if security := options_of(bootstrap_servers):
            context = ssl.create_default_context(cadata=security["ssl_truststore_certificates"])
            self.socket = context.wrap_socket(self.socket, server_hostname=host, do_handshake_on_connect=False)
            self._login = security["sasl_username"], security["sasl_password"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    @property
    def name(self) -> str:
        """The name of this connection in the broker's log."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def log_in(self, user: str, password: str) -> Any:
        """Log in with PLAIN; return the last response.

        Raises:
            AssertionError: the broker has refused it.
        """
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)
        assert answer.error_code == 0, answer
        return answer

    def write(self, data: bytes) -> None:
        self._prepare()
        self.socket.sendall(data)

    def _prepare(self) -> None:
        login, self._login = self._login, None
        if login is not None:
            try:
                self.log_in(*login)
            except ssl.SSLEOFError as error:
                raise EOFError("the broker closed the connection") from error

    def send(self, request: Message, version: int) -> int:
        """Send a request, and return its correlation id."""
        self._prepare()
        self._correlation_id += 1
        self.write(frame(request, version, self._correlation_id))
        return self._correlation_id

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its response."""
        sent = self.send(request, version)
        correlation_id, body = decode_response_header(request.api_key, version, self.read_frame())
        assert correlation_id == sent
        return type(request).response_type.decode(body, version)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Wait for the broker to close the connection; return False if it responds instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    """Return a request as it goes over the wire."""
    return b"".join(encode_request(request, version, correlation_id, "wire"))


def produce_request(topic: str, value: bytes, acks: int = -1, *, timestamp: int = 1_700_000_000_000) -> ProduceRequest:
    builder = BatchBuilder(max_bytes=1 << 30)
    builder.append(timestamp, None, value)
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(builder.build()))
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_request(topic: str, offset: int = 0, *, max_bytes: int = 1 << 30, wait_ms: int = 0) -> FetchRequest:
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[one])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)


def values(answer: FetchResponse) -> list[bytes | None]:
    records = answer.responses[0].partitions[0].records
    return [record.value for batch in read_batches(records) for record in batch.records()]
