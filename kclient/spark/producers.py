"""Producers that live as long as the process, so that tasks and micro-batches need no new connections.

Spark reuses its Python workers and creates a writer for each task, so this module has the cache. All tasks of a process
with the same options share a producer. A task that fails closes it, because its buffered rows must not be sent beside
those of the next attempt. Not implemented: sharing of transactional producers.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kclient import Producer
from kclient.errors import DeliveryError
from kclient.spark.forks import forget_in_children

if TYPE_CHECKING:
    from kclient.spark.options import WriteOptions

MOST = 8
"""The most producers of a process; the least recently used one is closed for another."""

DEFAULTS = {"client.id": "spark-kafka-sink-kclient"}
"""By Kafka's dotted names: defaults that differ from the client's."""

Key = tuple[tuple[str, str], ...]


def open_producer(options: WriteOptions, **more: Any) -> Producer:
    """Return a producer that the caller closes.

    Parameters:
        more: options that override the others, by their names in Python.
    """
    return Producer.from_properties({**DEFAULTS, **options.client}, **more)


class ProducerCache:
    """A cache of producers by their options.

    Parameters:
        make: opens a producer.
    """

    def __init__(self, make: Callable[[WriteOptions], Producer] = open_producer) -> None:
        self._make = make
        self._begin()
        forget_in_children(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # In the order of their last use.
        self._producers: dict[Key, Producer] = {}

    @contextmanager
    def borrow(self, options: WriteOptions) -> Iterator[Producer]:
        """Lend the producer of these options, which other tasks may use at the same time.

        It is closed if the caller fails, and undelivered rows are dropped.

        Parameters:
            options: the options of the producer.
        """
        key = tuple(sorted(options.client.items()))
        with self._lock:
            producer = self._producers.pop(key, None) or self._make(options)
            self._producers[key] = producer
            tired = [self._producers.pop(one) for one in list(self._producers)[:-MOST]]
        for one in tired:
            _close(one, None)
        try:
            yield producer
        except BaseException:
            with self._lock:
                if self._producers.get(key) is producer:
                    del self._producers[key]
            _close(producer, 0)
            raise

    def close(self) -> None:
        """Close all producers."""
        with self._lock:
            producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            _close(producer, 0)


def _close(producer: Producer, timeout: float | None) -> None:
    """Close a producer; its senders have handled its failures."""
    try:
        producer.close(timeout)
    except DeliveryError:
        pass


_cache = ProducerCache()
borrow = _cache.borrow
close_all = _cache.close
atexit.register(close_all)
