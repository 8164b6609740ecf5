"""All brokers of one client: known, connected, and chosen for requests that any broker can answer.

Connections are made on demand. Bootstrap servers have ids below ANY_NODE; they are disconnected once metadata names the
brokers and one of these is connected, because a client without any connection would not notice that the cluster is
gone. Elsewhere: one broker's connection attempts (`link`), and metadata requests (`metadata`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kclient._text import address
from kclient.config import ClientConfig
from kclient.errors import DisconnectedError, KafkaError, KafkaTimeoutError
from kclient.metrics import Metrics
from kclient.net.connectivity import ConnectivityMonitor
from kclient.net.failures import api_name, error_for_request, unknown_broker
from kclient.net.handshake import ApiRanges, Step, find_versions
from kclient.net.link import Link, LinkSettings, LinkState, PendingRequest
from kclient.net.manager import ANY_NODE, NEVER, Nodes, Request
from kclient.net.transport import Transport
from kclient.protocol import Message
from kclient.types import Node

if TYPE_CHECKING:
    from kclient.net.tls import TlsConnector

FIRST_BOOTSTRAP_ID = ANY_NODE - 1
DEDICATED_ID = 2**31 - 1
"""A broker's second connection has this id minus the broker's, as in Java's logs and metrics."""

_PATIENCE = 1.0
"""Seconds of connecting to one broker after which a request that any broker can answer tries a second one."""


