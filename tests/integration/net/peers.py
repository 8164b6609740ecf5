"""Small servers on real sockets: a broker with three APIs, and peers that are no brokers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kclient.protocol import API_NAMES, Message, request_type
from kclient.protocol.frames import decode_request_header, encode_response
from kclient.protocol.messages.api_versions import ApiVersionsResponse
from kclient.protocol.messages.fetch import FetchResponse
from kclient.protocol.messages.metadata import MetadataResponse

Behaviour = Callable[[socket.socket], None]


class Peer:
    """Listens on loopback and gives each connection to a function, in a thread of its own."""

    def __init__(self, behaviour: Behaviour, *, family: int = socket.AF_INET, host: str = "127.0.0.1") -> None:
        self.behaviour = behaviour
        self.connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(family)
        self._listener.bind((host, 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        self.server = f"[{host}]:{self.port}" if family == socket.AF_INET6 else f"{host}:{self.port}"

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # Wakes the accepting thread, which close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join()
        for connection in self.connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self.behaviour(connection)
        except (OSError, EOFError):
            return


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes; EOFError if there are fewer."""
    found = bytearray()
    while len(found) < size:
        some = connection.recv(size - len(found))
        if not some:
            raise EOFError
        found += some
    return bytes(found)


def read_frame(connection: socket.socket) -> bytes:
    """Read a frame, without its size."""
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, size)


class TinyBroker(Peer):
    """Answers ApiVersions, Metadata (itself, and every topic with one partition) and Fetch (with `records`)."""

    def __init__(self, *, newest_api_versions: int = 4, **options: object) -> None:
        super().__init__(self._answer_all, **options)  # type: ignore[arg-type]
        self.newest_api_versions = newest_api_versions
        self.records = b""
        self.requests: list[Message] = []

    def _answer_all(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            header, body = decode_request_header(read_frame(connection))
            version = header.request_api_version
            if header.request_api_key == 18 and version > self.newest_api_versions:
                answer: Message = ApiVersionsResponse(error_code=35, api_keys=[self._entry(18)])
                version = 0
            else:
                request = request_type(header.request_api_key).decode(body, version)
                self.requests.append(request)
                answer = self._answer(request)
            for part in encode_response(answer, version, header.correlation_id):
                connection.sendall(part)

    def _entry(self, key: int) -> ApiVersionsResponse.ApiVersion:
        kind = request_type(key)
        newest = self.newest_api_versions if key == 18 else kind.max_version
        return ApiVersionsResponse.ApiVersion(api_key=key, min_version=kind.min_version, max_version=newest)

    def _answer(self, request: Message) -> Message:
        if request.api_key == 18:
            return ApiVersionsResponse(api_keys=[self._entry(key) for key in API_NAMES])
        if request.api_key == 1:
            data = FetchResponse.PartitionData(partition_index=0, records=self.records)
            return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[data])])
        assert request.api_key == 3
        host = self._listener.getsockname()[0]
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host=host, port=self.port)
        topics = [
            MetadataResponse.MetadataResponseTopic(
                name=topic.name,
                partitions=[MetadataResponse.MetadataResponsePartition(leader_id=1, leader_epoch=0)],
            )
            for topic in request.topics or ()  # type: ignore[attr-defined]
        ]
        return MetadataResponse(brokers=[broker], cluster_id="tiny", controller_id=1, topics=topics)
