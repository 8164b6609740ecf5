"""Consumers that live as long as the process, so that tasks and micro-batches do not connect anew.

Spark keeps its Python workers over tasks and makes every reader anew, so the cache belongs to this module. A consumer
is lent to one task at a time. An idle one is paused, and keeps its place and what it fetched: the task that goes on
with the partition where another left off reads on from memory. Leaves out where a task reads (`tasks`).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kclient import Consumer
from kclient.errors import KafkaTimeoutError
from kclient.spark.clock import monotonic
from kclient.spark.forks import forget_in_children
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.spark.options import ReadOptions

IDLE_SECONDS = 300.0
"""An idle consumer is closed after this long, as the connector's are."""

MOST_IDLE = 16
"""The most idle consumers; a process of Spark's runs one task at a time, and each may hold what it fetched last."""

DEFAULTS = {
    # A task has one partition, and turns what comes into columns at once: few large answers serve it best.
    "max.partition.fetch.bytes": "8388608",
    "prefetch.max.bytes": "33554432",
    # What a task asks for is in the log already. A longer wait at its end would hold up the next task, which has to
    # wait for the answer where it reads another partition of the same broker.
    "fetch.max.wait.ms": "10",
}
"""By Kafka's dotted names, what differs from the client's own defaults unless the user says otherwise."""

Key = tuple[tuple[str, str], ...]


class _Idle(NamedTuple):
    key: Key
    consumer: Consumer
    place: tuple[TopicPartition, int] | None
    since: float


def open_consumer(options: ReadOptions) -> Consumer:
    """Make a consumer that the caller closes.

    It starts nowhere by itself, commits nothing by itself and creates no topics.
    """
    return Consumer.from_properties(
        {**DEFAULTS, **options.client},
        auto_offset_reset="none",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
    )


class ConsumerCache:
    """Idle consumers by their options.

    Parameters:
        make: opens a consumer.
        clock: seconds that grow.
    """

    def __init__(
        self,
        make: Callable[[ReadOptions], Consumer] = open_consumer,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._make = make
        self._clock = clock
        self._begin()
        forget_in_children(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []

    @contextmanager
    def borrow(
        self, options: ReadOptions, partition: TopicPartition | None = None, start: int | None = None
    ) -> Iterator[Consumer]:
        """Lend a consumer, the one whose place is nearest to where the caller wants to read.

        What is assigned to it, and paused, is what the last user left. It is closed if the caller fails, for then its
        state is not known.

        Parameters:
            options: whose `client` it was, or is, made with.
            partition, start: where the caller is going to read, if it is.
        """
        key = tuple(sorted(options.client.items()))
        consumer = self._take(key, partition, start) or self._make(options)
        try:
            yield consumer
        except GeneratorExit:
            # The reader of a task that needs no more rows is left in the middle, and its consumer is as good as before.
            self._give_back(key, consumer)
            raise
        except BaseException:
            consumer.close(timeout=0)
            raise
        else:
            self._give_back(key, consumer)

    def _take(self, key: Key, partition: TopicPartition | None, start: int | None) -> Consumer | None:
        with self._lock:
            same = [one for one in self._idle if one.key == key]
            if not same:
                return None
            # The place itself, else the partition, else the one that was used last.
            same.sort(key=lambda one: (one.place == (partition, start), _on(one, partition), one.since))
            chosen = same[-1]
            self._idle.remove(chosen)
            return chosen.consumer

    def _give_back(self, key: Key, consumer: Consumer) -> None:
        consumer.pause(*consumer.assignment())
        with self._lock:
            self._idle.append(_Idle(key, consumer, _place(consumer), self._clock()))
            oldest = self._clock() - IDLE_SECONDS
            tired = [one for one in self._idle if one.since < oldest]
            self._idle = [one for one in self._idle if one.since >= oldest]
            tired += self._idle[:-MOST_IDLE]
            del self._idle[:-MOST_IDLE]
        for one in tired:
            one.consumer.close(timeout=0)

    def close(self) -> None:
        """Close all idle consumers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.consumer.close(timeout=0)


def _place(consumer: Consumer) -> tuple[TopicPartition, int] | None:
    """Where a consumer of one partition stands; None if that is not known."""
    assigned = consumer.assignment()
    if len(assigned) != 1:
        return None
    (partition,) = assigned
    try:
        return partition, consumer.position(partition, timeout=0)
    except KafkaTimeoutError:
        return None


def _on(one: _Idle, partition: TopicPartition | None) -> bool:
    return one.place is not None and one.place[0] == partition


_cache = ConsumerCache()
borrow = _cache.borrow
close_idle = _cache.close
atexit.register(close_idle)