class ClusterNodes(Nodes):
    """The brokers of one client; everything here happens on its network thread.

    Parameters:
        config: the client's options.
        servers: the bootstrap servers.
        transport: the network.
        metrics: counts the connections.
        connectivity: notified of connections, and when every server failed.
        clock: seconds.
        random: for jitter, and to choose between equal brokers.
        defer: runs a function soon on the network thread, outside of any `send`.
        tls: makes the connections with TLS.
        steps: the set-up of a connection; by default without SASL.
    """

    def __init__(
        self,
        config: ClientConfig,
        servers: Sequence[tuple[str, int]],
        transport: Transport,
        *,
        metrics: Metrics,
        connectivity: ConnectivityMonitor,
        clock: Callable[[], float],
        random: random.Random,
        defer: Callable[[Callable[[], None]], None],
        steps: Sequence[Step] = (find_versions,),
        tls: TlsConnector | None = None,
    ) -> None:
        self.max_in_flight: int = getattr(config, "max_in_flight_requests_per_connection", 100)
        self._connectivity = connectivity
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._clock = clock
        self._random = random
        self._defer = defer
        self._request_timeout = config.request_timeout_ms / 1000
        self._settings = LinkSettings(config, transport, metrics, random, defer, steps, self.max_in_flight, tls)
        self._bootstrap = [Node(FIRST_BOOTSTRAP_ID - index, host, port) for index, (host, port) in enumerate(servers)]
        self._links: dict[int, Link] = {}
        self._retired: list[Link] = []
        self._dedicated: set[int] = set()
        self._candidates: tuple[int, ...] = ()
        self._on_bootstrap = False
        self._unassigned: deque[PendingRequest] = deque()
        self._last_error: KafkaError | None = None
        self._newest = ApiRanges("no broker")
        self.on_unreachable: Callable[[], None] = lambda: None
        """Called when a requested connection could not be made, because partitions may have moved; and when the last
        connection was lost, so that an idle client learns whether any broker is reachable.
        """
        self._closed_with: KafkaError | None = None
        self._next_check = 0.0
        self.use_bootstrap()
        metrics.gauge("connection_count", lambda: sum(link.is_ready for link in self._all_links()))

    # -- what managers ask (see Nodes)

    def ready(self, node: int, now: float) -> bool:
        """See Nodes."""
        link = self._links.get(node)
        if link is None:
            return False
        if link.state is LinkState.READY:
            return link.has_room
        link.connect_if_due(now)
        return False

    def retry_at(self, node: int) -> float:
        """See Nodes."""
        link = self._links.get(node)
        return link.retry_at if link is not None and link.state is LinkState.BACKOFF else 0.0

    def in_flight(self, node: int) -> int:
        """See Nodes."""
        link = self._links.get(node)
        return 0 if link is None else link.load

    def connection_error(self, node: int, since: float | None = None) -> KafkaError | None:
        """See Nodes."""
        link = self._links.get(node)
        if link is None:
            return unknown_broker(node)
        if since is not None and (link.is_trying or link.trying_since < since):
            return None
        return None if link.state is LinkState.READY else link.error

    def api_version(self, node: int, request_type: type[Message]) -> int | None:
        """See Nodes."""
        link = self._links.get(node)
        if link is None or link.connection is None or link.state is not LinkState.READY:
            return None
        return link.connection.ranges.version(request_type)

    def feature_level(self, feature: str) -> int:
        """Return the finalized level of a feature, by the newest epoch that any broker has reported; 0 without one."""
        for link in self._all_links():
            if link.connection is not None and link.connection.ranges.features_epoch > self._newest.features_epoch:
                self._newest = link.connection.ranges
        return self._newest.features.get(feature, 0)

    def last_error(self) -> KafkaError | None:
        """See Nodes."""
        links = list(self._links.values())
        if any(link.is_ready for link in links):
            return None
        slow_since = self._clock() - _PATIENCE
        slow = [link for link in links if link.is_trying and link.trying_since <= slow_since]
        return self._last_error or (slow[0].slow_error(self._clock()) if slow else None)

    def dedicate(self, node: Node) -> int:
        """See Nodes."""
        now = self._clock()
        own_id = DEDICATED_ID - node.node_id
        link = self._links.get(own_id)
        if link is None:
            self._dedicated.add(own_id)
            self._links[own_id] = self._make_link(node, purpose="coordinator")
        elif (link.node.host, link.node.port) != (node.host, node.port):
            link.move(node, now)
        return own_id

    # -- what the metadata manager says

    def set_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Replace the brokers and their addresses; disconnect the others once they have no requests in flight."""
        now = self._clock()
        for node_id in [
            node_id for node_id in self._links if node_id not in brokers and node_id not in self._dedicated
        ]:
            self._retired.append(self._links.pop(node_id))
        for node_id, node in brokers.items():
            link = self._links.get(node_id)
            if link is None:
                self._links[node_id] = self._make_link(node)
            elif (link.node.host, link.node.port) != (node.host, node.port):
                link.move(node, now)
            else:
                link.node = node
        self._candidates = tuple(brokers)
        self._on_bootstrap = False
        self._last_error = None

    def use_bootstrap(self) -> None:
        """Send requests for any node to the bootstrap servers until `set_brokers`."""
        for node in self._bootstrap:
            if node.node_id not in self._links:
                self._links[node.node_id] = self._make_link(node, is_bootstrap=True)
        self._candidates = tuple(node.node_id for node in self._bootstrap)
        self._on_bootstrap = True

    def all_unreachable(self) -> bool:
        """Return whether every known broker failed when last connected to; False while the bootstrap servers are
        used.
        """
        if self._on_bootstrap:
            return False
        links = self._candidate_links()
        return all(link.is_unreachable and not link.is_trying for link in links)

    def connection_errors(self) -> dict[str, KafkaError]:
        """Return the errors of the servers that are not connected, by "host:port". Any thread."""
        links = list(self._links.values())
        errors = {_server(link): link.error for link in links if link.error is not None}
        ready = {_server(link) for link in (*links, *self._retired) if link.is_ready}
        return {server: error for server, error in errors.items() if server not in ready}

    # -- what the driver does

    def send(self, request: Request, now: float) -> None:
        """Send a request, or queue it until its broker is connected. Its callbacks are not called from here."""
        if self._closed_with is not None:
            self._refuse(request, self._closed_with, now)
            return
        timeout = self._request_timeout if request.timeout is None else request.timeout
        waiting = PendingRequest(request, now + timeout, timeout)
        if request.node == ANY_NODE:
            self._unassigned.append(waiting)
            self._assign(now)
            return
        link = self._links.get(request.node)
        if link is None:
            self._refuse(request, unknown_broker(request.node), now)
            return
        link.send(waiting, now)

    def check(self, now: float) -> None:
        """Time out requests, reconnect and close idle connections."""
        if now >= self._next_check:
            for link in list(self._links.values()):
                if link.deadline() <= now:
                    link.check(now)
        if self._retired:
            self._close_retired(now)
        if self._unassigned:
            for waiting in [waiting for waiting in self._unassigned if waiting.deadline <= now]:
                self._unassigned.remove(waiting)
                waiting.request.on_error(self._nobody_answered(waiting), now)
            self._assign(now)

    def deadline(self) -> float:
        """Return when `check` has something to do at the latest."""
        deadline = NEVER
        for link in self._links.values():
            wanted = link.deadline()
            if wanted < deadline:
                deadline = wanted
        self._next_check = deadline
        for link in self._retired:
            deadline = min(deadline, link.deadline())
        if self._unassigned:
            deadline = min(deadline, min(waiting.deadline for waiting in self._unassigned))
            now = self._clock()
            for link in self._candidate_links():
                # A deadline in the past was handled already.
                look = link.retry_at if link.state is LinkState.BACKOFF else link.trying_since + _PATIENCE
                if now < look < deadline:
                    deadline = look
        return deadline

    def close(self, error: KafkaError, now: float) -> None:
        """Close every connection; current and later requests fail with the error."""
        self._closed_with = error
        for link in list(self._all_links()):
            link.close(error, now)
        while self._unassigned:
            request = self._unassigned.popleft().request
            request.on_error(error_for_request(error, request), now)

    # -- requests that any broker can answer

    def _assign(self, now: float) -> None:
        """Give the waiting requests to the least loaded broker, or connect to one."""
        while self._unassigned:
            link = self._least_loaded()
            if link is None:
                break
            link.send(self._unassigned.popleft(), now)
        links = self._candidate_links()
        if not self._unassigned or any(link.is_trying and now < link.trying_since + _PATIENCE for link in links):
            return
        due = [link for link in links if link.may_connect(now)]
        if due:
            # Those with the fewest failures come first, so that one bad address does not hide the others.
            fewest = min(link.failures for link in due)
            self._random.choice([link for link in due if link.failures == fewest]).connect_if_due(now)
            return
        hopeless = [link.error for link in links if link.error is not None and link.error.fatal]
        if links and len(hopeless) == len(links) and not any(link.is_trying for link in links):
            for waiting in self._unassigned:
                self._refuse(waiting.request, hopeless[0], now)
            self._unassigned.clear()

    def _least_loaded(self) -> Link | None:
        ready = [link for link in self._candidate_links() if link.is_ready and link.has_room]
        if not ready:
            return None
        least = min(link.load for link in ready)
        if least and not self._on_bootstrap:
            # A response awaited there may be that of a long poll, and a dedicated connection may be idle.
            ready += [link for link in map(self._links.__getitem__, self._dedicated) if link.is_ready and not link.load]
            least = min(link.load for link in ready)
        return self._random.choice([link for link in ready if link.load == least])

    def _candidate_links(self) -> list[Link]:
        return [self._links[node_id] for node_id in self._candidates]

    def _nobody_answered(self, waiting: PendingRequest) -> KafkaTimeoutError:
        error = self.last_error()
        cause = f"; the last error: {error}" if error is not None else ""
        text = f"no broker could be asked within {waiting.timeout:g} s{cause}"
        return KafkaTimeoutError(text, api=api_name(waiting.request))

    # -- the rest

    def _make_link(self, node: Node, *, is_bootstrap: bool = False, purpose: str = "") -> Link:
        return Link(node, self._settings, self._connected, self._failed, is_bootstrap=is_bootstrap, purpose=purpose)

    def _connected(self, link: Link) -> None:
        self._connectivity.connected(link.name, self.connection_errors)

    def _failed(self, error: KafkaError, was_ready: bool) -> None:
        self._last_error = error
        none_is_ready = not any(link.is_ready for link in self._all_links())
        if not was_ready or none_is_ready:
            self.on_unreachable()
        if none_is_ready and self._all_attempts_failed():
            self._connectivity.all_failed(self.connection_errors)

    def _all_attempts_failed(self) -> bool:
        """Return whether no server is left to try and no attempt is in progress."""
        if self._rebootstraps and not self._on_bootstrap:
            return False
        first_attempts = (link for link in self._links.values() if link.is_trying and not link.is_unreachable)
        return all(link.is_unreachable for link in self._candidate_links()) and not any(first_attempts)

    def _refuse(self, request: Request, error: KafkaError, now: float) -> None:
        refusal = error_for_request(error, request)
        self._defer(lambda: request.on_error(refusal, now))

    def _close_retired(self, now: float) -> None:
        kept = []
        for link in self._retired:
            if link.deadline() <= now:
                link.check(now)
            if link.load or link.waiting or self._is_only_connection(link):
                kept.append(link)
            else:
                link.close(DisconnectedError("the broker is no longer part of the cluster"), now)
        self._retired = kept

    def _is_only_connection(self, link: Link) -> bool:
        """Return whether a bootstrap server is connected, and no broker."""
        is_bootstrap = link.node.node_id <= FIRST_BOOTSTRAP_ID
        return is_bootstrap and link.is_ready and not any(other.is_ready for other in self._links.values())

    def _all_links(self) -> Iterable[Link]:
        return (*self._links.values(), *self._retired)


def _server(link: Link) -> str:
    return address(link.node.host, link.node.port)
