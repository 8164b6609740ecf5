"""Partitioners: the same places as other clients, even spreads, and what an option may be."""

from __future__ import annotations

from collections import Counter
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
from tests.support.golden_data import golden_assignor_rows


def test_keys_go_where_the_java_client_puts_them() -> None:
    for case in golden_assignor_rows("murmur2"):
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
    for wrong in ("roundrobin", 5, None, int):
        with pytest.raises(ConfigError, match="partitioner must"):
            make_partitioner(wrong)


def test_a_partitioner_class_in_place_of_an_object_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not the class RandomPartitioner\. Did you mean RandomPartitioner\(\)\?$"):
        make_partitioner(RandomPartitioner)
