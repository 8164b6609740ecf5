"""A replica of the metadata log that follows a leader: truncation, snapshots that replace the log, and crashes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest

from kclient.errors import IllegalStateError, KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.log import Files
from refbroker.metadata.image_records import image_records
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, write_snapshot
from refbroker.metadata.versions import LATEST
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.refbroker.metadata.metadata_logs import (
    NOW_MS,
    Batch,
    LeaderLog,
    Replica,
    effective,
    image_of,
    in_transaction,
    state_of,
)

SEEDS = 40
FIRST = FeatureLevelRecord(name="metadata.version", feature_level=LATEST)


class Follower(Replica):
    """A replica that fetches from a leader.

    Attributes:
        batches: the batches that it has, after its snapshot.
    """

    can_fetch = True

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        super().__init__(directory, files)
        self.batches: list[Batch] = []
        self._start = 0

    def fetch(self, leader: LeaderLog, batches: int = 100) -> None:
        """Fetch some batches, and append them."""
        begin = self.replica.end_offset
        data = leader.data(begin, batches)
        if data:
            self.replica.append_fetched(data, leader.epoch)
            self.batches += [one for one in leader.batches if begin <= one.offset < self.replica.end_offset]

    def truncate(self, leader: LeaderLog) -> None:
        """Remove what the leader does not have."""
        self.batches = list(takewhile(leader.batches.__contains__, self.batches))
        end = self.batches[-1].next_offset if self.batches else self._start
        if end < self.replica.end_offset:
            self.replica.truncate(end)

    def start_from(self, snapshot_id: SnapshotId) -> None:
        """Replace the log by a snapshot that is stored."""
        self.replica.start_from_snapshot(snapshot_id)
        self.batches, self._start = [], snapshot_id.offset


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Follower]:
    made = Follower(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def leader(rng: random.Random) -> LeaderLog:
    made = LeaderLog(rng)
    made.append(FIRST)
    return made


def store_snapshot(node: Follower, leader: LeaderLog, offset: int, files: Files | None = None) -> SnapshotId:
    """Store the leader's snapshot at the end of a batch in the directory of a node, as a fetch of it does."""
    epoch = next(batch.epoch for batch in leader.batches if batch.next_offset == offset)
    snapshot_id = SnapshotId(offset, epoch)
    image = image_of(effective(leader.records_below(offset)))
    snapshot = Snapshot(list(image_records(image)), NOW_MS)
    batches = encode_snapshot(snapshot, epoch, image.metadata_version, NOW_MS)
    write_snapshot(files or Files(durable=False), node.replica.directory / snapshot_id.file_name, batches)
    return snapshot_id


def check(node: Follower, leader: LeaderLog) -> None:
    """Check that the image is a replay of what the leader has committed."""
    expected = effective(leader.records_below(node.replica.high_watermark))
    assert state_of(node.replica.image) == state_of(image_of(expected))


# Truncation


def test_a_truncated_record_never_reaches_the_image(node: Follower, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="lost"))
    node.fetch(leader)
    node.replica.advance(2)
    leader.elect(2)
    leader.append(TopicRecord(name="b"))
    node.replica.truncate(2)
    assert (node.replica.end_offset, node.replica.last_epoch) == (2, 1)
    node.fetch(leader)
    node.replica.advance(3)
    assert list(node.replica.image.topics) == ["a", "b"]
    assert node.replica.last_epoch == 2


