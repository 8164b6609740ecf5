"""The interface between managers, which decide, and the driver, which acts.

A manager (sender, fetcher, metadata, offsets, group member, transactions) is a plain state
machine: it imports no socket, no event loop and no clock. The driver polls it with the time,
sends the requests it returns, and calls back with the response or the error. Everything here
happens on the network thread of one client, so managers need no locks of their own, except
where they share a structure with the application's threads (the accumulator, the fetch buffer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kclient.errors import KafkaError

if TYPE_CHECKING:
    from kclient.protocol import Message
    from kclient.types import Node

ANY_NODE = -1
"""A request that any broker can answer is sent to the least loaded connected one."""

NEVER = float("inf")
"""The deadline of a manager that waits only for responses and wake-ups."""


class Request:
    """One request of a manager to a broker.

    Exactly one of the two callbacks is called, exactly once, on the network thread, with the time
    (seconds of the driver's clock). A request that expects no response (acks=0) gets `on_response`
    with None once its bytes were handed to the system.

    Parameters:
        node: the broker's id, or ANY_NODE.
        request_type: the message class; its version is negotiated with that broker.
        build: makes the message for the negotiated version.
        on_response: takes the decoded response. The response's version is `version` of this object.
        on_error: takes a DisconnectedError, KafkaTimeoutError, UnsupportedVersionError, NotKafkaError,
            BrokerConnectionError, ClosedError or ProtocolError, naming broker and API.
        timeout: seconds until on_error gets a KafkaTimeoutError; None is the client's request_timeout_ms.
        expects_response: False for acks=0.
        minimum_version, maximum_version: narrow the range that may be negotiated.
    """

    __slots__ = (
        "build",
        "expects_response",
        "maximum_version",
        "minimum_version",
        "node",
        "on_error",
        "on_response",
        "request_type",
        "timeout",
        "version",
    )

    def __init__(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        on_response: Callable[[Any, float], None],
        on_error: Callable[[KafkaError, float], None],
        *,
        timeout: float | None = None,
        expects_response: bool = True,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> None:
        self.node = node
        self.request_type = request_type
        self.build = build
        self.on_response = on_response
        self.on_error = on_error
        self.timeout = timeout
        self.expects_response = expects_response
        self.minimum_version = minimum_version
        self.maximum_version = maximum_version
        self.version = -1

    def __repr__(self) -> str:
        return f"<Request {self.request_type.__name__} v{self.version} to node {self.node}>"


class Poll(NamedTuple):
    """The result of a poll: requests to send now, and the time (driver's clock) of the next poll at the latest."""

    requests: list[Request]
    deadline: float


IDLE = Poll([], NEVER)


class Manager(Protocol):
    """A state machine that the driver polls after every event and at its deadline."""

    def poll(self, now: float) -> Poll: ...


class Nodes(Protocol):
    """The connections as managers see them; implemented by `nodes.ClusterNodes`."""

    def ready(self, node: int, now: float) -> bool:
        """Return whether a request to this broker would be written now; connect if possible."""

    def retry_at(self, node: int) -> float:
        """Return when a broker in reconnect backoff may be tried again; 0.0 if it is not in backoff."""

    def in_flight(self, node: int) -> int:
        """Return the number of requests to this broker without a response."""

    def connection_error(self, node: int, since: float | None = None) -> KafkaError | None:
        """Return why the last attempt to connect to this broker failed, while it is not connected.

        Parameters:
            since: only for an attempt that has begun at this time or later, and has ended.
        """

    def last_error(self) -> KafkaError | None:
        """Return why connecting failed the last time, while no broker is connected. Any thread."""

    def api_version(self, node: int, request_type: type[Message]) -> int | None:
        """Return the version negotiated with a connected broker; None if it is not connected or lacks the API."""

    def dedicate(self, node: Node) -> int:
        """Add a second connection to a broker, for requests that wait long or must not wait behind others.

        A broker answers the requests of one connection in turn, so a JoinGroup would hold up the fetches
        behind it, and a Fetch that waits for records a heartbeat.

        Returns:
            The node id for such requests; the connection is made on demand.
        """
