"""The scenarios of loss and divergence, without and with leader epochs, step by step on the machines.

Two replicas, A and B, with `min.insync.replicas` of 1. Offsets begin at 0, so "message 1" is the second one. Without
leader epochs, a follower begins at its high watermark, as before KIP-101.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from unittest import mock

import pytest

from refbroker.metadata.image import PartitionState
from refbroker.replication import divergence
from tests.sim.replication.controller import Image, SeenBroker
from tests.sim.replication.memory_log import Entry
from tests.sim.replication.mutants import truncate_to_high_watermark
from tests.sim.replication.node import Events, Node

A, B, C = 1, 2, 3


class Pair:
    """Two replicas or more, between which nothing happens but what a test says."""

    def __init__(self, *others: int) -> None:
        self.acknowledged: list[int] = []
        events = Events(
            acknowledged=lambda _node, _offset, entry: self.acknowledged.append(entry.value),
            appended=lambda *_: None,
            led=lambda _: None,
            moved=lambda *_: None,
            happened=lambda _: None,
        )
        self.nodes = {number: Node(number, 1, lambda: 1000, events) for number in (A, B, *others)}
        self.epoch = -1
        self.image: Image
        self.version = -1
        for node in self.nodes.values():
            node.broker_epoch = node.node_id
            node.start()

    def elect(self, leader: int, isr: list[int], *, seen_by: Collection[int] = (A, B, C)) -> None:
        """Begin the next leader epoch, of which only some replicas receive the metadata."""
        self.epoch += 1
        self.version += 1
        state = PartitionState(0, list(self.nodes), isr, leader, self.epoch, self.version, [], [], [])
        self.image = Image(state, {number: SeenBroker(number, fenced=False) for number in self.nodes})
        for node in self.nodes.values():
            if node.alive and node.node_id in seen_by:
                node.apply(self.image, self.version)

    def write(self, leader: int, *values: int) -> None:
        for value in values:
            assert self.nodes[leader].produce(value)

    def fetch(self, follower: int) -> None:
        """Let a follower fetch once."""
        node = self.nodes[follower]
        (target,) = node.fetcher.targets(1000)
        leader = self.nodes[node.partition.leader]
        data = leader.serve(follower, follower, target, random.Random(0))
        assert node.on_fetched(target, data.answer, data.read()) is None

    def stop(self, number: int, *, keeps: int | None = None) -> None:
        """Stop a replica; with `keeps`, its power fails, and it keeps its records up to that offset."""
        node = self.nodes[number]
        node.log.save_high_watermark()
        if keeps is not None:
            node.log.truncate_to(keeps)
        node.log.crash()
        node.stop()

    def start(self, number: int) -> None:
        """Start a replica, which applies the present metadata."""
        node = self.nodes[number]
        node.start()
        node.apply(self.image, self.version)

    def figures(self, number: int) -> tuple[int, int]:
        """Return high watermark and log end offset."""
        log = self.nodes[number].log
        return log.high_watermark, log.log_end_offset

    def values(self, number: int) -> list[int]:
        return [entry.value for entry in self.nodes[number].log.entries]

    def epochs(self, number: int) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.start_offset) for entry in self.nodes[number].log.epochs.entries]


@pytest.fixture
def pair() -> Pair:
    """Return A, with HW=1 and LEO=2, and B, with HW=1 and LEO=1."""
    pair = Pair()
    pair.elect(A, [A, B])
    pair.write(A, 100)
    # The record, the acknowledgement, and the high watermark, which is that before the fetch.
    for _ in range(3):
        pair.fetch(B)
    pair.write(A, 101)
    assert pair.figures(A) == (1, 2)
    assert pair.figures(B) == (1, 1)
    return pair


@pytest.fixture
def without_epochs() -> Iterator[None]:
    with mock.patch.object(divergence, "following_start", truncate_to_high_watermark):
        yield


@pytest.mark.usefixtures("without_epochs")
def test_loss_with_truncation_to_the_high_watermark(pair: Pair) -> None:
    pair.fetch(B)
    assert pair.figures(B) == (1, 2), "the response had message 1, and the high watermark before it"
    pair.stop(B)
    pair.start(B)
    assert pair.figures(B) == (1, 1), "message 1 is gone from B"
    pair.stop(A)
    pair.elect(B, [B])
    pair.start(A)
    assert pair.figures(A) == (1, 1)
    assert pair.values(A) == pair.values(B) == [100], "message 1 is lost permanently"


@pytest.mark.usefixtures("without_epochs")
def test_divergence_with_truncation_to_the_high_watermark(pair: Pair) -> None:
    pair.fetch(B)
    target = pair.nodes[B].fetcher.targets(1000)[0]
    pair.nodes[A].serve(B, B, target, random.Random(0))
    assert pair.figures(A) == (2, 2), "the fetch at 2 acknowledges message 1"
    assert pair.figures(B) == (1, 2), "its response does not arrive"
    assert pair.acknowledged == [100, 101]
    pair.stop(B)
    pair.stop(A)
    pair.start(B)
    assert pair.figures(B) == (1, 1)
    pair.elect(B, [B])
    pair.write(B, 201)
    pair.start(A)
    assert pair.figures(A) == (2, 2), "A truncates nothing"
    pair.fetch(A)
    assert pair.values(A) == [100, 101]
    assert pair.values(B) == [100, 201], "offset 1 differs"


def test_with_leader_epochs_the_loss_does_not_happen(pair: Pair) -> None:
    pair.fetch(B)
    pair.stop(B)
    pair.start(B)
    pair.fetch(B)
    assert pair.figures(B)[1] == 2, "A answers that epoch 0 ends at 2: nothing is truncated"
    pair.stop(A)
    pair.elect(B, [B])
    assert pair.epochs(B) == [(0, 0), (1, 2)]
    pair.start(A)
    pair.fetch(A)
    assert pair.values(A) == pair.values(B) == [100, 101]


def test_with_leader_epochs_logs_do_not_diverge(pair: Pair) -> None:
    pair.fetch(B)
    pair.fetch(B)
    assert pair.figures(A) == (2, 2)
    pair.stop(B, keeps=1)
    pair.stop(A)
    pair.start(B)
    pair.elect(B, [B])
    pair.write(B, 201)
    assert pair.epochs(B) == [(0, 0), (1, 1)]
    pair.start(A)
    pair.fetch(A)
    assert pair.figures(A)[1] == 1, "B answers that epoch 0 ends at 1: A truncates message 1"
    pair.fetch(A)
    assert pair.epochs(A) == [(0, 0), (1, 1)]
    assert pair.values(A) == pair.values(B) == [100, 201]
    # What is left with min.insync.replicas=1: A was down when B asked, and message 1 is lost, though acknowledged.
    assert 101 in pair.acknowledged


def test_leader_that_missed_another_one_does_not_rely_on_earlier_fetches() -> None:
    trio = Pair(C)
    trio.elect(A, [A, B, C])
    trio.write(A, 100)
    for _ in range(2):
        trio.fetch(B)
        trio.fetch(C)
    trio.write(A, 101)
    for _ in range(2):
        trio.fetch(C)
    assert trio.acknowledged == [100], "B lacks message 1"
    trio.elect(B, [A, B, C], seen_by=[B])
    elected = trio.image
    trio.elect(A, [A, C], seen_by=[A])
    assert trio.figures(A) == (1, 2), "what C had in epoch 0, it may have truncated in epoch 1"
    trio.nodes[C].apply(elected, 1)
    trio.fetch(C)
    assert trio.values(C) == [100], "B, which has not received the end of its leadership, answers"
    trio.nodes[C].apply(trio.image, 2)
    for _ in range(2):
        trio.fetch(C)
    assert trio.acknowledged == [100, 101]
    assert trio.values(C) == [100, 101]


def test_end_of_an_epoch_is_the_log_end_or_the_start_of_the_next_one() -> None:
    log = Pair().nodes[A].log
    for offset in range(150):
        log.append(Entry(0 if offset < 100 else 1, offset))
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (1, 100)]
    assert log.end_offset_for_epoch(1) == (1, 150)
    assert log.end_offset_for_epoch(0) == (0, 100)
