"""One connection: splits the received bytes into frames, and sends the responses in order.

As in Kafka, a connection handles one request at a time; while a response is pending (a long poll) or cannot be sent (a
slow reader), the connection is not read. A frame is handled where it was received, without a copy: handlers must not
keep views of the request.

The buffer starts small and grows with the bytes that arrive, never with the size that a frame announces; it shrinks
again while the connection is idle.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from time import perf_counter_ns
from typing import Any, Protocol

from kclient.errors import IllegalSaslStateError, KafkaError, KafkaStorageError, SaslAuthenticationError
from refbroker.config import BrokerConfig
from refbroker.handlers.answers import host_of
from refbroker.handlers.failed_logins import delay_seconds, with_cause
from refbroker.log import FileRange
from refbroker.metrics.counters import Closed
from refbroker.metrics.requests import RequestStats
from refbroker.runtime.limited_log import LimitedLog
from refbroker.runtime.threads import in_thread
from refbroker.security.principals import ANONYMOUS, Principal
from refbroker.security.sasl import TOKEN_LIMIT, TOKEN_LIMIT_SETTING, Answer, Authenticator, StepResult
from refbroker.server.dispatch import Dispatcher, PendingResponse
from refbroker.server.listening import peer_of
from refbroker.server.tls import ENCRYPTED_AT_ONCE, TlsTransport

logger = logging.getLogger(__name__)

SMALL_BUFFER = 4096
FIRST_GROWTH = 65536
JOINED_BELOW = 16384
"""Bytes; smaller parts of a response are joined, because a system call costs more than the copy."""
SENDFILE_FROM = 196608
"""Bytes; file ranges of at least this size are sent by sendfile, smaller ones through a buffer.

