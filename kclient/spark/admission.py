"""The size of a micro-batch, decided as in Spark's own Kafka connector.

Pure: ranges of offsets and the time in, offsets out. Elsewhere: where ranges begin and end (`micro_batches`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.spark.offsets import Offsets, Range


def admit(ranges: Iterable[Range], most: int | None) -> Offsets:
    """Return where each partition's part of the micro-batch ends.

    The limit is divided in proportion to the available offsets of partitions, rounded down. Each partition with new
    offsets gets at least one, so that a busy partition cannot block a quiet one. So the limit may be exceeded by less
    than the number of partitions.

    Parameters:
        ranges: the available offsets.
        most: the limit in offsets; None for no limit.
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
    """Whether a small micro-batch waits for more records.

    Parameters:
        longest_ms: the longest time since the previous micro-batch, in ms; the first one never waits.
    """

    def __init__(self, longest_ms: int) -> None:
        self._longest = longest_ms / 1000
        self._last: float | None = None

    def waits(self, available: int, least: int | None, now: float) -> bool:
        """Return whether to wait; otherwise a micro-batch starts now.

        Parameters:
            available: the number of available offsets.
            least: the smallest micro-batch in offsets; None for any.
            now: seconds of a monotonic clock.
        """
        if least is not None and available < least and self._last is not None and now - self._last < self._longest:
            return True
        self._last = now
        return False
