"""The events that a transport reports to the driver, and the reasons why a connection ended.

The compiled sockets, the pure ones and the simulated network share them.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

CONNECTED: Final = 0
"""A connection was established; no value."""
FRAME: Final = 1
"""A whole frame arrived; the value is its bytes (bytes-like) without the size before them."""
SENT: Final = 2
"""Everything was handed to the system, after a `send` with `notify`; no value."""
CLOSED: Final = 3
"""A connection ended or could not be established; the value is an OSError, PeerClosed, BadFrame or,
of a TLS connection, a KafkaError. No event follows."""
RESOLVED: Final = 4
"""A host name was looked up; the value is a list of addresses or an OSError."""
TLS_STARTED: Final = 5
"""A connection was established, and the TLS handshake begins; CONNECTED or CLOSED follows; no value."""
BYTES: Final = 6
"""Some bytes arrived on a channel that does not split them into frames; the value is bytes-like."""


class Handler(Protocol):
    """The receiver of an event."""

    def on_event(self, event: int, value: Any, now: float) -> None: ...


Event = tuple[Handler, int, Any]


class PeerClosed(Exception):
    """The peer closed the connection. `head` is the start of an incomplete frame."""

    def __init__(self, head: bytes = b"") -> None:
        super().__init__("the peer closed the connection" + (" in the middle of a response" if head else ""))
        self.head = head


class BadFrame(Exception):
    """A frame announced an impossible size. `head` is the bytes received, size included, at most 64."""

    def __init__(self, size: int, head: bytes) -> None:
        super().__init__(f"the peer announced a response of {size} bytes")
        self.size = size
        self.head = head
