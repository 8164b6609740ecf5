"""The lookup of the coordinator of a group or transactional id.

One manager per key. It sends FindCoordinator to any broker when the coordinator is needed, and again when the
coordinator has moved or is unreachable. A new coordinator may still refuse requests and be named again, so the next
lookup waits for a backoff that grows until a request succeeds (`confirm`). Elsewhere: the requests to the coordinator.
"""

from __future__ import annotations

import logging
from random import Random

from kclient.config import ClientConfig
from kclient.errors import KafkaError, ProtocolError, error_from_code
from kclient.net.backoff import retry_backoff
from kclient.net.manager import ANY_NODE, IDLE, NEVER, Manager, Nodes, Poll, Request
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.types import Node

_log = logging.getLogger(__name__)

GROUP = 0
TRANSACTION = 1

_BATCHED_FROM = 4
_KEY_TYPE_FROM = 1


class Coordinator(Manager):
    """The manager of FindCoordinator requests for one key.

    Parameters:
        key: the group's or the transactional id.
        key_type: GROUP or TRANSACTION.
        nodes: the connections.
        config: the client's options.
        random: for jitter.

    Attributes:
        node: the node id for requests to the coordinator, on a connection of its own; None while it is unknown.
        broker: the coordinator's broker id, for requests that must not wait behind others on that connection.
        fatal_error: an error that a retry cannot solve, such as GroupAuthorizationError; `want` clears it.
    """

    def __init__(self, key: str, key_type: int, nodes: Nodes, config: ClientConfig, *, random: Random) -> None:
        self.key = key
        self.key_type = key_type
        self.node: int | None = None
        self.broker: int | None = None
        self._last_error: KafkaError | None = None
        self.fatal_error: KafkaError | None = None
        self._nodes = nodes
        self._backoff = retry_backoff(config, random)
        self._wanted = False
        self._asking = False
        self._failures = 0
        self._next_attempt = 0.0

    # -- any thread

    @property
    def last_error(self) -> KafkaError | None:
        """Why the coordinator is unknown. While no broker is reachable, this is the connection error."""
        unreachable = self._nodes.last_error() if self.node is None else None
        return unreachable or self._last_error

    # -- network thread

    def want(self) -> None:
        """Request a lookup if the coordinator is unknown, even after a fatal error."""
        self._wanted = True
        self.fatal_error = None

    def ready(self, now: float) -> bool:
        """Return whether a request to `node` would be sent now; connect if necessary."""
        self._wanted = True
        return self.node is not None and self._nodes.ready(self.node, now)

    def confirm(self) -> None:
        """Note that the coordinator executed a request, so that the next lookup starts without a long backoff."""
        self._failures = 0

    def forget(self, node: int, error: KafkaError, now: float) -> None:
        """Look the coordinator up again, because this node is not the coordinator or cannot be reached."""
        if node != self.node:
            return
        _log.info("broker %s no longer coordinates %s: %s", self.key, self.broker, error)
        self.node = self.broker = None
        self._wanted = True
        self._failed(error, now)

    def broker_of(self, node: int) -> int | None:
        """Return the broker id of a node id; None if that is no longer the coordinator."""
        return self.broker if node in (self.node, self.broker) else None

    def poll(self, now: float) -> Poll:
        """Return a lookup request when one is due, and watch the connection."""
        if self.node is not None and self._wanted and not self._nodes.ready(self.node, now):
            error = self._nodes.connection_error(self.node)
            # During an attempt the error is that of the previous one.
            if error is not None and self._nodes.retry_at(self.node) > now:
                self.forget(self.node, error, now)
        if self.node is not None or not self._wanted or self._asking or self.fatal_error is not None:
            return IDLE
        if now < self._next_attempt:
            return Poll([], self._next_attempt)
        self._asking = True
        request = Request(
            ANY_NODE,
            FindCoordinatorRequest,
            self._build,
            self._answered,
            self._not_answered,
            minimum_version=_KEY_TYPE_FROM if self.key_type else None,
        )
        return Poll([request], NEVER)

    def _build(self, version: int) -> FindCoordinatorRequest:
        if version >= _BATCHED_FROM:
            return FindCoordinatorRequest(key_type=self.key_type, coordinator_keys=[self.key])
        return FindCoordinatorRequest(key=self.key, key_type=self.key_type)

    def _answered(self, response: FindCoordinatorResponse, now: float) -> None:
        self._asking = False
        answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator = response
        if response.coordinators:
            found = [one for one in response.coordinators if one.key == self.key]
            if not found:
                error = ProtocolError(f"the broker named no coordinator of {self.key!r}", api="FindCoordinator")
                self._failed(error, now)
                return
            answer = found[0]
        if answer.error_code:
            self._failed(error_from_code(answer.error_code, answer.error_message, api="FindCoordinator"), now)
            return
        self.broker = answer.node_id
        self.node = self._nodes.dedicate(Node(answer.node_id, answer.host, answer.port))
        _log.info("%s is coordinated by broker %d at %s:%d", self.key, answer.node_id, answer.host, answer.port)

    def _not_answered(self, error: KafkaError, now: float) -> None:
        self._asking = False
        self._failed(error, now)

    def _failed(self, error: KafkaError, now: float) -> None:
        self._last_error = error
        if not error.retriable:
            self.fatal_error = error
        self._failures += 1
        self._next_attempt = now + self._backoff.seconds(self._failures)
        _log.debug("the coordinator of %s is unknown: %s", self.key, error)
