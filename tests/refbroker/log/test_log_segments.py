"""The segments of a log: found by offset, and how large they are together."""

from __future__ import annotations

import random
from pathlib import Path

from refbroker.log import Files, LogConfig, PartitionLog
from refbroker.log.log_segments import LogSegments
from refbroker.log.segment import Segment
from tests.support.stores import Store, append

FILES = Files(durable=False)


class CountedSegment(Segment):
    """A segment that counts how often somebody asks for its size."""

    asked = 0

    @property
    def size(self) -> int:
        self.asked += 1
        return self.base_offset + 1

    @size.setter
    def size(self, size: int) -> None:
        pass


def bytes_of(log: PartitionLog) -> int:
    return sum(segment.size for segment in log.segments)


def test_the_size_follows_appends_rolls_and_deletions(store: Store, rng: random.Random) -> None:
    log = store.log()
    for _ in range(300):
        action = rng.random()
        if action < 0.8:
            append(log, rng.randrange(1, 5), size=rng.randrange(300))
        elif action < 0.9:
            log.roll()
        else:
            log.delete_segments([each for each in log.segments if each.size][: rng.randrange(3)], "the test says so")
        assert log.size_in_bytes() == bytes_of(log)
    log = store.reopened(clean=rng.random() < 0.5)
    assert log.size_in_bytes() == bytes_of(log)


def test_the_size_looks_at_the_active_segment_alone_until_another_one_is_made(tmp_path: Path) -> None:
    segments = LogSegments()
    assert segments.size_in_bytes == 0
    made = [CountedSegment(FILES, tmp_path, base, LogConfig(), created_ms=0, create=True) for base in (0, 10, 20)]
    for segment in made[:2]:
        segments.add(segment)
    assert [segments.size_in_bytes for _ in range(5)] == [12] * 5
    assert [segment.asked for segment in made] == [1, 5, 0]
    segments.add(made[2])
    assert segments.size_in_bytes == 33
    segments.remove(made[0])
    assert segments.size_in_bytes == 32
    segments.remove(made[2])
    assert segments.size_in_bytes == 11


def test_a_segment_is_among_them_only_itself(tmp_path: Path) -> None:
    segments = LogSegments()
    first, same = (Segment(FILES, tmp_path, 5, LogConfig(), created_ms=0, create=True) for _ in range(2))
    assert first not in segments
    segments.add(first)
    assert (first in segments, same in segments) == (True, False)
    segments.remove(first)
    assert first not in segments
