"""The link to one broker: name lookup, connecting, backoff and reconnecting.

A link outlives its connections. It tries every address of the broker's name in turn, waits longer after each failure,
and keeps requests until a connection is set up or the attempt failed. Elsewhere: what happens on a connection
(`connection`), and which broker to use (`nodes`).
"""

from __future__ import annotations

import enum
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient._text import address
from kclient._version import __version__
from kclient.config import ClientConfig
from kclient.errors import BrokerConnectionError, DisconnectedError, KafkaError, KafkaTimeoutError
from kclient.metrics import Metrics
from kclient.net.backoff import Backoff
from kclient.net.connection import Connection, ConnectionMetrics
from kclient.net.connection_failures import Peer
from kclient.net.connection_states import State
from kclient.net.events import Handler
from kclient.net.failures import api_name, error_for_request
from kclient.net.handshake import Step
from kclient.net.manager import NEVER, Request
from kclient.net.transport import Address, Channel, Transport
from kclient.state_machine import StateTable
from kclient.types import Node

if TYPE_CHECKING:
    from kclient.net.tls import TlsConnector

_log = logging.getLogger(__name__)


class LinkState(enum.Enum):
    """The states of a link."""

    IDLE = "idle"
    RESOLVING = "looking up the name"
    CONNECTING = "connecting"
    READY = "ready"
    BACKOFF = "waiting before the next attempt"


class LinkEvent(enum.Enum):
    """The events that change the state of a link."""

    RESOLVE = "resolve"
    TRY_ADDRESS = "try an address"
    CONNECTED = "connected"
    FAIL = "fail"
    DISCONNECT = "disconnect"


_ENDS = {LinkEvent.FAIL: LinkState.BACKOFF, LinkEvent.DISCONNECT: LinkState.IDLE}

STATES = StateTable(
    "link",
    {
        LinkState.IDLE: {LinkEvent.RESOLVE: LinkState.RESOLVING},
        LinkState.RESOLVING: {LinkEvent.TRY_ADDRESS: LinkState.CONNECTING} | _ENDS,
        LinkState.CONNECTING: {
            LinkEvent.TRY_ADDRESS: LinkState.CONNECTING,
            LinkEvent.CONNECTED: LinkState.READY,
        }
        | _ENDS,
        LinkState.READY: _ENDS,
        LinkState.BACKOFF: {LinkEvent.RESOLVE: LinkState.RESOLVING, LinkEvent.DISCONNECT: LinkState.IDLE},
    },
)


class PendingRequest(NamedTuple):
    """A request that was not written yet, and its deadline for that."""

    request: Request
    deadline: float
    timeout: float


class LinkSettings:
    """The settings that all links of a client share; parameters as for `ClusterNodes`."""

    def __init__(
        self,
        config: ClientConfig,
        transport: Transport,
        metrics: Metrics,
        random: random.Random,
        defer: Callable[[Callable[[], None]], None],
        steps: Sequence[Step],
        max_in_flight: int,
        tls: TlsConnector | None = None,
    ) -> None:
        self.transport = transport
        self._tls = tls
        self.protocol = config.protocol
        self.metrics = metrics
        self.defer = defer
        self.steps = steps
        self.max_in_flight = max_in_flight
        self.client_id = config.client_id
        self.label = config.label
        self.max_idle = config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else NEVER
        self.canonical_bootstrap = config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
        self.reconnect = Backoff(
            config.reconnect_backoff_ms / 1000,
            max(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms) / 1000,
            random=random,
        )
        self.setup_timeout = Backoff(
            config.socket_connection_setup_timeout_ms / 1000,
            max(config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms) / 1000,
            random=random,
        )

    def connect(self, host: str) -> Callable[[Address, Handler], Channel]:
        """Return what connects to an address of a host."""
        return self.transport.connect if self._tls is None else self._tls.connect(host, self.transport)


class _Lookup:
    """The handler of one name lookup; it is dropped when the link is closed or moved."""

    def __init__(self, link: Link) -> None:
        self.link: Link | None = link

    def on_event(self, event: int, value: Any, now: float) -> None:
        if self.link is not None:
            self.link.resolved(value, now)


