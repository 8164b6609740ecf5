"""What one broker counts while it works: the numbers that are nowhere else."""

from __future__ import annotations

import asyncio
import enum
from collections import Counter

from refbroker.metrics.histogram import Histogram
from refbroker.metrics.requests import RequestMetrics
from refbroker.metrics.topics import TopicMetrics

LAG_SECONDS = 1.0


class Closed(enum.StrEnum):
    """Why a connection was closed."""

    CLIENT = "client"
    """By the client, or it was lost."""
    IDLE = "idle"
    """No request for `connections.max.idle.ms`."""
    REFUSED = "refused"
    """`max.connections` were open."""
    ERROR = "error"
    """A request that could not be understood or handled, or an answer that could not be sent."""
    STOPPED = "stopped"
    """The broker stopped."""


class EventLoopLag:
    """How late the event loop comes to what is due, looked at once a second; it is what every request waits for."""

    def __init__(self) -> None:
        self.lag = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure from now on."""
        due = loop.time() + LAG_SECONDS
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.lag.observe(max(int((loop.time() - due) * 1e9), 0))
        self.start(loop)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BrokerMetrics:
    """The counters of one broker. Belongs to its event loop.

    Attributes:
        requests: by API.
        topics: by topic.
        connections_opened: since the start.
        connections_closed: likewise, by reason.
        event_loop: its lag.
    """

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.topics = TopicMetrics()
        self.connections_opened = 0
        self.connections_closed: Counter[Closed] = Counter()
        self.event_loop = EventLoopLag()
