"""The seam between what decides and what acts.

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
"""A request that any broker can answer goes to the least loaded one that is connected."""

NEVER = float("inf")
"""The deadline of a manager that has nothing to wait for but responses and wake-ups."""


class Request:
    """One request on its way from a manager to a broker.

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
    """What a manager wants: requests to send now, and when (driver's clock) to be polled at the latest."""

    requests: list[Request]
    deadline: float


IDLE = Poll([], NEVER)


class Manager(Protocol):
    """A state machine that the driver polls after every event and at its deadline."""

    def poll(self, now: float) -> Poll: ...


class Nodes(Protocol):
    """What managers may ask about connections (the driver implements it; tests have a fake)."""

    def ready(self, node: int, now: float) -> bool:
        """Whether a request to this broker would be written now; starts connecting if it can."""

    def retry_at(self, node: int) -> float:
        """When it makes sense to ask again for a broker in reconnect backoff; 0.0 if it is not."""

    def in_flight(self, node: int) -> int:
        """Requests sent to this broker and not answered yet."""

    def connection_error(self, node: int) -> KafkaError | None:
        """Why the last attempt to connect to this broker failed, while it is not connected."""

    def last_error(self) -> KafkaError | None:
        """Why connecting failed the last time, while no broker is connected. Any thread."""

    def api_version(self, node: int, request_type: type[Message]) -> int | None:
        """The version negotiated with a connected broker; None while not connected or not supported."""

    def dedicate(self, node: Node) -> int:
        """Have a second connection to a broker, for requests that wait long or must not wait behind such.

        A broker answers the requests of one connection in turn, so a JoinGroup would hold up the fetches
        behind it, and a Fetch that waits for records a heartbeat.

        Returns:
            The id to send such requests to; the connection is made when it is wanted.
        """
