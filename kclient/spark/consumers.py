"""Consumers that live as long as the process, so that tasks and micro-batches need no new connections.

Spark reuses its Python workers and creates a reader for each task, so this module has the cache. A consumer is lent to
one task at a time. An idle one is paused and keeps its position and fetched records, so the next task on the partition
continues from memory. Elsewhere: where a task reads (`tasks`).
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
"""An idle consumer is closed after this long, as in Spark's connector."""

MOST_IDLE = 16
"""The most idle consumers. A process runs one task at a time, and each consumer may hold fetched records."""

DEFAULTS = {
    # A task reads one partition and converts records to columns immediately, so a few large responses are best.
    "max.partition.fetch.bytes": "8388608",
    "prefetch.max.bytes": "33554432",
    # The records of a task already exist. A longer wait at its end would delay the next task, which waits for the
    # response if it reads another partition of the same broker.
    "fetch.max.wait.ms": "10",
}
"""By Kafka's dotted names: defaults that differ from the client's."""

Key = tuple[tuple[str, str], ...]


class _Idle(NamedTuple):
    key: Key
    consumer: Consumer
    place: tuple[TopicPartition, int] | None
    since: float


def open_consumer(options: ReadOptions) -> Consumer:
    """Return a consumer that the caller closes.

    It has no initial position, commits nothing and creates no topics.
    """
    return Consumer.from_properties(
        {**DEFAULTS, **options.client},
        auto_offset_reset="none",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
    )


class ConsumerCache:
    """A cache of idle consumers by their options.

    Parameters:
        make: opens a consumer.
        clock: seconds of a monotonic clock.
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
        """Lend a consumer, preferably one whose position is where the caller reads.

        Its assignment and paused partitions are those of the last user. It is closed if the caller fails, because its
        state is then unknown.

        Parameters:
            options: the options of the consumer.
            partition, start: where the caller will read; None if it does not read.
        """
        key = tuple(sorted(options.client.items()))
        consumer = self._take(key, partition, start) or self._make(options)
        try:
            yield consumer
        except GeneratorExit:
            # A task that needs no more rows closes its reader early; the consumer can be reused.
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
            # Prefer the same position, then the same partition, then the last one used.
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
    """Return the partition and position of a consumer with one partition, None if unknown."""
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
