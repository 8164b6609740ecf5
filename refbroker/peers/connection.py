"""One connection to another node: the bytes of requests out, and the responses in the order of their requests.

The memory for a response grows with the bytes that arrive, never with the size that the frame announces. TLS passes
through memory, so that it works on the simulated network. Elsewhere: connecting, logging in and timeouts (`channel`).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kclient.errors import DisconnectedError, KafkaError, ProtocolError, SslAuthenticationError
from kclient.protocol import Message
from kclient.protocol.frames import decode_response_header, encode_request, peek_correlation_id
from kclient.security.implementation import tls_stream

_SIZE = struct.Struct(">i")
_READ_BYTES = 65_536


class _Pending(NamedTuple):
    """A request whose response has not arrived."""

    correlation_id: int
    request: type[Message]
    version: int
    future: asyncio.Future[Message]


class PeerConnection(asyncio.Protocol):
    """A connection to another node.

    Parameters:
        name: the node and the listener, for errors.
        client_id: the client id in the headers of requests.
        largest: the largest response that is accepted, in bytes.
        tls: the TLS context and the host for which the certificate must be; None without TLS.
        on_lost: called with the reason when the connection has ended.

    Attributes:
        ready: completes when the connection is made and encrypted.
        in_flight: the number of requests without a response.
    """

    def __init__(
        self,
        name: str,
        client_id: str,
        largest: int,
        tls: tuple[ssl.SSLContext, str] | None,
        on_lost: Callable[[PeerConnection], None],
    ) -> None:
        self._name = name
        self._client_id = client_id
        self._largest = largest
        self._stream = None if tls is None else tls_stream(tls[0], server_hostname=tls[1])
        self._on_lost = on_lost
        self._pending: deque[_Pending] = deque()
        self._buffer = bytearray()
        self._next_id = 0
        self._is_encrypted = tls is None
        self._failure: KafkaError | None = None
        self._transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._failure is None and self.ready.done()

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def ask(self, request: Message, version: int) -> asyncio.Future[Message]:
        """Send a request; return a future of its response.

        Raises:
            DisconnectedError: the connection has ended.
            ProtocolError: the version cannot carry the request.
        """
        if self._failure is not None:
            raise self._failure.without_frames()
        assert self._transport is not None
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        parts = encode_request(request, version, self._next_id, self._client_id)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(self._next_id, type(request), version, future))
        self._send(parts)
        return future

    def close(self, reason: KafkaError | None = None) -> None:
        """Close the connection; requests without a response fail.

        Parameters:
            reason: the error of the requests; by default that this node has closed the connection.
        """
        self._fail(reason or DisconnectedError("this node has closed the connection", broker=self._name))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._failure is not None:
            transport.abort()
        elif self._stream is None:
            self._note_ready()
        else:
            self._proceed()

    def data_received(self, data: bytes) -> None:
        if self._failure is not None:
            return
        if self._stream is None:
            self._buffer += data
            self._read_frames()
        else:
            self._stream.receive(data)
            self._proceed()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        text = "the node closed the connection" if exc is None else f"the connection was lost: {exc}"
        if not self._is_encrypted:
            text += " during the TLS handshake; check that this listener has TLS, and the certificates"
        self._fail(DisconnectedError(text, broker=self._name))

    # TLS

    def _proceed(self) -> None:
        """Continue the handshake, then decrypt what has arrived."""
        assert self._stream is not None
        try:
            if not self._is_encrypted:
                if not self._stream.do_handshake():
                    self._flush()
                    return
                self._is_encrypted = True
                self._flush()
                self._note_ready()
            room = memoryview(bytearray(_READ_BYTES))
            while self._failure is None and (count := self._stream.read_into(room)):
                self._buffer += room[:count]
                self._read_frames()
            self._flush()
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._fail(DisconnectedError("the node closed the connection", broker=self._name))
        except ssl.SSLError as error:
            self._flush()
            self._fail(self._tls_failure(error))

    def _tls_failure(self, error: ssl.SSLError) -> KafkaError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return SslAuthenticationError(
                f"the certificate is not trusted ({error.verify_message}); check ssl.truststore.location and "
                f"ssl.endpoint.identification.algorithm",
                broker=self._name,
            )
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return SslAuthenticationError(
            f"TLS failed ({reason}); check that the listener has TLS, and the certificates of both nodes",
            broker=self._name,
        )

    def _flush(self) -> None:
        if self._stream is not None and self._transport is not None and (data := self._stream.take()):
            self._transport.write(data)

    # Frames

    def _note_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _send(self, parts: Sequence[Any]) -> None:
        assert self._transport is not None
        if self._stream is None:
            self._transport.write(b"".join(parts))
            return
        try:
            self._stream.write(parts)
        except ssl.SSLError as error:
            self._fail(self._tls_failure(error))
        self._flush()

    def _read_frames(self) -> None:
        position = 0
        buffer = self._buffer
        while self._failure is None and len(buffer) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, position)
            if not 0 <= size <= self._largest:
                self._fail(
                    ProtocolError(
                        f"a response of {size} bytes, where 0 to {self._largest} are allowed; check that the address "
                        f"is that of a node of Kafka, and its security protocol",
                        broker=self._name,
                    )
                )
                return
            end = position + _SIZE.size + size
            if len(buffer) < end:
                break
            self._take(bytes(memoryview(buffer)[position + _SIZE.size : end]))
            position = end
        del buffer[:position]

    def _take(self, frame: bytes) -> None:
        try:
            if not self._pending:
                raise ProtocolError("a response that belongs to no request", broker=self._name)
            pending = self._pending[0]
            found = peek_correlation_id(frame)
            if found != pending.correlation_id:
                raise ProtocolError(
                    f"the response has the correlation id {found}, not {pending.correlation_id}", broker=self._name
                )
            _, body = decode_response_header(pending.request.api_key, pending.version, frame)
            response, _ = pending.request.response_type.decode_prefix(body, pending.version)
        except ProtocolError as error:
            self._fail(ProtocolError(error.message, broker=self._name))
            return
        self._pending.popleft()
        if not pending.future.done():
            pending.future.set_result(response)

    def _fail(self, error: KafkaError) -> None:
        """End the connection, once."""
        if self._failure is not None:
            return
        self._failure = error
        if not self.ready.done():
            self.ready.set_exception(error)
            # The task that was waiting may have been cancelled.
            self.ready.exception()
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.future.done():
                each.future.set_exception(error.without_frames())
                each.future.exception()
        self._buffer = bytearray()
        if self._transport is not None:
            self._transport.abort()
        self._on_lost(self)
