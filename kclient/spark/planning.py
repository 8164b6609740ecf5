"""The division of ranges among Spark's tasks.

Pure: ranges of offsets in, tasks out. Elsewhere: the start and end of ranges (`offsets`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec

from kclient.spark.offsets import Range


class Task(msgspec.Struct, frozen=True):
    """The range of a task: a partition from `start` until before `end`.

    It is sent to an executor as the value of an InputPartition.
    """

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def plan(
    ranges: Iterable[Range], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[Task]:
    """Return the tasks for these ranges, in their order.

    Each range is a task unless the options require more. The largest tasks are divided until there are
    `min_partitions`, or one per offset. Offsets are counted instead of records: with gaps in a log, tasks have fewer
    records.

    Parameters:
        ranges: the ranges to read; empty ones are omitted.
        min_partitions: the least number of tasks; None for no minimum.
        max_records_per_partition: the most offsets of a task; None for no limit.
    """
    wanted = [one for one in ranges if one.end > one.start]
    counts = [1 if max_records_per_partition is None else -(-one.size // max_records_per_partition) for one in wanted]
    missing = (min_partitions or 0) - sum(counts)
    if missing > 0:
        _share(missing, [one.size for one in wanted], counts)
    return [task for one, count in zip(wanted, counts, strict=True) for task in _split(one, count)]


def _share(missing: int, sizes: list[int], counts: list[int]) -> None:
    """Increase counts by a total of `missing`, each time for the range with the largest tasks."""
    largest = [(-size / count, index) for index, (size, count) in enumerate(zip(sizes, counts, strict=True))]
    heapq.heapify(largest)
    while missing and largest:
        _, index = heapq.heappop(largest)
        if counts[index] == sizes[index]:
            continue
        counts[index] += 1
        missing -= 1
        heapq.heappush(largest, (-sizes[index] / counts[index], index))


def _split(one: Range, count: int) -> Iterable[Task]:
    for number in range(count):
        start = one.start + one.size * number // count
        end = one.start + one.size * (number + 1) // count
        yield Task(one.partition.topic, one.partition.partition, start, end)
