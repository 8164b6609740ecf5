"""Producers that live as long as the process, so that tasks and micro-batches do not connect anew.

Spark keeps its Python workers over tasks and makes every writer anew, so the cache belongs to this module. All tasks of
a process that write with the same options share one producer. Who fails with one closes it: what it left in the buffer
must not travel beside the records of the task's next attempt. Leaves out transactional producers, which are not shared.
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
"""The most producers of a process; the one that was not used for longest is closed for another."""

DEFAULTS = {"client.id": "spark-kafka-sink-kclient"}
"""By Kafka's dotted names, what differs from the client's own defaults unless the user says otherwise."""

Key = tuple[tuple[str, str], ...]


def open_producer(options: WriteOptions, **more: Any) -> Producer:
    """Make a producer that the caller closes.

    Parameters:
        more: options that win, by their names in Python.
    """
    return Producer.from_properties({**DEFAULTS, **options.client}, **more)


class ProducerCache:
    """Producers by their options.

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
        """Lend the producer of these options, which others may use at the same time.

        It is closed if the caller fails, and what it has not delivered is dropped.

        Parameters:
            options: whose `client` it is made with.
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
    """Close a producer, whose failures were the business of those who sent."""
    try:
        producer.close(timeout)
    except DeliveryError:
        pass


_cache = ProducerCache()
borrow = _cache.borrow
close_all = _cache.close
atexit.register(close_all)
