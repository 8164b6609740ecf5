"""The map of keys: exact, bounded, and honest about its memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from refbroker.log.compaction.offset_map import BYTES_PER_ENTRY, OffsetMap, map_key


def test_the_last_offset_of_a_key_is_what_counts() -> None:
    offsets = OffsetMap(10 * BYTES_PER_ENTRY)
    assert offsets.put(b"short", 1)
    assert offsets.put(b"a key that is longer than any hash", 2)
    assert offsets.put(b"short", 3)
    assert (offsets.get(b"short"), offsets.get(b"a key that is longer than any hash"), offsets.get(b"")) == (3, 2, -1)
    assert len(offsets) == 2


def test_a_key_equal_to_the_hash_of_another_is_distinct() -> None:
    long_key = b"k" * 100
    offsets = OffsetMap(10 * BYTES_PER_ENTRY)
    offsets.put(long_key, 7)
    assert offsets.get(map_key(long_key)) == -1


def test_a_full_map_takes_the_keys_it_has_and_no_others() -> None:
    offsets = OffsetMap(10 * BYTES_PER_ENTRY, 0.5)
    assert [offsets.put(b"%d" % number, number) for number in range(7)] == [True] * 5 + [False] * 2
    assert offsets.put(b"3", 100)
    assert (offsets.get(b"3"), offsets.get(b"5"), len(offsets), offsets.utilization) == (100, -1, 5, 0.5)


def test_a_map_without_memory_still_takes_one_key_so_that_a_pass_gets_on() -> None:
    offsets = OffsetMap(0)
    assert offsets.put(b"a", 1)
    assert not offsets.put(b"b", 2)
    assert offsets.utilization == 1


@pytest.mark.parametrize("size", [10, 100])
def test_no_map_takes_more_memory_than_it_was_given(rng: random.Random, size: int) -> None:
    memory = 2**20 + rng.randrange(2**20)
    tracemalloc.start()
    try:
        offsets = OffsetMap(memory, 1.0)
        number = 0
        while offsets.put(rng.randbytes(size), 2**40 + number):
            number += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert number == memory // BYTES_PER_ENTRY
    # The allocator of small objects takes its memory in pieces of 16 bytes.
    assert peak <= memory