Measured over loopback: at 128 KiB both take the same time; at 256 KiB sendfile takes half the time, at 1 MiB a third of
the CPU time.
"""
SEND_BUFFER_LIMIT = 1 << 20
"""When more bytes than this wait to be sent, the connection is not read."""
LOGIN_SECONDS = 30.0
"""How long a client may take to log in. Kafka waits for `connections.max.idle.ms`."""

_SIZE = struct.Struct(">i")


class _RangeFile:
    """The file of a range as `loop.sendfile` needs it."""

    def __init__(self, records: FileRange) -> None:
        self._records = records

    def fileno(self) -> int:
        return self._records.file


class ConnectionListener(Protocol):
    """What a connection needs from the server that accepted it.

    Attributes:
        config: the broker's settings.
        dispatcher: handles the requests.
        loop: the event loop.
        bad_connections: logs what is wrong with connections.
    """

    bad_connections: LimitedLog
    config: BrokerConfig
    dispatcher: Dispatcher
    loop: asyncio.AbstractEventLoop

    def opened(self, connection: Connection) -> None:
        """Record a new connection."""

    def ready(self, connection: Connection) -> None:
        """Record that the client of a connection has sent a request, and has logged in if it has to."""

    def lost(self, connection: Connection) -> None:
        """Record that a connection is closed."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection.

    Parameters:
        server: the server that accepted it.
        listener: the name of the listener that accepted it.
        authenticator: the client's login; None on a listener without SASL.

    Attributes:
        peer: the client's address, for log messages.
        last_active_ns: when the client last sent something, by `time.perf_counter_ns`.
        client_software: name and version from the ApiVersions request.
        closed_for: the reason for closing, once closed.
    """

    def __init__(self, server: ConnectionListener, listener: str, authenticator: Authenticator | None = None) -> None:
        self.peer = "?"
        self.listener = listener
        self.authenticator = authenticator
        self._own_principal = ANONYMOUS
        self.last_active_ns = 0
        self.client_software = ("", "")
        self.closed_for = Closed.CLIENT
        self._server = server
        self._loop = server.loop
        self._buffer = bytearray(SMALL_BUFFER)
        self._start = 0
        self._end = 0
        self._needed = 0
        self._waiting: asyncio.Future[Any] | None = None
        self._hold: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._blocked = False
        self._unsent = False
        self._drained: asyncio.Future[None] | None = None
        self._being_sent: list[tuple[RequestStats, int, int]] = []
        # The time when the waiting frames arrived, and the last time that this connection read the clock.
        self._arrived_ns = 0
        self._now_ns = 0
        self._reading = True
        self._ignoring = False
        self._closed = False
        self._sends_files = True
        self._is_pending = True
        self._login_deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport

    # asyncio.BufferedProtocol

    @property
    def principal(self) -> Principal:
        """Who the client is: the user that has logged in with SASL, else the subject of its certificate."""
        return self._own_principal if self.authenticator is None else self.authenticator.principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._own_principal = principal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # What is encrypted has to pass through memory.
        self._sends_files = not isinstance(transport, TlsTransport)
        # So that `pause_writing` and `resume_writing` report when a response is not sent immediately, and when it is.
        transport.set_write_buffer_limits(high=0)
        self.peer = peer_of(transport)
        self.last_active_ns = perf_counter_ns()
        if not self.is_authenticated:
            self._login_deadline = self._loop.call_later(LOGIN_SECONDS, self._login_expired)
        self._server.opened(self)

    def _note_ready(self) -> None:
        """Notify the server of the first request of a client that has logged in, or need not."""
        if self.is_authenticated:
            self._is_pending = False
            if self._login_deadline is not None:
                self._login_deadline.cancel()
                self._login_deadline = None
            self._server.ready(self)

    def _login_expired(self) -> None:
        # Not closed: a client that reads nothing would keep a refusal waiting, and with it the connection.
        self.abort(f"it has not logged in within {LOGIN_SECONDS:g} s", why=Closed.ERROR)

    @property
    def address(self) -> str:
        """The IP address of the client, as Java writes it."""
        return host_of(self.peer).removeprefix("/")

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self._closed = not self._closed, True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._sending is not None:
            self._drained = None
            self._sending.cancel()
        if self._hold is not None:
            self._hold.cancel()
        if self._login_deadline is not None:
            self._login_deadline.cancel()
        if was_open and self._end > self._start and exc is None and not self.is_busy:
            self.warn("it was closed in the middle of a request")
        self._buffer = bytearray()
        self._server.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        used = self._end - self._start
        if self._start and (self._start == self._end or self._end == len(self._buffer) or self._needed):
            self._buffer[:used] = self._buffer[self._start : self._end]
            self._start, self._end = 0, used
        size = len(self._buffer)
        if used == size or size < min(self._needed, FIRST_GROWTH):
            wanted = max(self._needed, used + 1)
            grown = bytearray(min(max(wanted, SMALL_BUFFER), max(2 * used, FIRST_GROWTH)))
            grown[:used] = memoryview(self._buffer)[:used]
            self._buffer = grown
        view = memoryview(self._buffer)
        # Receive a large frame up to its end and no further, so that the next one starts at the front.
        stop = self._start + self._needed if self._needed > FIRST_GROWTH else len(self._buffer)
        return view[self._end : min(stop, len(self._buffer))]

    def buffer_updated(self, nbytes: int) -> None:
        now = self.last_active_ns = perf_counter_ns()
        if self.is_busy:
            if self._ignoring:
                return
            if self._start == self._end:
                self._arrived_ns = now
            self._end += nbytes
            self._pause()
        else:
            self._end += nbytes
            self._arrived_ns = now
            self._handle_frames(now)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._unsent = True

    def resume_writing(self) -> None:
        self._unsent = self._blocked = False
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        now = perf_counter_ns()
        for stats, size, since_ns in self._being_sent:
            stats.note_sent((size, now - since_ns))
        self._being_sent.clear()
        self._proceed()

    # Requests

    @property
    def is_busy(self) -> bool:
        """Whether the next request has to wait."""
        return self._blocked or self._waiting is not None or self._sending is not None or self._hold is not None

    def hold(self, until: asyncio.Future[None]) -> None:
        """Handle no further request until a future completes, as after a response with a throttle time."""
        self._hold = until
        until.add_done_callback(self._released)

    def _released(self, held: asyncio.Future[None]) -> None:
        self._hold = None
        self._proceed()

    def shrink(self) -> None:
        """Release memory while the connection is idle."""
        if self._start == self._end and len(self._buffer) > SMALL_BUFFER and not self.is_busy:
            self._buffer = bytearray(SMALL_BUFFER)
            self._start = self._end = self._needed = 0

    def _handle_frames(self, now_ns: int) -> None:
        self._now_ns = now_ns
        while not self._closed and not self.is_busy:
            available = self._end - self._start
            if available < _SIZE.size:
                self._needed = 0
                break
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
            if not 0 <= size <= self._largest_request:
                self._refuse_size(size)
                return
            self._needed = _SIZE.size + size
            if available < self._needed:
                break
            first = self._start + _SIZE.size
            self._start = first + size
            self._needed = 0
            self._handle(memoryview(self._buffer)[first : first + size])
        if self._start == self._end:
            self._start = self._end = 0

    @property
    def _largest_request(self) -> int:
        limit = self._server.config.socket_request_max_bytes
        if self.is_authenticated:
            return limit
        own = self._server.config.listener_text(self.listener, TOKEN_LIMIT_SETTING)
        return min(limit, TOKEN_LIMIT if own is None else int(own))

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in, or need not."""
        return self.authenticator is None or self.authenticator.is_complete

    def _refuse_size(self, size: int) -> None:
        first = bytes(self._buffer[self._start : self._start + 4])
        looks_like = ""
        if first[:2] == b"\x16\x03":
            looks_like = f"; it looks like TLS: {self._advice}"
        elif first.isalpha() or first[:3].isalpha():
            looks_like = "; it looks like HTTP or another protocol of text"
        allowed = f"0 to {self._largest_request}"
        self.close(f"a request of {size} bytes, where {allowed} are allowed{looks_like}")

    @property
    def _advice(self) -> str:
        return self._server.config.listeners.client_advice(self.listener)

    def _handle(self, frame: memoryview) -> None:
        started = self._now_ns
        dispatcher = self._server.dispatcher
        try:
            if self.authenticator is not None and self.authenticator.takes_tokens:
                self._handle_token(self.authenticator, bytes(frame))
                return
            stats, answer = dispatcher.handle(self, frame)
            if self._is_pending:
                self._note_ready()
            done = self._now_ns = perf_counter_ns()
            stats.note_handled((len(frame), started - self._arrived_ns, done - started))
            if isinstance(answer, PendingResponse):
                self._waiting = answer.future
                answer.future.add_done_callback(lambda _: self._answered(answer, done))
            elif answer is not None:
                self._send(answer, stats, done)
        except IllegalSaslStateError as error:
            has_begun = self.authenticator is not None and self.authenticator.has_begun
            self.close(str(error) if has_begun else f"{error}: {self._advice}")
        except KafkaError as error:
            self.close(str(error))
        except Exception:
            # Wherever this was called from, a connection left open would wait for a response indefinitely.
            logger.exception("a request of %s could not be handled", self.peer)
            self.close("its request could not be handled")

    def _handle_token(self, authenticator: Authenticator, token: bytes) -> None:
        """Handle a message of a mechanism without a request around it."""
        if not authenticator.blocks:
            try:
                self._answer_token(authenticator.on_token(token))
            except SaslAuthenticationError as error:
                self._refuse_login(error)
            return
        step = self._waiting = asyncio.ensure_future(in_thread(authenticator.begin_step(token)))
        step.add_done_callback(lambda done: self._token_handled(authenticator, done))

    def _token_handled(self, authenticator: Authenticator, step: asyncio.Future[StepResult]) -> None:
        self._waiting = None
        if self._closed or step.cancelled():
            return
        try:
            self._answer_token(authenticator.end_step(step.result()))
        except SaslAuthenticationError as error:
            self._refuse_login(error)
        except KafkaError as error:
            self.close(f"its login failed: {with_cause(error)}")
        self._proceed()

    def _refuse_login(self, error: SaslAuthenticationError) -> None:
        """Close the connection after a pause, and read nothing until then."""
        self.warn(f"its login failed: {with_cause(error)}")
        self.hold(self._loop.create_future())
        self._loop.call_later(delay_seconds(self._server.config), self.close)

    def _answer_token(self, answer: Answer) -> None:
        if answer.token is not None:
            self.transport.write(_SIZE.pack(len(answer.token)) + answer.token)
        self._note_ready()

    def _answered(self, waiting: PendingResponse, since_ns: int) -> None:
        self._waiting = None
        if self._closed:
            return
        answered = False
        try:
            if not waiting.future.cancelled():
                now = perf_counter_ns()
                waiting.stats.wait.observe(now - since_ns)
                answer = waiting.encode()
                if answer is not None:
                    self._send(answer, waiting.stats, now)
                if self._is_pending:
                    self._note_ready()
                answered = True
        except KafkaError as error:
            self.close(str(error))
        finally:
            # Without a response the client would wait indefinitely.
            if not answered:
                self.close()
        self._proceed()

    def _proceed(self) -> None:
        """Handle what has arrived in the meantime, and read again."""
        if self._closed or self.is_busy:
            return
        self._handle_frames(perf_counter_ns())
        if not self._reading and not self.is_busy:
            self._reading = True
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def _pause(self) -> None:
        if self._reading and not self._closed:
            self._reading = False
            self.transport.pause_reading()

    # Responses

    def _send(self, parts: list[Any], stats: RequestStats, since_ns: int) -> None:
        if any(type(part) is FileRange and part.size >= SENDFILE_FROM for part in parts):
            size = sum(map(len, parts))
            self._sending = self._loop.create_task(self._stream(parts))
            self._sending.add_done_callback(lambda task: self._streamed(task, stats, size, since_ns))
            return
        if not self._sends_files:
            if self.transport.is_closing():
                return
            size = sum(map(len, parts))
            self.transport.writelines(part.read() if type(part) is FileRange else part for part in parts)
            self._written(stats, size, since_ns)
            return
        small: list[Any] = []
        total = held = 0
        for part in parts:
            if self.transport.is_closing():
                # The client has disconnected; asyncio would warn about every later write.
                return
            data = part.read() if type(part) is FileRange else part
            if len(data) >= JOINED_BELOW and held >= JOINED_BELOW:
                self.transport.write(b"".join(small))
                total += held
                small, held = [], 0
            small.append(data)
            held += len(data)
        self.transport.write(small[0] if len(small) == 1 else b"".join(small))
        self._written(stats, total + held, since_ns)

    def _written(self, stats: RequestStats, size: int, since_ns: int) -> None:
        """Record that a response was passed to the transport, which may still hold part of it."""
        if self._unsent:
            self._being_sent.append((stats, size, since_ns))
            self._blocked = self.transport.get_write_buffer_size() > SEND_BUFFER_LIMIT
        else:
            now = self._now_ns = perf_counter_ns()
            stats.note_sent((size, now - since_ns))

    async def _stream(self, parts: list[Any]) -> None:
        """Send parts that include large ranges of files."""
        small: list[Any] = []
        for part in parts:
            if type(part) is FileRange:
                if part.size >= SENDFILE_FROM:
                    self.transport.write(b"".join(small))
                    small = []
                    await (self._send_file(part) if self._sends_files else self._encrypt_file(part))
                    continue
                part = part.read()
            small.append(part)
        if small:
            self.transport.write(b"".join(small))

    async def _send_file(self, part: FileRange) -> None:
        if self.transport.is_closing():
            raise ConnectionError("the client has gone")
        file: Any = _RangeFile(part)
        try:
            sent = await self._loop.sendfile(self.transport, file, part.position, part.size, fallback=False)
        except asyncio.SendfileNotAvailableError:
            # This file system does not support sendfile, or the client has disconnected, which the transport will
            # detect.
            data = await in_thread(part.read)
            if not self.transport.is_closing():
                self.transport.write(data)
            return
        if sent != part.size:
            # The size of the frame is announced already; anything sent now would be read as part of it.
            raise KafkaStorageError(f"the file gave {sent} of {part.size} bytes")

    async def _encrypt_file(self, part: FileRange) -> None:
        """Send a range of a file over TLS, no faster than the client reads."""
        for start in range(0, part.size, ENCRYPTED_AT_ONCE):
            if self.transport.is_closing():
                raise ConnectionError("the client has gone")
            self.transport.write(part.part(start, ENCRYPTED_AT_ONCE).read())
            if self._unsent:
                self._drained = self._loop.create_future()
                await self._drained

    def _streamed(self, task: asyncio.Task[None], stats: RequestStats, size: int, since_ns: int) -> None:
        self._sending = None
        if self._closed or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._written(stats, size, since_ns)
            self._proceed()
        elif isinstance(error, ConnectionError):
            # Clients may disconnect at any time.
            self.close(why=Closed.CLIENT)
        else:
            self.close(f"the answer could not be sent: {error}")

    def ignore(self) -> None:
        """Discard whatever arrives until the peer disconnects, like a broker that hangs."""
        self._ignoring = True
        self._buffer = bytearray(SMALL_BUFFER)
        self._start = self._end = self._needed = 0
        if not self._reading and not self._closed:
            # Otherwise nothing would notice that the peer disconnects.
            self._reading = True
            self.transport.resume_reading()

    def warn(self, what: str) -> None:
        """Log what is wrong with the connection, unless that was logged recently."""
        self._server.bad_connections.warning(self.peer, "the connection of %s: %s", what)

    def close(self, reason: str | None = None, *, why: Closed = Closed.ERROR) -> None:
        """Close the connection. A reason is logged with the peer's name; `why` is the reason to count."""
        if self._closed:
            return
        self._closed = True
        self.closed_for = why
        if reason is not None:
            self._server.bad_connections.warning(self.peer, "closing the connection of %s: %s", reason)
        self.transport.close()

    def abort(self, reason: str | None = None, *, why: Closed = Closed.STOPPED) -> None:
        """Drop the connection and the responses that wait to be sent; parameters as for `close`."""
        if not self._closed:
            self._closed, self.closed_for = True, why
            if reason is not None:
                self._server.bad_connections.warning(self.peer, "closing the connection of %s: %s", reason)
        self.transport.abort()
