"""How much of what is there a micro-batch takes, as Spark's own Kafka connector decides it.

Pure: ranges of offsets and the time in, offsets out. Leaves out where ranges begin and end (`micro_batches`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.spark.offsets import Offsets, Range


def admit(ranges: Iterable[Range], most: int | None) -> Offsets:
    """Where each partition's part of the micro-batch ends.

    Partitions share what is allowed in proportion to what they have, rounded down; but each that has something gets
    one at least, so that a busy partition cannot keep a quiet one waiting forever. That may exceed the limit, by less
    than the number of partitions.

    Parameters:
        ranges: all that could be read.
        most: how many offsets of it may be; None for all.
    """
    chosen = list(ranges)
    total = sum(one.size for one in chosen)
    if most is None or total <= most:
        return {one.partition: max(one.start, one.end) for one in chosen}
    return {
        one.partition: one.start + min(one.size, max(1, most * one.size // total)) if one.size else one.start
        for one in chosen
    }


class Patience:
    """Whether a micro-batch that would be small waits for more.

    Parameters:
        longest_ms: how long after the micro-batch before it, in ms; the first one never waits.
    """

    def __init__(self, longest_ms: int) -> None:
        self._longest = longest_ms / 1000
        self._last: float | None = None

    def waits(self, available: int, least: int | None, now: float) -> bool:
        """Whether to wait; if not, a micro-batch is made now.

        Parameters:
            available: how many offsets could be read.
            least: how many are worth a micro-batch; None for any.
            now: seconds that grow.
        """
        if least is not None and available < least and self._last is not None and now - self._last < self._longest:
            return True
        self._last = now
        return False
