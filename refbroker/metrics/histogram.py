"""Durations in buckets that double in size; finding the bucket takes one shift and one `bit_length`."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_BOUND_NS = 8_000
BOUNDED = 22
_SIZE = 64

BOUNDS_MS: tuple[float, ...] = tuple((FIRST_BOUND_NS << doubled) / 1_000_000 for doubled in range(BOUNDED))
"""The upper bounds: 0.008 ms, 0.016 ms, ... 16777.216 ms; one more bucket holds what is above."""


class Histogram:
    """A distribution of durations.

    Attributes:
        total_ns: the sum, in nanoseconds.
        buckets: the number of durations in each bucket. Its length is the largest `bit_length`, so that counting needs
            no comparison.
    """

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.total_ns = 0
        self.buckets = [0] * _SIZE

    def observe(self, nanoseconds: int) -> None:
        """Count one duration, at most 2 ** 63 ns."""
        self.total_ns += nanoseconds
        self.buckets[(nanoseconds // FIRST_BOUND_NS).bit_length()] += 1

    def observe_all(self, durations_ns: Sequence[int]) -> None:
        """Count several durations."""
        self.total_ns += sum(durations_ns)
        buckets = self.buckets
        for nanoseconds in durations_ns:
            buckets[(nanoseconds // FIRST_BOUND_NS).bit_length()] += 1

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.total_ns += other.total_ns
        self.buckets = [mine + more for mine, more in zip(self.buckets, other.buckets, strict=True)]

    def snapshot(self) -> Distribution:
        """Return the current distribution."""
        counted, running = [], 0
        for number in self.buckets[:BOUNDED]:
            running += number
            counted.append(running)
        return Distribution(running + sum(self.buckets[BOUNDED:]), self.total_ns / 1_000_000, tuple(counted))


class Distribution:
    """A histogram at one moment.

    Attributes:
        count: the number of durations.
        total_ms: their sum, in milliseconds.
        cumulative: how many were below each of `BOUNDS_MS`.
    """

    __slots__ = ("count", "cumulative", "total_ms")

    def __init__(self, count: int, total_ms: float, cumulative: tuple[int, ...]) -> None:
        self.count = count
        self.total_ms = total_ms
        self.cumulative = cumulative
