"""What a transport tells the driver: the kinds of events, and why a connection ended.

Here so that the compiled and the pure sockets, and a simulated network, say it in the same words.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

CONNECTED: Final = 0
"""A connection is there; no value."""
FRAME: Final = 1
"""A whole frame came; the value is its bytes (bytes-like) without the size before them."""
SENT: Final = 2
"""Everything that was to be sent went to the system, after a `send` that asked to be told; no value."""
CLOSED: Final = 3
"""A connection ended, or could not be made; the value is an OSError, PeerClosed or BadFrame. Nothing follows."""
RESOLVED: Final = 4
"""A host name was looked up; the value is a list of addresses or an OSError."""


class Handler(Protocol):
    """Whom an event is for."""

    def on_event(self, event: int, value: Any, now: float) -> None: ...


Event = tuple[Handler, int, Any]


class PeerClosed(Exception):
    """The peer closed the connection. `head`: the start of a frame that did not come whole."""

    def __init__(self, head: bytes = b"") -> None:
        super().__init__("the peer closed the connection" + (" in the middle of an answer" if head else ""))
        self.head = head


class BadFrame(Exception):
    """A frame announced a size that cannot be. `head`: the bytes that came, size included, at most 64."""

    def __init__(self, size: int, head: bytes) -> None:
        super().__init__(f"the peer announced an answer of {size} bytes")
        self.size = size
        self.head = head
