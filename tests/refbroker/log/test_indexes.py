"""Offset and time indexes: look-ups, limits, and what their files look like."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from pathlib import Path

import pytest

from refbroker.log import Files
from refbroker.log.offset_index import OffsetIndex
from refbroker.log.time_index import TimeIndex

FILES = Files(durable=False)


def offset_index(path: Path, base_offset: int = 0, max_bytes: int = 1 << 20, active: bool = True) -> OffsetIndex:
    return OffsetIndex(FILES, path, base_offset, max_bytes, active=active)


def time_index(path: Path, base_offset: int = 0, max_bytes: int = 1 << 20, active: bool = True) -> TimeIndex:
    return TimeIndex(FILES, path, base_offset, max_bytes, active=active)


def test_an_offset_is_looked_up_at_the_last_entry_at_or_below_it(tmp_path: Path, rng: random.Random) -> None:
    index = offset_index(tmp_path / "i", base_offset=1000)
    offsets = sorted(rng.sample(range(1000, 100_000), 2000))
    for number, offset in enumerate(offsets):
        index.append(offset, number * 5000)
    for offset in [999, 1000, offsets[0], offsets[-1], 10**12, *(rng.randrange(1000, 100_000) for _ in range(500))]:
        slot = bisect_right(offsets, offset) - 1
        assert index.lookup(offset) == ((1000, 0) if slot < 0 else (offsets[slot], slot * 5000))


def test_entries_are_eight_bytes_relative_to_the_base_offset(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", base_offset=500)
    index.append(507, 4242)
    index.append(510, 9000)
    index.close()
    assert (tmp_path / "i").read_bytes() == struct.pack(">iiii", 7, 4242, 10, 9000)


def test_an_active_index_is_preallocated_in_whole_entries_and_trimmed_when_closed(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path / "i", max_bytes=1001), time_index(tmp_path / "t", max_bytes=1001)
    offsets.append(3, 100)
    times.append_if_later(1, 3)
    assert (tmp_path / "i").stat().st_size == 1000
    assert (tmp_path / "t").stat().st_size == 996
    offsets.close()
    times.close()
    assert (tmp_path / "i").stat().st_size == 8
    assert (tmp_path / "t").stat().st_size == 12


def test_an_index_that_is_opened_again_has_its_entries(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    index.append(3, 100)
    index.close()
    again = offset_index(tmp_path / "i", active=False)
    assert (again.entries, again.last) == (1, (3, 100))


def test_the_offset_index_takes_offsets_up_to_two_to_the_31_beyond_its_base(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", base_offset=10)
    assert index.takes(10 + 2**31 - 1)
    assert not index.takes(10 + 2**31)
    assert not index.takes(9)


def test_a_time_index_keeps_one_place_free_for_the_entry_that_closes_it(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t", max_bytes=36)
    index.append_if_later(1, 0)
    assert not index.is_full
    index.append_if_later(2, 1)
    assert index.is_full


def test_the_time_index_only_takes_later_timestamps(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t")
    for timestamp, offset in ((5, 0), (5, 1), (4, 2), (6, 3)):
        index.append_if_later(timestamp, offset)
    assert [index.entry(n) for n in range(index.entries)] == [(5, 0), (6, 3)]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(-1, (-1, 7)), (99, (-1, 7)), (100, (100, 8)), (149, (100, 8)), (150, (150, 20)), (10**15, (150, 20))],
)
def test_a_time_is_looked_up_at_the_last_entry_at_or_before_it(
    tmp_path: Path, timestamp: int, found: tuple[int, int]
) -> None:
    index = time_index(tmp_path / "t", base_offset=7)
    index.append_if_later(100, 8)
    index.append_if_later(150, 20)
    assert index.lookup(timestamp) == found


def test_a_time_of_zero_is_looked_up_like_any_other(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t", base_offset=7)
    index.append_if_later(0, 8)
    assert index.lookup(0) == (0, 8)


def test_a_cleared_index_is_empty_and_takes_entries_again(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path / "i"), time_index(tmp_path / "t")
    for index in (offsets, times):
        index.append_entry(b"\1" * index.entry_size)
        index.clear()
    assert (offsets.last, times.last) == ((0, 0), (-1, 0))
    offsets.append(3, 300)
    offsets.close()
    assert (tmp_path / "i").read_bytes() == struct.pack(">ii", 3, 300)
    assert (tmp_path / "t").stat().st_size == 0


OFFSETS = {
    "a part of an entry": b"12345",
    "zeros behind the entries": struct.pack(">iiii", 4, 100, 0, 0),
    "a position that is not in the file": struct.pack(">iiii", 4, 100, 8, 1000),
    "an offset of the next segment": struct.pack(">iiii", 4, 100, 90, 200),
    "an offset that comes twice": struct.pack(">iiii", 4, 100, 4, 200),
    "a position that comes twice": struct.pack(">iiii", 4, 100, 8, 100),
    "a position before the file": struct.pack(">ii", 4, -1),
    "an offset before the segment": struct.pack(">ii", -3, 100),
    "text": b"no index",
}
TIMES = {
    "a part of an entry": b"12345",
    "zeros behind the entries": struct.pack(">qiqi", 9, 1, 0, 0),
    "times that go back": struct.pack(">qiqi", 9, 1, 5, 2),
    "an offset of the next segment": struct.pack(">qiqi", 9, 1, 10, 90),
    "an offset before the segment": struct.pack(">qi", 9, -1),
}


@pytest.mark.parametrize("what", OFFSETS)
def test_a_file_that_is_no_offset_index_is_recognised(tmp_path: Path, what: str) -> None:
    (tmp_path / "i").write_bytes(OFFSETS[what])
    assert not offset_index(tmp_path / "i", active=False).is_sane(1000, 90)


@pytest.mark.parametrize("what", TIMES)
def test_a_file_that_is_no_time_index_is_recognised(tmp_path: Path, what: str) -> None:
    (tmp_path / "t").write_bytes(TIMES[what])
    assert not time_index(tmp_path / "t", active=False).is_sane(90)


def test_indexes_are_recognised_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(struct.pack(">iiii", 4, 100, 89, 999))
    (tmp_path / "t").write_bytes(struct.pack(">qiqi", 9, 1, 10, 1))
    assert offset_index(tmp_path / "i", active=False).is_sane(1000, 90)
    assert time_index(tmp_path / "t", active=False).is_sane(90)
    assert offset_index(tmp_path / "empty", active=False).is_sane(0, None)
    (tmp_path / "first").write_bytes(struct.pack(">ii", 0, 0))
    assert offset_index(tmp_path / "first", active=False).is_sane(1, None)


def test_no_batch_before_a_position_reaches_the_offset_of_the_next_entry(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    for number in range(1, 400):
        index.append(number * 10, number * 1000)
    assert [index.end_offset_at(position) for position in (0, 1000, 1001, 399_000, 399_001)] == [10, 10, 20, 3990, None]
