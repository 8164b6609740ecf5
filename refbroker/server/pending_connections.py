"""The connections whose clients have not sent a request yet, or have not logged in, and a limit of their number.

A connection is pending from the beginning of its TLS handshake until its client has sent a complete request, and has
logged in where the listener has SASL. Each of them takes memory and a file, while nobody knows yet whether its client
speaks Kafka's protocol at all. Clients are quick, so the oldest ones are closed first. Kafka has no such limit.

Elsewhere: how long a handshake and a login may take (`tls`, `connection`), the limits of all connections
(`connection_limits`).
"""

from __future__ import annotations

from collections.abc import Callable

MOST_PENDING = 1000


class PendingConnections:
    """The pending connections of a server."""

    def __init__(self) -> None:
        self._by_listener: dict[str, dict[object, Callable[[str], None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_listener.values()))

    def add(self, listener: str, connection: object, drop: Callable[[str], None]) -> None:
        """Add a connection; drop another one if there are too many.

        The oldest one of the listener that has the most is dropped, so that clients that flood one listener do not keep
        others from using another one. A connection that is pending already keeps its age.

        Parameters:
            listener: the name of the listener that accepted it.
            drop: closes the connection at once, for a reason to log.
        """
        self._by_listener.setdefault(listener, {})[connection] = drop
        if len(self) > MOST_PENDING:
            fullest = max(self._by_listener.values(), key=len)
            oldest = next(iter(fullest))
            fullest.pop(oldest)(f"it has not sent a request or logged in, like {MOST_PENDING} later ones")

    def discard(self, listener: str, connection: object) -> None:
        """Remove a connection, which may not be pending."""
        self._by_listener.get(listener, {}).pop(connection, None)
