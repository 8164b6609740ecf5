"""Adaptive partitioning: longer queues get fewer records, silent brokers none."""

from __future__ import annotations

from collections import Counter

from kclient.producer.load import PartitionLoad
from tests.support.producer_model import Model


def chosen(model: Model) -> Counter[int]:
    return Counter(model.topic.next_partition() for _ in range(4000))


def load(model: Model) -> PartitionLoad:
    return PartitionLoad(model.config, model.accumulator, model.metadata)


def fill(model: Model, sizes: list[int]) -> None:
    for partition, size in enumerate(sizes):
        for _ in range(size):
            model.send(b"x" * 90, partition=partition)


def test_longer_queues_are_chosen_less_often() -> None:
    model = Model(leaders=[1, 1, 1], batch_size=120)
    fill(model, [0, 3, 1])
    partitions = model.metadata.cluster.partitions("t")
    assert partitions is not None
    load(model).look(model.topic, partitions, ())
    counts = chosen(model)
    assert 1850 < counts[0] < 2150
    assert 400 < counts[1] < 600
    assert 1350 < counts[2] < 1650


def test_equal_queues_are_chosen_equally_again() -> None:
    model = Model(leaders=[1, 1], batch_size=120)
    partitions = model.metadata.cluster.partitions("t")
    assert partitions is not None
    weigher = load(model)
    fill(model, [0, 9])
    weigher.look(model.topic, partitions, ())
    assert chosen(model)[0] > 3000
    fill(model, [9, 0])
    weigher.look(model.topic, partitions, ())
    assert 1850 < chosen(model)[0] < 2150


def test_partitions_of_silent_brokers_and_without_leaders_are_omitted() -> None:
    model = Model(leaders=[1, 2, None])
    partitions = model.metadata.cluster.partitions("t")
    assert partitions is not None
    load(model).look(model.topic, partitions, {2})
    assert set(chosen(model)) == {0}


def test_it_can_be_turned_off() -> None:
    model = Model(leaders=[1, 2], batch_size=120, partitioner_adaptive_partitioning_enable=False)
    fill(model, [0, 9])
    partitions = model.metadata.cluster.partitions("t")
    assert partitions is not None
    load(model).look(model.topic, partitions, ())
    assert 1850 < chosen(model)[0] < 2150


def test_the_sender_avoids_a_broker_that_takes_nothing() -> None:
    model = Model(leaders=[1, 2], batch_size=120, partitioner_availability_timeout_ms=50)
    model.nodes.down.add(2)
    fill(model, [1, 1])
    model.poll()
    model.now += 0.1
    model.poll()
    assert set(chosen(model)) == {0}
