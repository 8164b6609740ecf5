"""How much a micro-batch takes."""

from __future__ import annotations

import random

import pytest

from kclient.spark.admission import Patience, admit
from kclient.spark.offsets import Range
from kclient.types import TopicPartition


def ranges(*sizes: int, start: int = 100) -> list[Range]:
    return [Range(TopicPartition("t", number), start, start + size) for number, size in enumerate(sizes)]


def taken(most: int | None, *sizes: int) -> list[int]:
    """How many offsets of each partition."""
    return [end - 100 for end in admit(ranges(*sizes), most).values()]


@pytest.mark.parametrize(
    ("most", "sizes", "expected"),
    [
        (None, (5, 0, 7), [5, 0, 7]),
        (12, (5, 0, 7), [5, 0, 7]),
        (11, (5, 0, 7), [4, 0, 6]),
        (10, (90, 10), [9, 1]),
        (100, (1000, 3000), [25, 75]),
        (10, (1_000_000, 1, 0), [9, 1, 0]),
        (1, (5, 5, 5), [1, 1, 1]),
    ],
)
def test_partitions_share_in_proportion_and_none_with_records_gets_nothing(
    most: int | None, sizes: tuple[int, ...], expected: list[int]
) -> None:
    assert taken(most, *sizes) == expected


def test_shares_keep_to_the_limit_and_to_what_is_there(rng: random.Random) -> None:
    for _ in range(500):
        sizes = [rng.choice([0, 1, 10 ** rng.randrange(12)]) for _ in range(rng.randrange(1, 9))]
        most = rng.randrange(1, 10**6)
        shares = taken(most, *sizes)
        assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
        assert all(share > 0 for share, size in zip(shares, sizes, strict=True) if size)
        assert sum(shares) <= most + len(sizes)
        assert sum(shares) >= min(most, sum(sizes)) - len(sizes)


def test_an_offset_does_not_go_back_where_a_partition_ends_before_it() -> None:
    partition = TopicPartition("t", 0)
    assert admit([Range(partition, 10, 5)], None) == {partition: 10}
    assert admit([Range(partition, 10, 5), *ranges(0, 8)[1:]], 4)[partition] == 10


def test_few_offsets_wait_until_there_are_enough_or_it_took_too_long() -> None:
    patience = Patience(longest_ms=5_000)
    assert not patience.waits(1, 10, now=100.0)
    assert patience.waits(9, 10, now=101.0)
    assert not patience.waits(10, 10, now=102.0)
    assert patience.waits(9, 10, now=106.9)
    assert not patience.waits(9, 10, now=107.0)
    assert patience.waits(9, 10, now=107.1)


def test_nothing_waits_without_a_least_number() -> None:
    patience = Patience(longest_ms=5_000)
    assert not patience.waits(1, None, now=0.0)
    assert not patience.waits(1, None, now=0.1)
