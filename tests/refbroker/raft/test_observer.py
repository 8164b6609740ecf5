"""The observer of the metadata log: what it asks, and what scripted responses do to its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import KafkaStorageError, ProtocolError
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord
from refbroker.log import Files
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot
from refbroker.metadata.versions import LATEST
from refbroker.peers.network import Peer
from refbroker.peers.quorum import ControllerQuorum
from refbroker.raft.observer import RETRY_MS, TOPIC_ID, Observer, ObserverSettings
from tests.support.metadata_fetching import MemoryLog, batch, fetched

VOTERS = [Peer(number, f"controller-{number}", 9093) for number in (1, 2, 3)]
DIRECTORY = UUID(int=77)
ONE = VOTERS[0]
SNAPSHOT = SnapshotId(40, 3)


class Setup:
    """An observer with its log."""

    def __init__(self, directory: Path) -> None:
        self.log = MemoryLog(directory)
        self.quorum = ControllerQuorum(VOTERS)
        self.stored: list[tuple[int, int]] = []
        settings = ObserverSettings(7, DIRECTORY, "cluster", 1_000_000, 500)
        self.observer = Observer(
            settings, self.log, self.quorum, Files(), lambda leader, epoch: self.stored.append((leader, epoch))
        )

    def respond(self, peer: Peer = ONE, **partition: Any) -> int:
        return self.observer.on_response(peer, fetched(**partition))

    def fetch_partition(self) -> FetchRequest.FetchPartition:
        _, request = self.observer.request()
        assert isinstance(request, FetchRequest)
        return request.topics[0].partitions[0]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


# Requests


def test_an_empty_log_is_fetched_from_offset_0_and_epoch_0(setup: Setup) -> None:
    peer, request = setup.observer.request()
    assert peer == ONE
    assert isinstance(request, FetchRequest)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, -1)
    assert (request.cluster_id, request.max_wait_ms, request.topics[0].topic_id) == ("cluster", 500, TOPIC_ID)
    partition = request.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch) == (0, 0, 0)
    assert partition.high_watermark == -1


def test_records_are_appended_and_replayed_below_the_high_watermark_only(setup: Setup) -> None:
    assert setup.respond(records=batch(0, 3, 2) + batch(3, 2, 3), high_watermark=3) == 0
    assert (setup.log.end_offset, setup.log.high_watermark) == (5, 3)
    partition = setup.fetch_partition()
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch) == (5, 3, 3)
    assert partition.high_watermark == 3


def test_a_high_watermark_beyond_the_log_counts_as_its_end(setup: Setup) -> None:
    setup.respond(records=batch(0, 3, 2), high_watermark=1000)
    assert setup.log.high_watermark == 3


def test_a_lower_high_watermark_changes_nothing(setup: Setup) -> None:
    setup.respond(records=batch(0, 3, 2), high_watermark=3)
    setup.respond(high_watermark=1)
    assert setup.log.high_watermark == 3


def test_the_leader_and_epoch_are_stored_before_records_are_appended(setup: Setup) -> None:
    setup.respond(records=batch(0, 1, 3))
    setup.respond(records=batch(1, 1, 3))
    setup.respond(epoch=4, leader=2)
    assert setup.stored == [(1, 3), (2, 4)]


# Where the leader is


@pytest.mark.parametrize("code", [6, 74, 75], ids=["not leader", "fenced epoch", "unknown epoch"])
def test_an_error_with_a_leader_is_followed_at_once(setup: Setup, code: int) -> None:
    assert setup.respond(code=code, leader=3, epoch=5) == 0
    assert setup.observer.request()[0] == VOTERS[2]
    assert setup.fetch_partition().current_leader_epoch == 5


def test_the_address_of_the_leader_in_a_response_is_used(setup: Setup) -> None:
    setup.respond(code=6, leader=9, epoch=5, endpoints={9: ("elsewhere", 1234), 1: ("controller-1", 9093)})
    assert setup.observer.request()[0] == Peer(9, "elsewhere", 1234)


def test_without_a_leader_the_controllers_are_asked_in_turn_with_pauses(setup: Setup) -> None:
    asked = []
    for _ in range(4):
        peer, _ = setup.observer.request()
        asked.append(peer.node_id)
        assert setup.respond(peer, code=6, leader=-1, epoch=5) == RETRY_MS
    assert asked == [1, 2, 3, 1]


def test_a_leader_that_does_not_respond_is_looked_for_at_the_others(setup: Setup) -> None:
    setup.respond(leader=1, epoch=3)
    assert setup.observer.on_failure(ONE) == RETRY_MS
    assert {setup.observer.request()[0].node_id for _ in range(3)} == {1, 2, 3}


def test_records_of_a_leader_of_an_older_epoch_are_not_appended(setup: Setup) -> None:
    setup.respond(epoch=5, leader=2)
    setup.respond(records=batch(0, 1, 3), epoch=3)
    assert setup.log.end_offset == 0


def test_batches_of_a_later_epoch_than_the_leaders_are_not_appended(setup: Setup) -> None:
    setup.respond(epoch=3, records=batch(0, 1, 3) + batch(1, 1, 4))
    assert setup.log.end_offset == 1


# Divergence


@pytest.mark.parametrize(
    ("diverging", "end"),
    [((3, 5), 5), ((3, 9), 6), ((2, 2), 2), ((0, 0), 0)],
    ids=["end of the leader's epoch", "own end of it", "an older one", "nothing in common"],
)
def test_a_diverging_log_is_cut_as_kafka_does(setup: Setup, diverging: tuple[int, int], end: int) -> None:
    records = b"".join([*(batch(n, 1, 2) for n in range(4)), batch(4, 1, 3), batch(5, 1, 3), batch(6, 1, 4)])
    setup.respond(epoch=4, records=records)
    assert setup.respond(epoch=5, diverging=diverging) == 0
    assert setup.log.end_offset == end


def test_committed_records_are_never_cut(setup: Setup) -> None:
    setup.respond(records=batch(0, 1, 2) + batch(1, 1, 3), high_watermark=2)
    assert setup.respond(epoch=4, diverging=(2, 1)) == RETRY_MS
    assert setup.log.end_offset == 2


# Snapshots


def snapshot_bytes() -> bytes:
    records: list[Any] = [FeatureLevelRecord(name=f"feature-{n}", feature_level=1) for n in range(100)]
    return b"".join(map(bytes, encode_snapshot(Snapshot(records), SNAPSHOT.epoch, LATEST, 0)))


def piece(data: bytes, position: int, size: int, *, code: int = 0) -> FetchSnapshotResponse:
    kind = FetchSnapshotResponse
    found = kind.PartitionSnapshot(
        index=0,
        error_code=code,
        size=size,
        position=position,
        unaligned_records=data,
        snapshot_id=kind.SnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch),
        current_leader=kind.LeaderIdAndEpoch(leader_id=1, leader_epoch=3),
    )
    return kind(topics=[kind.TopicSnapshot(name="__cluster_metadata", partitions=[found])])


def position_asked(setup: Setup) -> int:
    peer, request = setup.observer.request()
    assert peer == ONE
    assert isinstance(request, FetchSnapshotRequest)
    partition = request.topics[0].partitions[0]
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == SNAPSHOT
    assert (request.max_bytes, partition.current_leader_epoch, request.replica_id) == (500, 3, 7)
    return partition.position


def files_in(setup: Setup) -> list[str]:
    return sorted(path.name for path in setup.log.directory.iterdir())


def test_a_snapshot_arrives_in_pieces_and_the_log_starts_after_it(setup: Setup) -> None:
    data = snapshot_bytes()
    setup.respond(snapshot=SNAPSHOT)
    while setup.log.start is None:
        position = position_asked(setup)
        assert setup.observer.on_response(ONE, piece(data[position : position + 333], position, len(data))) == 0
    assert setup.log.end_offset == SNAPSHOT.offset
    assert (setup.log.directory / SNAPSHOT.file_name).read_bytes() == data
    assert files_in(setup) == [SNAPSHOT.file_name]
    assert setup.fetch_partition().fetch_offset == SNAPSHOT.offset
    assert setup.fetch_partition().last_fetched_epoch == SNAPSHOT.epoch


def test_a_snapshot_that_is_stored_already_is_not_fetched(setup: Setup) -> None:
    setup.log.snapshots.add(SNAPSHOT)
    setup.respond(snapshot=SNAPSHOT)
    assert setup.log.start == SNAPSHOT


@pytest.mark.parametrize("code", [98, 99], ids=["not found", "position out of range"])
def test_a_snapshot_that_is_gone_is_asked_for_again_by_fetch(setup: Setup, code: int) -> None:
    setup.respond(snapshot=SNAPSHOT)
    setup.observer.on_response(ONE, piece(snapshot_bytes()[:100], 0, 1000))
    setup.observer.on_response(ONE, piece(b"", 100, 0, code=code))
    assert setup.fetch_partition().fetch_offset == 0
    assert files_in(setup) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"position": 7},
        {"size": 99},
        {"size": -1},
        {"unaligned_records": b""},
        {"unaligned_records": b"x" * 2000},
        {"snapshot_id": FetchSnapshotResponse.SnapshotId(end_offset=41, epoch=3)},
    ],
    ids=["position", "smaller", "no size", "empty", "too long", "another snapshot"],
)
def test_a_piece_that_does_not_fit_ends_the_fetch(setup: Setup, changed: dict[str, Any]) -> None:
    setup.respond(snapshot=SNAPSHOT)
    setup.observer.on_response(ONE, piece(b"x" * 100, 0, 1000))
    response = piece(b"x" * 100, 100, 1000)
    for name, value in changed.items():
        setattr(response.topics[0].partitions[0], name, value)
    assert setup.observer.on_response(ONE, response) == RETRY_MS
    assert files_in(setup) == []
    assert not setup.observer.fetches_snapshot


def test_a_damaged_snapshot_is_an_error_and_leaves_no_file(setup: Setup) -> None:
    data = bytearray(snapshot_bytes())
    data[200] ^= 1
    setup.respond(snapshot=SNAPSHOT)
    with pytest.raises(KafkaStorageError):
        setup.observer.on_response(ONE, piece(bytes(data), 0, len(data)))
    assert files_in(setup) == []
    assert setup.log.start is None


def test_a_snapshot_before_the_committed_end_is_refused(setup: Setup) -> None:
    setup.respond(records=batch(0, 50, 3), high_watermark=50)
    assert setup.respond(snapshot=SNAPSHOT) == RETRY_MS
    assert not setup.observer.fetches_snapshot


# Malformed responses


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(error_code=104),
        FetchResponse(),
        fetched(code=29),
        fetched(leader=-1),
        fetched(snapshot=(-1, 3)),
        fetched(snapshot=(3, -1)),
        fetched(snapshot=(40, 4)),
        fetched(diverging=(1, -5)),
        fetched(records=b"x" * 100),
        FetchSnapshotResponse(),
    ],
    ids=[
        "other cluster",
        "no partition",
        "not authorized",
        "no leader",
        "snapshot without offset",
        "snapshot without epoch",
        "snapshot of a later epoch",
        "divergence without offset",
        "no batches",
        "unasked piece",
    ],
)
def test_a_malformed_response_is_followed_by_a_pause(setup: Setup, response: Any) -> None:
    assert setup.observer.on_response(ONE, response) == RETRY_MS
    assert (setup.log.batches, setup.log.start, files_in(setup)) == ([], None, [])


def test_a_committed_record_that_cannot_be_replayed_is_fatal(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(high_watermark: int) -> None:
        raise ProtocolError("a record of type 999")

    monkeypatch.setattr(setup.log, "advance", advance)
    with pytest.raises(KafkaStorageError, match="a record of type 999; use a release of this broker that knows"):
        setup.respond(records=batch(0, 3, 3), high_watermark=3)


def test_a_damaged_batch_is_not_appended(setup: Setup) -> None:
    data = bytearray(batch(0, 3, 3))
    data[-1] ^= 1
    assert setup.respond(records=bytes(data), high_watermark=3) == RETRY_MS
    assert setup.log.end_offset == 0
