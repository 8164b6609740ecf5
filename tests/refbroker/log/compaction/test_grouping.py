"""Which segments become one."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from refbroker.log.compaction.grouping import INT32_MAX, group_segments

GB = 10**9


@dataclass(frozen=True)
class Piece:
    base_offset: int
    size: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


def sizes(groups: list[list[Piece]]) -> list[list[int]]:
    return [[piece.size for piece in group] for group in groups]


def test_small_neighbours_become_one_as_long_as_they_fit_a_segment() -> None:
    pieces = [Piece(number * 100, int(size * GB)) for number, size in enumerate((0.5, 0.4, 0.7, 0.2))]
    groups = group_segments(pieces, GB, 10**6, 400)
    assert sizes(groups) == [[GB // 2, GB * 4 // 10], [GB * 7 // 10, GB * 2 // 10]]


def test_a_segment_larger_than_the_limit_is_alone() -> None:
    assert sizes(group_segments([Piece(0, 5), Piece(10, 50), Piece(20, 5)], 10, 10, 30)) == [[5], [50], [5]]
    assert group_segments([], 10, 10, 0) == []


def test_indexes_must_fit_too() -> None:
    offset_heavy = [Piece(number, 1, offset_index_bytes=6) for number in range(3)]
    time_heavy = [Piece(number, 1, time_index_bytes=4) for number in range(3)]
    assert sizes(group_segments(offset_heavy, 10, 11, 3)) == [[1], [1], [1]]
    assert sizes(group_segments(offset_heavy, 10, 12, 3)) == [[1, 1], [1]]
    assert sizes(group_segments(time_heavy, 10, 11, 3)) == [[1, 1], [1]]


def test_offsets_of_a_group_fit_its_index() -> None:
    pieces = [Piece(0, 1), Piece(10, 1), Piece(INT32_MAX, 1)]
    assert sizes(group_segments(pieces, 100, 100, INT32_MAX + 1)) == [[1, 1, 1]]
    assert sizes(group_segments(pieces, 100, 100, INT32_MAX + 2)) == [[1, 1], [1]]


def test_empty_segments_join_their_neighbours_whatever_their_offsets() -> None:
    pieces = [Piece(0, 1), *(Piece(number << 31, 0) for number in range(1, 5))]
    assert sizes(group_segments(pieces, 100, 100, 5 << 31)) == [[1, 0, 0, 0, 0]]


def test_groups_are_all_segments_in_order_and_none_could_take_the_next_one(rng: random.Random) -> None:
    for _ in range(200):
        pieces = [Piece(number * 10, rng.randrange(60), rng.randrange(9), rng.randrange(9)) for number in range(12)]
        groups = group_segments(pieces, 100, 16, 120)
        assert [piece for group in groups for piece in group] == pieces
        for group, following in itertools.pairwise(groups):
            joined = [*group, following[0]]
            assert (
                sum(piece.size for piece in joined) > 100
                or sum(piece.offset_index_bytes for piece in joined) > 16
                or sum(piece.time_index_bytes for piece in joined) > 16
            )
            assert len(group) == 1 or sum(piece.size for piece in group) <= 100