class Link:
    """The link to one broker.

    Parameters:
        node: its id and address.
        settings: what all links share.
        on_ready: called when a connection is set up.
        on_failure: called with the error of a failed attempt or, with True, of a lost connection.
        is_bootstrap: whether it is one of `bootstrap_servers`, whose ids are made up by the client.
        purpose: its purpose, if the broker has another link for everything else.

    Attributes:
        error: why the last attempt to connect failed, or the connection was lost; None while connected.
        is_unreachable: whether the last attempt to connect failed; a lost connection does not count.
    """

    def __init__(
        self,
        node: Node,
        settings: LinkSettings,
        on_ready: Callable[[Link], None],
        on_failure: Callable[[KafkaError, bool], None],
        *,
        is_bootstrap: bool = False,
        purpose: str = "",
    ) -> None:
        self.node = node
        self.state = LinkState.IDLE
        self.connection: Connection | None = None
        self.waiting: deque[PendingRequest] = deque()
        self.failures = 0
        self.retry_at = 0.0
        self.trying_since = 0.0
        self.error: KafkaError | None = None
        self.is_unreachable = False
        self._settings = settings
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._is_bootstrap = is_bootstrap
        self._purpose = purpose
        self._addresses: deque[Address] = deque()
        self._lookup: _Lookup | None = None
        self._lookup_deadline = NEVER
        self._waiting_deadline = NEVER
        # Since when there has been no connection, and the highest log level used for that.
        self._down_since = 0.0
        self._reported = logging.NOTSET

    @property
    def name(self) -> str:
        """The broker's name in errors."""
        where = address(self.node.host, self.node.port)
        if self._is_bootstrap:
            return f"{where} (bootstrap)"
        return f"{self.node.node_id} ({where}{', ' if self._purpose else ''}{self._purpose})"

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and set up."""
        return self.state is LinkState.READY

    @property
    def is_trying(self) -> bool:
        """Whether a connection attempt is in progress, since `trying_since`."""
        return self.state in (LinkState.RESOLVING, LinkState.CONNECTING)

    @property
    def load(self) -> int:
        """Requests written and not answered yet."""
        return 0 if self.connection is None else self.connection.load

    @property
    def has_room(self) -> bool:
        """Whether a request would be written immediately, provided that the link is ready."""
        connection = self.connection
        return not self.waiting and (connection is None or connection.has_room(self._settings.max_in_flight))

    def send(self, waiting: PendingRequest, now: float) -> None:
        """Write a request, or keep it until that is possible."""
        if self.state is LinkState.READY and self.connection is not None:
            self.connection.renew_session(now)
        if self.state is LinkState.READY and self.has_room and self.connection is not None:
            self.connection.send(*waiting, now)
            return
        self.waiting.append(waiting)
        self._waiting_deadline = min(self._waiting_deadline, waiting.deadline)
        self.connect_if_due(now)

    def slow_error(self, now: float) -> KafkaError:
        """Return the error to report for an attempt that takes long and has not failed yet."""
        seconds = f"for {now - self.trying_since:.3g} s"
        if self.state is LinkState.RESOLVING:
            return self._unreachable(f"its name is being looked up {seconds}")
        if self.connection is not None and self.connection.state in (State.TLS_HANDSHAKE, State.SETTING_UP):
            return self.connection.no_answer(seconds)
        return self._unreachable(f"no connection {seconds}")

    def may_connect(self, now: float) -> bool:
        """Return whether `connect_if_due` would connect."""
        return self.state is LinkState.IDLE or (self.state is LinkState.BACKOFF and now >= self.retry_at)

    def connect_if_due(self, now: float) -> None:
        """Connect, unless an attempt is in progress or the backoff has not passed."""
        if not self.may_connect(now):
            return
        self._change(LinkEvent.RESOLVE)
        self.trying_since = now
        settings = self._settings
        self._lookup = _Lookup(self)
        self._lookup_deadline = now + settings.setup_timeout.seconds(self.failures + 1)
        canonical = settings.canonical_bootstrap and self._is_bootstrap
        settings.transport.resolve(self.node.host, self.node.port, self._lookup, canonical=canonical)

    def move(self, node: Node, now: float) -> None:
        """Use another address from now on."""
        label = self._settings.label
        _log.info("%s: broker %d moved from %s to %s:%d", label, node.node_id, self.name, node.host, node.port)
        kept = self.waiting
        self.waiting = deque()
        self._disconnect(DisconnectedError("the broker moved to another address", broker=self.name), now)
        self.node = node
        self.failures = 0
        self.error = None
        self.is_unreachable = False
        # Unwritten requests go to the new address, unless the callbacks above sent others before them.
        self.waiting.extendleft(reversed(kept))
        if self.waiting:
            self.connect_if_due(now)

    def deadline(self) -> float:
        """Return when `check` has something to do at the latest."""
        if self.state is LinkState.READY and not self.waiting and self.connection is not None:
            idle_at: float = self.connection.last_used + self._settings.max_idle
            return min(idle_at, self.connection.deadline)
        deadline = self._waiting_deadline if self.waiting else NEVER
        connection = self.connection
        if connection is not None:
            deadline = min(deadline, connection.deadline)
            if self.state is LinkState.READY:
                deadline = min(deadline, connection.last_used + self._settings.max_idle)
        elif self.state is LinkState.RESOLVING:
            deadline = min(deadline, self._lookup_deadline)
        elif self.state is LinkState.BACKOFF and self.waiting:
            deadline = min(deadline, self.retry_at)
        return deadline

    def check(self, now: float) -> None:
        """Time out, reconnect and disconnect what is due."""
        if self.waiting and now >= self._waiting_deadline:
            self._time_out_waiting(now)
        connection = self.connection
        if connection is not None:
            if now >= connection.deadline:
                connection.check(now)
            if self.state is LinkState.READY and now >= connection.last_used + self._settings.max_idle:
                if connection.load:
                    connection.last_used = now
                else:
                    _log.debug("%s: closing the connection to %s, which was idle", self._settings.label, self.name)
                    self._disconnect(DisconnectedError("the connection was idle", broker=self.name), now)
        elif self.state is LinkState.RESOLVING and now >= self._lookup_deadline:
            self.resolved(OSError("its name was not resolved in time"), now)
        elif self.waiting:
            self.connect_if_due(now)

    def close(self, error: KafkaError, now: float) -> None:
        """Disconnect; all requests fail."""
        self._disconnect(error, now)
        self._fail_waiting(error, now)

    # -- what happens

    def resolved(self, found: list[Address] | OSError, now: float) -> None:
        """Handle the result of the name lookup."""
        if self._lookup is not None:
            self._lookup.link = None
            self._lookup = None
        if isinstance(found, OSError) or not found:
            reason = "its name has no address" if not isinstance(found, OSError) else found.strerror or found
            advice = "check the name, and the network's name service"
            self._attempt_failed(self._unreachable(reason, advice=advice), now)
            return
        self._addresses = deque(found)
        self._connect_next(None, now)

    def connection_ready(self, connection: Connection, now: float) -> None:
        """Handle a connection that is set up; see ConnectionListener."""
        self._change(LinkEvent.CONNECTED)
        self.failures = 0
        self.error = None
        self.is_unreachable = False
        self._addresses.clear()
        if self._reported:
            label, down = self._settings.label, now - self._down_since
            _log.log(self._reported, "%s: connected to %s again, after %.3g s", label, self.name, down)
            self._reported = logging.NOTSET
        else:
            _log.debug("%s: connected to %s", self._settings.label, self.name)
        self._on_ready(self)
        self._write_waiting(now)

    def connection_closed(self, connection: Connection, error: KafkaError, now: float) -> None:
        """Handle a closed connection; see ConnectionListener."""
        self.connection = None
        self._settings.metrics.counter("connection_close_total").add()
        if self.state is LinkState.CONNECTING:
            self._connect_next(error, now)
        else:
            self._attempt_failed(error, now)

    def connection_has_room(self, connection: Connection, now: float) -> None:
        """Write the next request; see ConnectionListener."""
        if self.waiting and self.state is LinkState.READY:
            self._write_waiting(now)

    def _write_waiting(self, now: float) -> None:
        connection = self.connection
        while self.waiting and connection is not None and connection.has_room(self._settings.max_in_flight):
            connection.send(*self.waiting.popleft(), now)

    def _connect_next(self, error: KafkaError | None, now: float) -> None:
        """Try the next address; `error` is the error of the last one."""
        settings = self._settings
        while self._addresses:
            address = self._addresses.popleft()
            self._change(LinkEvent.TRY_ADDRESS)
            connection = self._new_connection()
            timeout = settings.setup_timeout.seconds(self.failures + 1)
            try:
                connection.open(settings.connect(self.node.host), address, timeout, now)
            except OSError as reason:
                error = self._unreachable(reason.strerror or reason)
                continue
            self.connection = connection
            return
        self._attempt_failed(error or self._unreachable("its name has no address"), now)

    def _new_connection(self) -> Connection:
        settings, metrics = self._settings, self._settings.metrics
        metrics.counter("connection_creation_total").add()
        label = {"node": f"{self._purpose}-{self.node.node_id}" if self._purpose else self.node.node_id}
        return Connection(
            Peer(self.name, self.node.host, self.node.port, settings.protocol),
            self,
            steps=settings.steps,
            client_id=settings.client_id,
            software_version=__version__,
            metrics=ConnectionMetrics(
                metrics.counter("request_total", **label),
                metrics.counter("response_total", **label),
                metrics.counter("outgoing_byte_total", **label),
                metrics.counter("incoming_byte_total", **label),
                metrics.histogram("request_latency", **label),
                metrics.histogram("throttle_time", **label),
            ),
            defer=settings.defer,
        )

    def _attempt_failed(self, error: KafkaError, now: float) -> None:
        first = self.error is None or self.error.message != error.message
        lost = self.state is LinkState.READY
        self._change(LinkEvent.FAIL)
        self.failures += 1
        self.retry_at = now + self._settings.reconnect.seconds(self.failures)
        self.error = error
        self.is_unreachable |= not lost
        if lost:
            level = logging.INFO if self.waiting else logging.DEBUG
        else:
            level = logging.WARNING if first else logging.DEBUG
        _log.log(level, "%s: %s", self._settings.label, error)
        if not self._reported:
            self._down_since = now
        self._reported = max(self._reported, level)
        self._on_failure(error, lost)
        self._fail_waiting(error, now)

    def _disconnect(self, error: KafkaError, now: float) -> None:
        """Return to IDLE without backoff."""
        if self._lookup is not None:
            self._lookup.link = None
            self._lookup = None
        connection, self.connection = self.connection, None
        self._addresses.clear()
        if self.state is not LinkState.IDLE:
            self._change(LinkEvent.DISCONNECT)
        if connection is not None:
            connection.close(error, now, tell_owner=False)
            self._settings.metrics.counter("connection_close_total").add()

    def _fail_waiting(self, error: KafkaError, now: float) -> None:
        waiting, self.waiting = self.waiting, deque()
        self._waiting_deadline = NEVER
        for entry in waiting:
            entry.request.on_error(error_for_request(error, entry.request, self.name), now)

    def _time_out_waiting(self, now: float) -> None:
        late = [entry for entry in self.waiting if entry.deadline <= now]
        self.waiting = deque(entry for entry in self.waiting if entry.deadline > now)
        self._waiting_deadline = min((entry.deadline for entry in self.waiting), default=NEVER)
        for entry in late:
            cause = f"; the last error: {self.error.message}" if self.error is not None else ""
            text = f"the request could not be written within {entry.timeout:g} s{cause}"
            entry.request.on_error(KafkaTimeoutError(text, broker=self.name, api=api_name(entry.request)), now)

    def _unreachable(self, reason: object, **advice: Any) -> BrokerConnectionError:
        return BrokerConnectionError(self.node.host, self.node.port, reason, broker=self.name, **advice)

    def _change(self, event: LinkEvent) -> None:
        self.state = STATES.next_state(self.state, event, f"to {self.name}")
