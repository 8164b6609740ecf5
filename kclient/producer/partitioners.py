"""Partitioners: Kafka's default, others, and the interface for your own.

The default (murmur2 of the key; without a key the uniform sticky choice of KIP-794) is built into the accumulator. Any
object with the method of `Partitioner` replaces it as `partitioner=...`; the other ones of Kafka and librdkafka are
here, and have names: "round_robin", "random", "consistent_random".
"""

from __future__ import annotations

import inspect
import random
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kclient._misuse import should_be_instance
from kclient.errors import ConfigError
from kclient.records import murmur2


@runtime_checkable
class Partitioner(Protocol):
    """The interface of a partitioner."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int | None:
        """Choose a partition.

        The method runs in the thread that calls `send`, concurrently if several threads send. `send` raises its
        exceptions.

        Parameters:
            key, value: the record, serialized.
            partitions: the number of the topic's partitions, which count from 0.
            available: those that currently have a leader.

        Returns:
            The partition; None lets the default partitioner choose.
        """


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the default partition of a key, as in every Java client: murmur2 of its bytes."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class RoundRobinPartitioner:
    """One partition after the other, whatever the key; skips those without a leader."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        with self._lock:
            turn = self._next.get(topic, 0)
            self._next[topic] = turn + 1
        return available[turn % len(available)] if available else turn % partitions


class RandomPartitioner:
    """Any partition, whatever the key.

    Parameters:
        seed: makes the choices repeatable.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        return self._random.choice(available) if available else self._random.randrange(partitions)


class ConsistentRandomPartitioner:
    """librdkafka's default: CRC-32 of the key; a random partition for an empty or missing key.

    Parameters:
        seed: makes the choices repeatable.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        if key:
            return zlib.crc32(key) % partitions
        return self._random.choice(available) if available else self._random.randrange(partitions)


BY_NAME: dict[str, Callable[[], Partitioner | None]] = {
    "default": lambda: None,
    "round_robin": RoundRobinPartitioner,
    "random": RandomPartitioner,
    "consistent_random": ConsistentRandomPartitioner,
}


def make_partitioner(chosen: Any) -> Partitioner | None:
    """Return the partitioner that the option names or is; None for the default.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(chosen, str):
        if chosen not in BY_NAME:
            raise ConfigError(f"partitioner must be one of {', '.join(map(repr, BY_NAME))}, or an object of your own")
        return BY_NAME[chosen]()
    if inspect.isclass(chosen) and hasattr(chosen, "partition"):
        raise ConfigError(should_be_instance("partitioner", chosen))
    if not isinstance(chosen, Partitioner):
        raise ConfigError(
            f"partitioner must have a method partition(topic, key, value, partitions, available); {chosen!r} has none"
        )
    return chosen
