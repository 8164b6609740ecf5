"""What one broker counts while it works: the numbers that are nowhere else."""

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
"""Between two looks at the event loop, without and with requests; the latter bounds how many notes there are."""


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
    """How late the event loop comes to what is due, which every request waits for; and what is to be done regularly.

    Parameters:
        work: called each time it looks; says whether there was anything to do, so that it looks again sooner.
    """

    def __init__(self, work: Callable[[], bool]) -> None:
        self.lag = Histogram()
        self._work = work
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure from now on."""
        due = loop.time() + (BUSY_SECONDS if self._work() else IDLE_SECONDS)
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.lag.observe(max(int((loop.time() - due) * 1e9), 0))
        self.start(loop)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(slots=True)
class GroupStats:
    """What became of committed offsets, and how often members have changed places.

    Attributes:
        rebalances: of classic groups, that came to their end.
        consumer_rebalances: new epochs of consumer groups, those excepted that a member's leaving makes (as in Kafka).
    """

    offsets_committed: int = 0
    offsets_deleted: int = 0
    offsets_expired: int = 0
    rebalances: int = 0
    consumer_rebalances: int = 0


class BrokerMetrics:
    """The counters of one broker. Belongs to its event loop.

    Records, as requests, are only noted when they come, and added up many at a time.

    Attributes:
        stored: notes records that were stored: their topic, how many, and how many bytes.
        fetched: notes records that were given out: their topic, and how many bytes.
        connections_opened: since the start.
        connections_closed: likewise, by reason.
        event_loop: its lag.
        groups: what became of committed offsets, and how often members have changed places.
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
        """By API."""
        self.add_up()
        return self._requests

    @property
    def topics(self) -> TopicMetrics:
        """By topic."""
        self.add_up()
        return self._topics

    def add_up(self) -> bool:
        """Add up what was noted, and say whether there was anything."""
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
