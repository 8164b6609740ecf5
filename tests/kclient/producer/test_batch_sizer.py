"""Batches grow with the distance of the broker."""

from __future__ import annotations

import pytest

from kclient.producer.batch_sizer import COLD, REQUEST, SMALLEST, BatchSizer
from tests.support.producer_model import Model


def warm(batch_size: int = 1_000_000) -> BatchSizer:
    batch_sizer = BatchSizer(batch_size)
    for node in (1, 2, 3):
        for _ in range(COLD):
            batch_sizer.answered(node, 1.0, 1)
    return batch_sizer


def test_near_brokers_get_small_batches_and_far_ones_large_ones() -> None:
    batch_sizer = warm()
    assert batch_sizer.size(1, 1, 1.0) == REQUEST
    batch_sizer.answered(1, 0.0002, 1)
    batch_sizer.answered(2, 0.008, 1)
    batch_sizer.answered(3, 0.1, 1)
    assert [batch_sizer.size(node, 1, 1.0) for node in (1, 2, 3)] == [REQUEST, 800_000, 1_000_000]


def test_partitions_share_a_request() -> None:
    assert [BatchSizer(1_000_000).size(1, count, 1.0) for count in (1, 2, 4, 100)] == [
        REQUEST,
        REQUEST // 2,
        SMALLEST,
        SMALLEST,
    ]


def test_a_busy_broker_is_not_mistaken_for_a_distant_one() -> None:
    batch_sizer = warm()
    batch_sizer.answered(1, 0.001, 1)
    for _ in range(20):
        batch_sizer.answered(1, 0.005, 5)
    assert batch_sizer.size(1, 1, 1.0) == REQUEST


def test_one_slow_answer_does_not_count_for_much() -> None:
    batch_sizer = warm()
    batch_sizer.answered(1, 0.0005, 1)
    batch_sizer.answered(1, 0.02, 1)
    assert batch_sizer.size(1, 1, 1.0) == REQUEST


def test_what_counts_is_the_size_on_the_wire() -> None:
    assert BatchSizer(1_000_000).size(1, 4, 0.25) == 4 * SMALLEST
    assert BatchSizer(1_000_000).size(1, 1, 0.0) == 1_000_000


def test_batch_size_is_the_most() -> None:
    assert BatchSizer(10_000).size(1, 1, 1.0) == 10_000


def test_answers_set_the_size_of_later_batches() -> None:
    model = Model()
    for _ in range(COLD + 1):
        model.send()
        request = model.one()
        model.now += 0.007
        model.answer(request)
    model.send()
    model.poll()
    assert model.topic.partitions[0].target == pytest.approx(700_000, abs=10)
