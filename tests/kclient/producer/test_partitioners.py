"""Partitioners: the same places as other clients, even spreads, and what an option may be."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import ConfigError
from kclient.producer.partitioners import (
    ConsistentRandomPartitioner,
    Partitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    make_partitioner,
    partition_for_key,
)

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "assignors.jsonl"

SAMPLE = [
    ("9862f4b62fa0666d872ec93622df26a1366d", 41, 32),
    ("1d77230bbd66708d46f54e6fa2485770d4ad85ab2c6c49fba5edf2", 92, 88),
    ("8bdd26859b", 9, 6),
    ("ec", 55, 33),
    ("c8b007fefec15ec71e64aa58c073c59d354dc12e7b153b47a9ff0952016d6e", 43, 22),
    ("7676b85ddb9b6e3cb95b62", 70, 45),
]
"""Hexadecimal key, number of partitions, and where the Java client puts it."""


@pytest.mark.parametrize(("key", "partitions", "expected"), SAMPLE)
def test_keys_go_where_the_java_client_puts_them(key: str, partitions: int, expected: int) -> None:
    assert partition_for_key(bytes.fromhex(key), partitions) == expected


@pytest.mark.skipif(not GOLDEN.exists(), reason="the whole list of golden hashes is not on this machine")
def test_all_golden_keys_go_where_the_java_client_puts_them() -> None:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    cases = [line for line in lines if line["kind"] == "murmur2"]
    assert cases
    for case in cases:
        assert partition_for_key(bytes.fromhex(case["key"]), case["partitions"]) == case["partition"]


def test_round_robin_takes_turns_per_topic() -> None:
    partitioner = RoundRobinPartitioner()
    assert [partitioner.partition("a", b"k", b"v", 3, [0, 1, 2]) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner.partition("b", None, None, 3, [0, 2]) == 0
    assert partitioner.partition("b", None, None, 3, [0, 2]) == 2
    assert partitioner.partition("c", None, None, 3, []) == 0


def test_random_spreads_evenly_over_available_partitions() -> None:
    partitioner = RandomPartitioner(seed=3)
    counts = Counter(partitioner.partition("t", b"same", b"v", 4, [0, 1, 3]) for _ in range(3000))
    assert set(counts) == {0, 1, 3}
    assert all(900 < count < 1100 for count in counts.values())
    assert partitioner.partition("t", None, None, 1, []) == 0


def test_consistent_random_is_librdkafka_s() -> None:
    partitioner = ConsistentRandomPartitioner(seed=3)
    # CRC-32 of "123456789" is cbf43926 by definition of the checksum.
    assert partitioner.partition("t", b"123456789", b"v", 1000, [0]) == 0xCBF43926 % 1000
    assert {partitioner.partition("t", key, b"v", 3, [0, 1, 2]) for key in (None, b"") for _ in range(50)} == {0, 1, 2}
    assert partitioner.partition("t", None, b"v", 1, []) == 0


def test_an_option_names_a_partitioner_or_is_one() -> None:
    assert make_partitioner("default") is None
    assert isinstance(make_partitioner("round_robin"), RoundRobinPartitioner)
    own: Any = RandomPartitioner()
    assert isinstance(own, Partitioner)
    assert make_partitioner(own) is own
    for wrong in ("roundrobin", 5, None):
        with pytest.raises(ConfigError, match="partitioner must"):
            make_partitioner(wrong)