def test_what_is_committed_cannot_be_truncated(node: Follower, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    node.fetch(leader)
    node.replica.advance(2)
    with pytest.raises(IllegalStateError, match="committed up to 2"):
        node.replica.truncate(1)
    assert (node.replica.end_offset, list(node.replica.image.topics)) == (2, ["a"])


def test_a_transaction_may_lose_its_end(node: Follower, leader: LeaderLog) -> None:
    leader.append(BeginTransactionRecord(), TopicRecord(name="a"))
    leader.append(EndTransactionRecord())
    node.fetch(leader)
    node.replica.advance(3)
    node.replica.truncate(3)
    leader.elect(2)
    node.fetch(leader)
    node.replica.advance(4)
    assert not node.replica.image.topics
    assert not node.replica.in_transaction


# Snapshots


def test_a_snapshot_replaces_a_log_that_ends_before_it(node: Follower, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    node.fetch(leader)
    leader.append(TopicRecord(name="b"))
    leader.append(TopicRecord(name="c"))
    node.start_from(store_snapshot(node, leader, 3))
    assert (node.replica.end_offset, node.replica.high_watermark, node.replica.last_epoch) == (3, 3, 1)
    assert list(node.replica.image.topics) == ["a", "b"]
    node.fetch(leader)
    node.replica.advance(4)
    assert list(node.replica.image.topics) == ["a", "b", "c"]
    check(node, leader)


def test_what_a_snapshot_lacks_is_removed_from_the_image(node: Follower, leader: LeaderLog) -> None:
    gone, kept = (TopicRecord(name=name, topic_id=_id(name)) for name in ("gone", "kept"))
    leader.append(gone, kept, PartitionRecord(topic_id=kept.topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0))
    leader.append(_config("gone"), _config("kept"))
    node.fetch(leader)
    image = node.replica.image
    node.replica.advance(node.replica.end_offset)
    assert image.config(2, "gone")
    leader.append(RemoveTopicRecord(topic_id=gone.topic_id))
    leader.append(ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value=None))
    leader.append(TopicRecord(name="gone", topic_id=_id("gone again")))
    node.heard.clear()
    node.start_from(store_snapshot(node, leader, leader.end_offset))
    check(node, leader)
    # Other parts hold the image, and learn the difference as records.
    assert node.replica.image is image
    assert RemoveTopicRecord(topic_id=gone.topic_id) in node.heard
    assert image.topics["gone"].topic_id == _id("gone again")
    assert not image.config(2, "gone")


def test_a_snapshot_ends_a_transaction_that_was_fetched_in_part(node: Follower, leader: LeaderLog) -> None:
    leader.append(BeginTransactionRecord(), TopicRecord(name="a"))
    node.fetch(leader)
    node.replica.advance(3)
    leader.append(EndTransactionRecord())
    leader.append(TopicRecord(name="b"))
    node.start_from(store_snapshot(node, leader, 4))
    assert (node.replica.in_transaction, list(node.replica.image.topics)) == (False, ["a"])
    node.fetch(leader)
    node.replica.advance(5)
    check(node, leader)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_restart_continues_after_the_snapshot(node: Follower, leader: LeaderLog, clean: bool) -> None:
    leader.append(TopicRecord(name="a"))
    leader.append(TopicRecord(name="b"))
    node.start_from(store_snapshot(node, leader, 2))
    node.fetch(leader)
    node.replica.flush()
    node.restart(clean=clean)
    assert (node.replica.high_watermark, node.replica.end_offset) == (2, 3)
    assert list(node.replica.image.topics) == ["a"]
    node.replica.advance(3)
    check(node, leader)


def test_a_damaged_snapshot_changes_nothing(node: Follower, leader: LeaderLog) -> None:
    leader.append(TopicRecord(name="a"))
    node.fetch(leader)
    node.replica.advance(2)
    leader.append(TopicRecord(name="b"))
    snapshot_id = store_snapshot(node, leader, 3)
    path = node.replica.directory / snapshot_id.file_name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KafkaStorageError):
        node.start_from(snapshot_id)
    assert (node.replica.end_offset, list(node.replica.image.topics)) == (2, ["a"])


# All together


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_follower_has_the_image_of_its_leader_at_every_offset(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    leader, node = LeaderLog(rng), Follower(tmp_path / "data")
    leader.append(FIRST)
    committed = 0
    for _ in range(60):
        act = rng.random()
        if act < 0.25:
            leader.grow(rng.randint(1, 3))
        elif act < 0.5:
            node.fetch(leader, rng.randint(1, 5))
        elif act < 0.7:
            known = [batch.next_offset for batch in leader.batches if batch.next_offset <= node.replica.end_offset]
            node.replica.advance(rng.choice(known) if known else 0)
            committed = max(committed, node.replica.high_watermark)
        elif act < 0.8:
            # The next leader has all that is committed, and perhaps not all that was appended.
            keep = [number for number, batch in enumerate(leader.batches, 1) if batch.next_offset >= committed]
            leader.elect(rng.choice(keep))
            node.truncate(leader)
        elif act < 0.9:
            ends = [batch.next_offset for batch in leader.batches if batch.next_offset > node.replica.end_offset]
            ends = [end for end in ends if not _in_transaction(leader, end)]
            if ends:
                node.start_from(store_snapshot(node, leader, rng.choice(ends)))
                committed = max(committed, node.replica.high_watermark)
        else:
            node.restart(clean=rng.random() < 0.5)
            node.truncate(leader)
        check(node, leader)
    node.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_power_failure_while_a_snapshot_replaces_the_log_loses_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = SimulatedDisk()
    leader, node = LeaderLog(rng), Follower(tmp_path / "data", disk)
    leader.append(FIRST)
    leader.grow(6)
    node.fetch(leader, 3)
    node.replica.flush()
    if _in_transaction(leader, leader.end_offset):
        leader.append(EndTransactionRecord())
    snapshot_id = store_snapshot(node, leader, leader.end_offset, disk)
    disk.fail(after=rng.randrange(40))
    with suppress(KafkaStorageError):
        node.start_from(snapshot_id)
    node.close()
    disk.lose_unflushed(rng.randrange(1 << 30))
    node.open()
    # The snapshot is complete, so the node starts with it, whatever is left of the log.
    assert node.replica.end_offset == snapshot_id.offset
    node.replica.advance(leader.end_offset)
    check(node, leader)
    node.close()


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def _config(topic: str) -> Message:
    return ConfigRecord(resource_type=2, resource_name=topic, name="retention.ms", value="1")


def _in_transaction(leader: LeaderLog, offset: int) -> bool:
    return in_transaction(leader.records_below(offset))
