"""The replica of the metadata log alone: what is committed is in the image, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kclient.errors import OffsetOutOfRangeError
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from refbroker.metadata.versions import LATEST
from tests.refbroker.metadata.metadata_logs import LeaderLog, Replica, effective, image_of, state_of

SEEDS = 40


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Replica]:
    made = Replica(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def leader(rng: random.Random) -> LeaderLog:
    return LeaderLog(rng)


def fetch(node: Replica, leader: LeaderLog, batches: int = 1) -> None:
    data = leader.data(node.replica.end_offset, batches)
    if data:
        node.replica.append_fetched(data, leader.epoch)


def check(node: Replica, leader: LeaderLog) -> None:
    """Check that the image is a replay of the committed records."""
    expected = effective(leader.records_below(node.replica.high_watermark))
    assert state_of(node.replica.image) == state_of(image_of(expected))


def test_records_above_the_high_watermark_are_not_in_the_image(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"))
    fetch(node, leader, 2)
    assert (node.replica.end_offset, node.replica.high_watermark) == (2, 0)
    assert not node.replica.image.topics
    node.replica.advance(1)
    assert list(node.replica.image.topics) == ["a"]
    assert (node.heard, node.replica.image.next_offset) == (leader.records_below(1), 1)


def test_a_high_watermark_beyond_the_log_commits_all_of_it(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    fetch(node, leader)
    node.replica.advance(100)
    assert node.replica.high_watermark == 1
    leader.append(TopicRecord(name="b"))
    fetch(node, leader)
    assert list(node.replica.image.topics) == ["a"]


def test_a_transaction_is_in_the_image_when_it_is_complete(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"), BeginTransactionRecord(), TopicRecord(name="b"))
    leader.append(TopicRecord(name="c"))
    leader.append(EndTransactionRecord())
    fetch(node, leader, 3)
    node.replica.advance(4)
    assert list(node.replica.image.topics) == ["a"]
    assert node.replica.in_transaction
    assert node.replica.image.next_offset == 0
    node.replica.advance(5)
    assert list(node.replica.image.topics) == ["a", "b", "c"]
    assert node.heard == [TopicRecord(name=name) for name in "abc"]
    assert node.replica.image.next_offset == 5


def test_an_aborted_transaction_never_is(node: Replica, leader: LeaderLog) -> None:
    leader.append(BeginTransactionRecord(), TopicRecord(name="b"))
    leader.append(AbortTransactionRecord())
    fetch(node, leader, 2)
    node.replica.advance(3)
    assert not node.replica.image.topics
    assert not node.replica.in_transaction


def test_fetched_batches_continue_the_log(node: Replica, leader: LeaderLog) -> None:
    leader.grow(3)
    with pytest.raises(OffsetOutOfRangeError):
        node.replica.append_fetched(leader.batches[1].data, leader.epoch)
    assert node.replica.end_offset == 0


def test_batches_of_a_later_epoch_than_the_leaders_are_ignored(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.elect(1)
    leader.append(TopicRecord(name="b"))
    node.replica.append_fetched(leader.data(0, 2), 1)
    assert (node.replica.end_offset, node.replica.last_epoch) == (1, 1)


def test_a_batch_that_is_cut_off_is_ignored(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"))
    node.replica.append_fetched(leader.data(0, 2)[:-1], leader.epoch)
    assert node.replica.end_offset == 1


def test_a_listener_may_commit_more(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"))

    def commit_more(_: object) -> None:
        fetch(node, leader)
        node.replica.advance(2)

    node.replica.listeners.insert(0, commit_more)
    fetch(node, leader)
    node.replica.advance(1)
    assert list(node.replica.image.topics) == ["a", "b"]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_restart_waits_for_the_high_watermark(node: Replica, leader: LeaderLog, clean: bool) -> None:
    leader.append(TopicRecord(name="a"))
    fetch(node, leader)
    node.replica.advance(1)
    node.replica.flush()
    node.restart(clean=clean)
    assert (node.replica.end_offset, node.replica.high_watermark) == (1, 0)
    assert not node.replica.image.topics
    node.replica.advance(1)
    assert list(node.replica.image.topics) == ["a"]


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_image_is_a_replay_of_the_log_below_the_high_watermark(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    leader, node = LeaderLog(rng), Replica(tmp_path / "data")
    leader.append(FeatureLevelRecord(name="metadata.version", feature_level=LATEST))
    for _ in range(40):
        act = rng.random()
        if act < 0.3:
            leader.grow(rng.randint(1, 3))
        elif act < 0.6:
            fetch(node, leader, rng.randint(1, 5))
        elif act < 0.9:
            ends = [batch.next_offset for batch in leader.batches if batch.next_offset >= node.replica.high_watermark]
            node.replica.advance(rng.choice(ends) if ends else 0)
        elif act < 0.95 and node.replica.high_watermark > 0 and not node.replica.in_transaction:
            await node.replica.take_snapshot()
        else:
            node.restart(clean=rng.random() < 0.5)
        check(node, leader)
    node.close()
