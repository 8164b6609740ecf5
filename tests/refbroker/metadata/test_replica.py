"""The replica of the metadata log alone: what is committed is in the image, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import IllegalStateError, KafkaStorageError, OffsetOutOfRangeError
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.metadata.image_records import image_records
from refbroker.metadata.snapshot_file import SnapshotId
from refbroker.metadata.versions import LATEST
from tests.refbroker.metadata.metadata_logs import LeaderLog, Replica, effective, image_of, in_transaction, state_of

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


# Another leader's log


def test_a_diverging_end_is_cut_and_replaced(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"))
    fetch(node, leader, 2)
    node.replica.advance(1)
    leader.elect(1)
    leader.append(TopicRecord(name="c"))
    assert node.replica.end_offset_for_epoch(leader.epoch) == (1, 2)
    node.replica.truncate(1)
    fetch(node, leader)
    node.replica.advance(2)
    assert list(node.replica.image.topics) == ["a", "c"]
    assert (node.replica.end_offset, node.replica.last_epoch) == (2, 2)


def test_what_is_committed_is_not_cut(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    fetch(node, leader)
    node.replica.advance(1)
    with pytest.raises(IllegalStateError):
        node.replica.truncate(0)
    assert node.replica.end_offset == 1


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_image_is_right_over_leaders_snapshots_and_restarts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    leader, node = LeaderLog(rng), Replica(tmp_path / "data")
    node.can_fetch = True
    # A snapshot has the level also if the log does not.
    leader.append(FeatureLevelRecord(name="metadata.version", feature_level=LATEST))
    for _ in range(30):
        action = rng.random()
        if action < 0.4:
            leader.grow(rng.randint(1, 3))
        elif action < 0.5 and leader.batches:
            kept = [n for n, batch in enumerate(leader.batches, 1) if batch.next_offset >= node.replica.high_watermark]
            leader.elect(rng.choice(kept))
            common = max(
                (batch.next_offset for batch in leader.batches if batch.epoch < leader.epoch),
                default=0,
            )
            node.replica.truncate(max(min(common, node.replica.end_offset), node.replica.high_watermark))
        elif action < 0.6 and leader.end_offset > node.replica.end_offset:
            ends = [batch for batch in leader.batches if batch.next_offset > node.replica.end_offset]
            ends = [batch for batch in ends if not in_transaction(leader.records_below(batch.next_offset))]
            if ends:
                last = rng.choice(ends)
                snapshot_id = SnapshotId(last.next_offset, last.epoch)
                state = image_of(effective(leader.records_below(last.next_offset)))
                node.store_snapshot(snapshot_id, list(image_records(state)))
                if rng.random() < 0.5:
                    node.replica.start_from_snapshot(snapshot_id)
                else:
                    # A crash comes before the log starts with the snapshot.
                    node.restart(clean=False)
                assert (node.replica.end_offset, node.replica.high_watermark) == (last.next_offset, last.next_offset)
        elif action < 0.65:
            node.restart(clean=rng.random() < 0.5)
        else:
            fetch(node, leader, rng.randint(1, 3))
            ends = [batch for batch in leader.batches if batch.next_offset <= node.replica.end_offset]
            node.replica.advance(rng.choice(ends).next_offset if ends else 0)
        check(node, leader)
    node.close()


def test_a_high_watermark_within_a_batch_commits_what_is_before_the_batch(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"), TopicRecord(name="c"))
    fetch(node, leader, 2)
    node.replica.advance(2)
    assert list(node.replica.image.topics) == ["a"]
    node.replica.advance(3)
    assert list(node.replica.image.topics) == ["a", "b", "c"]


def test_listeners_get_what_a_snapshot_has_removed_and_added(node: Replica, leader: LeaderLog) -> None:
    a, b = UUID(int=1), UUID(int=2)
    leader.append(TopicRecord(name="a", topic_id=a), TopicRecord(name="b", topic_id=b))
    fetch(node, leader)
    node.replica.advance(2)
    node.heard.clear()
    snapshot_id = SnapshotId(50, 3)
    node.store_snapshot(snapshot_id, [TopicRecord(name="b", topic_id=b)])
    node.replica.start_from_snapshot(snapshot_id)
    assert node.heard == [RemoveTopicRecord(topic_id=a), TopicRecord(name="b", topic_id=b)]
    assert (node.replica.end_offset, node.replica.last_epoch, node.replica.image.next_offset) == (50, 3, 50)
    assert node.replica.has_snapshot(snapshot_id)


def test_an_older_snapshot_is_removed_when_the_log_starts_with_a_later_one(node: Replica) -> None:
    for offset in (10, 20):
        node.store_snapshot(SnapshotId(offset, 1), [TopicRecord(name="a")])
        node.replica.start_from_snapshot(SnapshotId(offset, 1))
    assert [path.name for path in node.replica.directory.glob("*.checkpoint")] == [SnapshotId(20, 1).file_name]


async def test_a_snapshot_is_removed_if_the_log_starts_with_a_later_one_when_it_is_written(
    node: Replica, leader: LeaderLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.append(TopicRecord(name="a"))
    fetch(node, leader)
    node.replica.advance(1)
    fetched = SnapshotId(20, 1)

    async def overtaken(function: Callable[..., int], *args: Any) -> int:
        size = function(*args)
        node.store_snapshot(fetched, [TopicRecord(name="b")])
        node.replica.start_from_snapshot(fetched)
        return size

    monkeypatch.setattr("refbroker.metadata.replica.in_thread", overtaken)
    await node.replica.take_snapshot()
    assert node.replica.latest_snapshot == fetched
    assert [path.name for path in node.replica.directory.glob("*.checkpoint")] == [fetched.file_name]


def test_a_log_that_nobody_else_has_is_not_replaced_by_a_later_snapshot(node: Replica, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    fetch(node, leader)
    node.store_snapshot(SnapshotId(50, 3), [])
    node.logs.close()
    with pytest.raises(KafkaStorageError, match="ends at offset 1, before its snapshot"):
        node.open()
