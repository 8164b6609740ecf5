"""One connection to one broker: it is set up step by step, then carries requests and responses.

Responses arrive in the order of the requests. Any other response, or a request without a response in time, closes the
connection, and all requests in flight fail. Before a session of SASL ends, the connection waits for outstanding
responses, authenticates again, and continues (KIP-368). Elsewhere: reconnecting, choosing a broker (`nodes`), sockets
(`transport`), and what the errors say (`connection_failures`).
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kclient.metrics import Counter, Histogram
from kclient.net.connection_failures import ConnectionFailures, Peer
from kclient.net.connection_states import BEING_MADE, IN_USE, STATES, Event, State
from kclient.net.events import CLOSED, CONNECTED, FRAME, SENT, TLS_STARTED
from kclient.net.failures import api_name, error_for_request
from kclient.net.handshake import ApiRanges, Ask, Await, BareMessage, Exchange, Setup, Step
from kclient.net.manager import NEVER, Request
from kclient.net.throttling import throttle_seconds
from kclient.net.transport import Address, Channel
from kclient.protocol.frames import (
    decode_response_header,
    encode_request,
    peek_correlation_id,
    response_header_version,
)

_log = logging.getLogger(__name__)

SETUP_FRAME_LIMIT = 1 << 20
"""Bytes. No response during set-up is that large, but a peer that is not a Kafka broker may announce any size."""
FRAME_LIMIT = 0x7FFFFFFF
_LAST_CORRELATION_ID = 0x7FFFFFFF
_SIZE = struct.Struct(">i")


class InFlight(NamedTuple):
    """A request that was written and waits for its response or, if it has none, for being written."""

    correlation_id: int
    request: Request
    deadline: float
    timeout: float
    sent_at: float


class ConnectionMetrics(NamedTuple):
    """The metrics of a connection; `latency` and `throttle` are in milliseconds."""

    requests: Counter
    responses: Counter
    bytes_out: Counter
    bytes_in: Counter
    latency: Histogram
    throttle: Histogram


class ConnectionListener(Protocol):
    """The maker of a connection, notified of its changes before the requests on it are."""

    def connection_ready(self, connection: Connection, now: float) -> None: ...

    def connection_has_room(self, connection: Connection, now: float) -> None: ...

    def connection_closed(self, connection: Connection, error: KafkaError, now: float) -> None: ...


class Connection:
    """A connection; the handler of its channel's events.

    Parameters:
        peer: the broker.
        owner: notified when it is ready or closed.
        steps: the set-up.
        client_id: the client id in requests.
        software_version: the client's version in ApiVersions requests.
        metrics: the metrics to update.
        defer: runs a function soon on the network thread, outside of any `send`.
    """

    def __init__(
        self,
        peer: Peer,
        owner: ConnectionListener,
        *,
        steps: Sequence[Step],
        client_id: str,
        software_version: str,
        metrics: ConnectionMetrics,
        defer: Callable[[Callable[[], None]], None],
    ) -> None:
        self.peer = peer
        self._failures = ConnectionFailures(peer)
        self.state = State.NEW
        self.in_flight: deque[InFlight] = deque()
        self.unsent: list[InFlight] = []
        self.load = 0
        """Requests in flight."""
        self.last_used = 0.0
        self.deadline = NEVER
        """When `check` has something to do at the latest; after a response it may be earlier than necessary."""
        self._owner = owner
        self._steps = iter(steps)
        self._setup = Setup(peer.name, peer.host, software_version, peer.protocol)
        self._setup_timeout = 0.0
        self._reauthenticate_at = NEVER
        self._throttled_until = 0.0
        self._asked: Ask | BareMessage | None = None
        self._awaited: Await | None = None
        self._exchange: Exchange | None = None
        self._client_id = client_id
        self._metrics = metrics
        self._defer = defer
        self._channel: Channel | None = None
        self._next_id = 0
        self._has_answered = False
        self._header_v1: dict[tuple[int, int], bool] = {}

    @property
    def ranges(self) -> ApiRanges:
        """The versions that the broker accepts."""
        return self._setup.ranges

    def has_room(self, max_in_flight: int) -> bool:
        """Return whether a request may be written now."""
        return self.state is State.READY and self.load < max_in_flight and not self._throttled_until

    def open(
        self, connect: Callable[[Address, Connection], Channel], address: Address, timeout: float, now: float
    ) -> None:
        """Start connecting.

        Parameters:
            timeout: seconds that connecting and setting up may take.

        Raises:
            OSError: the system refused immediately; the connection is closed, and the owner is not notified.
        """
        self._setup_timeout = timeout
        self.deadline = now + timeout
        self.last_used = now
        self._change(Event.CONNECT)
        try:
            self._channel = connect(address, self)
        except OSError:
            self._change(Event.CLOSE)
            raise
        self._channel.frame_limit = SETUP_FRAME_LIMIT

    def send(self, request: Request, deadline: float, timeout: float, now: float) -> None:
        """Write a request; only when READY. Its callbacks are not called from here.

        Parameters:
            deadline: when the response must have arrived.
            timeout: the seconds that led to the deadline, for the error message.
        """
        if self.state is not State.READY or self._channel is None:
            raise IllegalStateError(f"the connection is {self.state.value}", broker=self.peer.name)
        try:
            request.version = self._setup.ranges.negotiate(
                request.request_type, request.minimum_version, request.maximum_version
            )
            message = request.build(request.version)
            correlation_id = self._next_id
            parts = encode_request(message, request.version, correlation_id, self._client_id)
        except KafkaError as error:
            failure = error_for_request(error, request, self.peer.name)
            self._defer(lambda: request.on_error(failure, now))
            return
        except Exception as bug:  # noqa: BLE001 - one request that cannot be made must not end those of all others
            _log.exception("the request %s to %s could not be built", api_name(request), self.peer.name)
            unmade = KafkaError(
                f"the request could not be built: {bug!r}", broker=self.peer.name, api=api_name(request)
            )
            unmade.__cause__ = bug
            self._defer(lambda: request.on_error(unmade, now))
            return
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        entry = InFlight(correlation_id, request, deadline, timeout, now)
        self.last_used = now
        metrics = self._metrics
        metrics.requests.total += 1
        metrics.bytes_out.total += sum(map(len, parts))
        if request.expects_response:
            self.in_flight.append(entry)
            self.load += 1
            self._channel.send(parts)
        elif self._channel.send(parts, True):
            self._defer(lambda: request.on_response(None, now))
            return
        else:
            self.unsent.append(entry)
            self.load += 1
        if deadline < self.deadline:
            self.deadline = deadline

    def check(self, now: float) -> None:
        """Close the connection if something took too long."""
        if self.state in BEING_MADE or self.state is State.REAUTHENTICATING:
            if now >= self.deadline:
                self.close(self.no_answer(f"within {self._setup_timeout:.3g} s"), now)
            return
        late = [entry for entry in (*self.in_flight, *self.unsent) if entry.deadline <= now]
        if late:
            self._fail(late, now)
            return
        was_throttled = bool(self._throttled_until) and now >= self._throttled_until
        if was_throttled:
            self._throttled_until = 0.0
        if self.renew_session(now):
            return
        if was_throttled:
            self._owner.connection_has_room(self, now)
        pending = min((entry.deadline for entry in (*self.in_flight, *self.unsent)), default=NEVER)
        self.deadline = min(pending, self._reauthenticate_at, self._throttled_until or NEVER)

    def close(
        self, error: KafkaError, now: float, culprits: dict[int, KafkaError] | None = None, *, tell_owner: bool = True
    ) -> None:
        """Close the connection; all requests in flight fail.

        Parameters:
            error: the reason, and the error of the requests in flight.
            culprits: by id of the request object, the requests with an error of their own.
            tell_owner: False if the owner closes it.
        """
        if self.state is State.CLOSED:
            return
        error.broker = error.broker or self.peer.name
        self._change(Event.CLOSE)
        self._awaited = None
        if self._channel is not None:
            self._channel.close()
        pending = [entry.request for entry in (*self.in_flight, *self.unsent)]
        self.in_flight.clear()
        self.unsent.clear()
        self.load = 0
        self.deadline = NEVER
        if tell_owner:
            self._owner.connection_closed(self, error, now)
        for request in pending:
            own = (culprits or {}).get(id(request), error)
            request.on_error(error_for_request(own, request, self.peer.name), now)

    # -- events

    def on_event(self, event: int, value: Any, now: float) -> None:
        """Handle an event of the channel."""
        if self.state is State.CLOSED:
            return
        if event == FRAME:
            if self.state in IN_USE:
                self._answer(value, now)
            else:
                self._setup_frame(value, now)
        elif event == SENT:
            sent, self.unsent = self.unsent, []
            self.load -= len(sent)
            self.renew_session(now)
            self._owner.connection_has_room(self, now)
            for entry in sent:
                entry.request.on_response(None, now)
        elif event == TLS_STARTED:
            self._change(Event.START_TLS)
        elif event == CONNECTED:
            self._change(Event.CONNECTED)
            self._next_step(now)
        elif event == CLOSED:
            self.close(self._why_closed(value), now)

    def _answer(self, frame: Any, now: float) -> None:
        metrics = self._metrics
        metrics.responses.total += 1
        metrics.bytes_in.total += len(frame) + 4
        self.last_used = now
        self._has_answered = True
        if not self.in_flight:
            self.close(ProtocolError("the broker sent a response without a request", broker=self.peer.name), now)
            return
        entry = self.in_flight[0]
        request = entry.request
        try:
            body = self._body(frame, request.request_type, request.version, entry.correlation_id)
            # Ignore bytes after a response, as the Java client does: librdkafka's mock broker sends one too many.
            response, _ = request.request_type.response_type.decode_prefix(body, request.version)
        except ProtocolError as error:
            lost = DisconnectedError(f"the connection was closed because of a malformed response: {error.message}")
            self.close(lost, now, {id(request): error})
            return
        self.in_flight.popleft()
        self.load -= 1
        if throttled := throttle_seconds(response, request.version):
            metrics.throttle.record(throttled * 1000.0)
            self._throttled_until = max(self._throttled_until, now + throttled)
            self.deadline = min(self.deadline, self._throttled_until)
        self.renew_session(now)
        self._owner.connection_has_room(self, now)
        metrics.latency.record((now - entry.sent_at) * 1000.0)
        request.on_response(response, now)

    def _body(self, frame: Any, request_type: Any, version: int, expected: int) -> memoryview:
        """Return the body of a response, whose correlation id must be the expected one."""
        found = peek_correlation_id(frame)
        if found != expected:
            raise ProtocolError(f"the response has the correlation id {found}, but {expected} is the next")
        key = (request_type.api_key, version)
        tagged = self._header_v1.get(key)
        if tagged is None:
            tagged = self._header_v1[key] = response_header_version(request_type, version) > 0
        if not tagged:
            return memoryview(frame)[4:]
        # Headers may have tagged fields; none exist so far.
        if len(frame) > 4 and frame[4] == 0:
            return memoryview(frame)[5:]
        return decode_response_header(request_type.api_key, version, frame)[1]

    # -- set-up

    def _next_step(self, now: float) -> None:
        step = next(self._steps, None)
        if step is None:
            self._set_up(now)
            return
        self._exchange = step(self._setup)
        self._advance(None, now)

    def _set_up(self, now: float) -> None:
        was_ready = self.state is State.REAUTHENTICATING
        self._change(Event.SET_UP)
        lifetime = self._setup.reauthenticate_after
        self._reauthenticate_at = NEVER if lifetime is None else now + lifetime
        self.deadline = min(self._reauthenticate_at, self._throttled_until or NEVER)
        if self._channel is not None:
            self._channel.frame_limit = FRAME_LIMIT
        if was_ready:
            _log.debug("authenticated again to %s", self.peer.name)
            self._owner.connection_has_room(self, now)
        else:
            self._owner.connection_ready(self, now)

    def renew_session(self, now: float) -> bool:
        """Begin to authenticate again if it is time, and the last outstanding response has arrived.

        A throttle time comes first: the broker reads nothing until then.

        Returns:
            Whether that began.
        """
        if self.state is State.READY and now >= self._reauthenticate_at:
            self._reauthenticate_at = NEVER
            self._change(Event.SESSION_ENDS)
        step = self._setup.reauthenticate
        if self.state is not State.DRAINING or self.load or self._throttled_until or step is None:
            return False
        self._change(Event.DRAINED)
        self.deadline = now + self._setup_timeout
        self._exchange = step(self._setup)
        self._advance(None, now)
        return True

    def _advance(self, received: Any, now: float) -> None:
        """Continue the step with what it has asked for, None at its beginning."""
        if self._exchange is None or self._channel is None:
            raise IllegalStateError("no set-up step is in progress", broker=self.peer.name)
        try:
            if isinstance(received, KafkaError):
                ask = self._exchange.throw(received)
            else:
                ask = self._exchange.send(received)
        except StopIteration:
            self._exchange = None
            self._next_step(now)
            return
        except ProtocolError as error:
            self.close(self._failures.malformed(error), now)
            return
        except KafkaError as error:
            self.close(error, now)
            return
        if isinstance(ask, Await):
            self._await(ask)
            return
        if isinstance(ask, BareMessage):
            self._asked = ask if ask.is_answered else None
            self._channel.send([_SIZE.pack(len(ask.data)), ask.data])
            if not ask.is_answered:
                self._advance(None, now)
            return
        self._asked = ask
        self._channel.send(encode_request(ask.message, ask.version, self._next_id, self._client_id))

    def _await(self, awaited: Await) -> None:
        def resume(result: Any, now: float) -> None:
            # The connection may have been closed in the meantime.
            if self._awaited is awaited:
                self._awaited = None
                self._advance(result, now)

        self._awaited = awaited
        awaited.start(resume)

    def _setup_frame(self, frame: Any, now: float) -> None:
        ask = self._asked
        if ask is None:
            self.close(self._failures.not_kafka("bytes before any request"), now)
            return
        if isinstance(ask, BareMessage):
            self._asked = None
            self._advance(frame, now)
            return
        expected = self._next_id
        self._next_id = 0 if expected == _LAST_CORRELATION_ID else expected + 1
        self._asked = None
        try:
            body = self._body(frame, type(ask.message), ask.version, expected)
        except ProtocolError as error:
            self.close(self._failures.malformed(error), now)
            return
        self._advance(body, now)

    # -- errors

    def _fail(self, late: list[InFlight], now: float) -> None:
        """Close the connection because requests got no response in time."""
        culprits: dict[int, KafkaError] = {
            id(entry.request): KafkaTimeoutError(f"the broker did not respond within {entry.timeout:g} s")
            for entry in late
        }
        first = f"{api_name(late[0].request)} within {late[0].timeout:g} s"
        lost = DisconnectedError(f"the connection was closed because the broker did not respond to {first}")
        self.close(lost, now, culprits)

    def no_answer(self, seconds: str) -> BrokerConnectionError:
        """Return the error of an attempt in which the peer has accepted the connection, and nothing more.

        Parameters:
            seconds: how long, as in "for 3 s".
        """
        awaited = None if self._awaited is None else self._awaited.what
        return self._failures.no_answer(self.state, seconds, awaited)

    def _why_closed(self, reason: Exception) -> KafkaError:
        if isinstance(reason, KafkaError):
            return reason
        if self.state in BEING_MADE:
            return self._failures.closed_in_setup(reason, self._asked)
        unanswered = api_name(self.in_flight[0].request) if self.in_flight and not self._has_answered else None
        return self._failures.closed(reason, unanswered)

    def _change(self, event: Event) -> None:
        self.state = STATES.next_state(self.state, event, f"to {self.peer.name}")
