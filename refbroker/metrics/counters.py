"""The counters that one broker updates while it works."""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from refbroker.metrics.histogram import Histogram
from refbroker.metrics.requests import RequestMetrics
from refbroker.metrics.topics import TopicMetrics

IDLE_SECONDS = 1.0
BUSY_SECONDS = 0.1
"""Seconds between two checks of the event loop, without and with requests; the second bounds the number of notes."""


class Closed(enum.StrEnum):
    """The reason why a connection was closed."""

    CLIENT = "client"
    """The client closed the connection, or it was lost."""
    IDLE = "idle"
    """No request arrived for `connections.max.idle.ms`."""
    REFUSED = "refused"
    """`max.connections` were open already."""
    ERROR = "error"
    """A request could not be parsed or handled, or its response could not be sent."""
    STOPPED = "stopped"
    """The broker shut down."""


class EventLoopLag:
    """How late the event loop runs its timers, which delays every request. It also runs work at each check.

    Parameters:
        work: called at each check; returns whether it had anything to do, in which case the next check comes sooner.
    """

    def __init__(self, work: Callable[[], bool]) -> None:
        self.lag = Histogram()
        self._work = work
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start measuring."""
        due = loop.time() + (BUSY_SECONDS if self._work() else IDLE_SECONDS)
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.lag.observe(max(int((loop.time() - due) * 1e9), 0))
        self.start(loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(slots=True)
class GroupStats:
    """Counters of committed offsets and of rebalances.

    Attributes:
        rebalances: completed rebalances of classic groups.
        consumer_rebalances: new epochs of consumer groups, except those caused by a member that leaves (as in Kafka).
    """

    offsets_committed: int = 0
    offsets_deleted: int = 0
    offsets_expired: int = 0
    rebalances: int = 0
    consumer_rebalances: int = 0


class BrokerMetrics:
    """The counters of one broker. Belongs to its event loop.

    Records, like requests, are only noted when they arrive, and summed in bulk later.

    Attributes:
        stored: notes stored records: topic, number of records, number of bytes.
        fetched: notes fetched records: topic, number of bytes.
        connections_opened: since the broker started.
        connections_closed: since the broker started, by reason.
        event_loop: the lag of the event loop.
        groups: counters of committed offsets and of rebalances.
    """

    def __init__(self) -> None:
        self._stored: list[tuple[str, int, int]] = []
        self._fetched: list[tuple[str, int]] = []
        self._requests = RequestMetrics()
        self._topics = TopicMetrics()
        self.stored = self._stored.append
        self.fetched = self._fetched.append
        self.connections_opened = 0
        self.connections_closed: Counter[Closed] = Counter()
        self.event_loop = EventLoopLag(self.add_up)
        self.groups = GroupStats()

    @property
    def requests(self) -> RequestMetrics:
        """The request metrics, by API."""
        self.add_up()
        return self._requests

    @property
    def topics(self) -> TopicMetrics:
        """The record metrics, by topic."""
        self.add_up()
        return self._topics

    def add_up(self) -> bool:
        """Sum the notes; return whether there were any."""
        busy = False
        for stats in self._requests.values():
            busy |= stats.add_up()
        topic_stats = self._topics.of
        for topic, records, size in self._stored:
            traffic = topic_stats(topic)
            traffic.records_in += records
            traffic.bytes_in += size
        for topic, size in self._fetched:
            topic_stats(topic).bytes_out += size
        self._stored.clear()
        self._fetched.clear()
        return busy
