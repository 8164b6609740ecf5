"""How ranges of offsets are divided among tasks."""

from __future__ import annotations

import pickle
import random

import pytest

from kclient.spark.offsets import Range
from kclient.spark.planning import Task, plan
from kclient.types import TopicPartition


def ranges(*sizes: int) -> list[Range]:
    return [Range(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]


def sizes(tasks: list[Task]) -> list[list[int]]:
    """By partition, the sizes of its tasks."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        found.setdefault(task.partition, []).append(task.end - task.start)
    return [found[number] for number in sorted(found)]


def test_each_partition_is_a_task() -> None:
    assert plan(ranges(5, 7)) == [Task("t", 0, 100, 105), Task("t", 1, 100, 107)]


def test_an_empty_range_makes_no_task() -> None:
    assert [task.partition for task in plan(ranges(5, 0, -3, 7))] == [0, 3]
    assert plan(ranges(0), min_partitions=4) == []
    assert plan([]) == []


def test_more_tasks_come_where_they_are_largest() -> None:
    assert sizes(plan(ranges(10, 1000), min_partitions=4)) == [[10], [333, 333, 334]]


def test_there_are_no_more_tasks_than_offsets() -> None:
    assert sizes(plan(ranges(1, 2), min_partitions=50)) == [[1], [1, 1]]


def test_no_task_is_larger_than_allowed() -> None:
    assert sizes(plan(ranges(10, 4), max_records_per_partition=4)) == [[3, 3, 4], [4]]


def test_both_wishes_hold_together() -> None:
    tasks = plan(ranges(100, 1000), min_partitions=3, max_records_per_partition=300)
    assert len(tasks) == 5
    tasks = plan(ranges(100, 1000), min_partitions=9, max_records_per_partition=300)
    assert len(tasks) == 9
    assert max(task.end - task.start for task in tasks) <= 300


@pytest.mark.parametrize("round_number", range(50))
def test_tasks_cover_the_ranges_without_gap_or_overlap(rng: random.Random, round_number: int) -> None:
    wanted = ranges(*(rng.choice([0, 1, rng.randrange(10), rng.randrange(100_000)]) for _ in range(rng.randrange(6))))
    least, most = rng.choice([None, rng.randrange(1, 40)]), rng.choice([None, rng.randrange(1, 50_000)])
    tasks = plan(wanted, least, most)
    for one in wanted:
        own = [task for task in tasks if task.partition == one.partition.partition]
        edges = [one.start, *(task.end for task in own)]
        assert [task.start for task in own] == edges[:-1]
        assert edges[-1] == one.start + one.size
        assert all(task.end > task.start for task in own)
    assert most is None or all(task.end - task.start <= most for task in tasks)
    assert len(tasks) >= min(least or 0, sum(one.size for one in wanted))


def test_a_task_travels_to_an_executor() -> None:
    (task,) = plan(ranges(5))
    assert pickle.loads(pickle.dumps(task)) == task
    assert str(task) == "t-0 [100, 105)"
