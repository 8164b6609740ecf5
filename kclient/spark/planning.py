"""How what is to be read is divided among Spark's tasks.

Pure: ranges of offsets in, tasks out. Leaves out where ranges begin and end (`offsets`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec

from kclient.spark.offsets import Range


class Task(msgspec.Struct, frozen=True):
    """What one task reads: a partition from `start` until before `end`.

    It travels to an executor as the value of an InputPartition.
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
    """The tasks that read these ranges, in their order.

    A range is a task unless the options ask for more. Those to come go where tasks are largest, so that there are as
    many as `min_partitions` unless there are fewer offsets. Offsets stand for records: where a log has gaps, tasks
    have fewer of these than they seem to.

    Parameters:
        ranges: what to read; empty ones make no task.
        min_partitions: the least number of tasks; None for no such wish.
        max_records_per_partition: the most offsets of a task; None for no limit.
    """
    wanted = [one for one in ranges if one.end > one.start]
    counts = [1 if max_records_per_partition is None else -(-one.size // max_records_per_partition) for one in wanted]
    missing = (min_partitions or 0) - sum(counts)
    if missing > 0:
        _share(missing, [one.size for one in wanted], counts)
    return [task for one, count in zip(wanted, counts, strict=True) for task in _split(one, count)]


def _share(missing: int, sizes: list[int], counts: list[int]) -> None:
    """Raise counts until so many more are there, always that of the range whose tasks are the largest."""
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
