"""The observer: what a node that does not vote asks of the metadata log's leader, and what it does with the responses.

It fetches from the log end, sends the high watermark that it knows (KIP-1166), and replays only what is below the
leader's. If the logs diverge, it cuts its own; if the leader has deleted what is missing, it fetches a snapshot and
starts its log there. It knows no socket and no time: each response returns how long to wait before the next request.

Elsewhere: the requests on the network (`observation`), the log and the image (`refbroker.metadata.replica`), who leads
(`refbroker.peers.quorum`). Source: KIP-595, KIP-630, and Kafka's KafkaRaftClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kclient.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    PositionOutOfRangeError,
    ProtocolError,
    SnapshotNotFoundError,
    UnknownLeaderEpochError,
    error_for,
)
from kclient.protocol import Message
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from refbroker.log import Files
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.snapshot_file import SnapshotId
from refbroker.peers.network import Peer
from refbroker.peers.quorum import ControllerQuorum
from refbroker.raft.snapshot_fetch import SnapshotFetch

logger = logging.getLogger(__name__)

TOPIC_ID = UUID(int=1)
FETCH_WAIT_MS = 500
RETRY_MS = 100
"""The pause after an error, as in Kafka's client of the quorum."""
LEAST_FETCH_VERSION = 13
"""The first version with topic ids; controllers refuse older ones from observers."""

_ELSEWHERE = (FencedLeaderEpochError.code, UnknownLeaderEpochError.code, NotLeaderOrFollowerError.code)
_NO_OFFSET = -1


class LocalLog(Protocol):
    """The local copy of the metadata log."""

    @property
    def directory(self) -> Path:
        """The directory of the log."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are known to be committed, and are replayed; 0 if none are."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that the log starts with; 0 for an empty log."""

    def append_fetched(self, batches: memoryview, leader_epoch: int) -> None:
        """Append whole batches with the offsets and epochs that they have, up to the first one of a later epoch.

        Raises:
            CorruptRecordError, OffsetOutOfRangeError: a batch is damaged, or does not follow the log end.
            KafkaStorageError: the disk fails.
        """

    def advance(self, high_watermark: int) -> None:
        """Replay the records before an offset; an offset beyond the log end counts as the log end."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below this one in the log, and the offset after its last record."""

    def truncate(self, offset: int) -> None:
        """Remove the records from an offset on, which are not committed."""

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Return whether a snapshot is stored."""

    def start_from_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Remove all records, load a snapshot whose file is complete, and let the log start after it."""


class ObserverSettings(NamedTuple):
    """Who observes, and how much it fetches at a time.

    Attributes:
        node_id, directory_id: the node, and the directory of its metadata log.
        cluster_id: the cluster.
        fetch_bytes: of one Fetch, at most; the first batch always comes whole.
        snapshot_bytes: of one piece of a snapshot.
    """

    node_id: int
    directory_id: UUID
    cluster_id: str
    fetch_bytes: int
    snapshot_bytes: int


class Observer:
    """The observer of the metadata log.

    Parameters:
        settings: who observes.
        log: the local copy.
        quorum: the controllers as this node knows them.
        files: the disk.
        store_leader: stores who leads, and in which epoch, before anything is appended in it.
    """

    def __init__(
        self,
        settings: ObserverSettings,
        log: LocalLog,
        quorum: ControllerQuorum,
        files: Files,
        store_leader: Callable[[int, int], None],
    ) -> None:
        self._settings = settings
        self._log = log
        self._quorum = quorum
        self._files = files
        self._store_leader = store_leader
        self._snapshot: SnapshotFetch | None = None
        self._stored: tuple[int, int] | None = None
        self._last_error = ""

    @property
    def fetches_snapshot(self) -> bool:
        """Whether the next request is for a piece of a snapshot."""
        return self._snapshot is not None and self._quorum.leader is not None

    def request(self) -> tuple[Peer, FetchRequest | FetchSnapshotRequest]:
        """Return the next request, and the node to ask."""
        peer, settings = self._quorum.next(), self._settings
        if self._snapshot is not None and self._quorum.leader is not None:
            return peer, self._snapshot_request(self._snapshot)
        partition = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=self._quorum.epoch,
            fetch_offset=self._log.end_offset,
            last_fetched_epoch=self._log.last_epoch,
            log_start_offset=0,
            replica_directory_id=settings.directory_id,
            high_watermark=self._log.high_watermark or _NO_OFFSET,
        )
        return peer, FetchRequest(
            cluster_id=settings.cluster_id,
            replica_state=FetchRequest.ReplicaState(replica_id=settings.node_id, replica_epoch=-1),
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=0,
            max_bytes=settings.fetch_bytes,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _snapshot_request(self, fetch: SnapshotFetch) -> FetchSnapshotRequest:
        kind, settings, (end_offset, epoch) = FetchSnapshotRequest, self._settings, fetch.snapshot_id
        partition = kind.PartitionSnapshot(
            partition=0,
            current_leader_epoch=self._quorum.epoch,
            snapshot_id=kind.SnapshotId(end_offset=end_offset, epoch=epoch),
            position=fetch.position,
            replica_directory_id=settings.directory_id,
        )
        return kind(
            cluster_id=settings.cluster_id,
            replica_id=settings.node_id,
            max_bytes=settings.snapshot_bytes,
            topics=[kind.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
        )

    def on_failure(self, peer: Peer) -> int:
        """Note that a node gave no response; return the milliseconds to wait before the next request."""
        self._quorum.forget(peer)
        return RETRY_MS

    def on_response(self, peer: Peer, response: Message) -> int:
        """Carry out what a response says; return the milliseconds to wait before the next request.

        Raises:
            KafkaStorageError: the disk fails, or a committed record cannot be replayed.
        """
        try:
            if isinstance(response, FetchSnapshotResponse):
                return self._on_snapshot(peer, response)
            assert isinstance(response, FetchResponse)
            return self._on_fetch(peer, response)
        except (ProtocolError, CorruptRecordError, OffsetOutOfRangeError) as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                logger.error("the metadata from the controller %s cannot be used: %s", peer, error)
            self._give_up_snapshot()
            return self.on_failure(peer)

    # Fetch

    def _on_fetch(self, peer: Peer, response: FetchResponse) -> int:
        if response.error_code:
            raise ProtocolError(f"Fetch failed with {error_for(response.error_code).name} ({response.error_code})")
        if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
            raise ProtocolError("the response to Fetch has not exactly one partition")
        topic, partition = response.responses[0], response.responses[0].partitions[0]
        if topic.topic_id != TOPIC_ID or partition.partition_index != 0:
            raise ProtocolError(
                f"the response to Fetch is about partition {partition.partition_index} of another topic"
            )
        pause = self._learn(peer, partition.error_code, partition.current_leader, _endpoints(response.node_endpoints))
        if pause is not None:
            return pause
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        elif partition.snapshot_id.epoch >= 0 or partition.snapshot_id.end_offset >= 0:
            self._begin_snapshot(SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch))
        else:
            self._append(partition.records)
            if partition.high_watermark > self._log.high_watermark:
                self._advance(min(partition.high_watermark, self._log.end_offset))
        return 0

    def _learn(self, peer: Peer, code: int, leader: Any, endpoints: Callable[[int], Peer | None]) -> int | None:
        """Take what a response says about the leader; return the time to wait if it says nothing else of use.

        Parameters:
            leader: LeaderIdAndEpoch.
            endpoints: returns the address of a node in the response.
        """
        quorum = self._quorum
        if not quorum.learn(leader.leader_id, leader.leader_epoch, endpoints(leader.leader_id)):
            # Of an older epoch: the sender does not know yet that it no longer leads.
            return self.on_failure(peer)
        self._follow(leader.leader_id, leader.leader_epoch)
        if code in _ELSEWHERE:
            known = quorum.leader
            if known is not None and (known.host, known.port) != (peer.host, peer.port):
                return 0
            return RETRY_MS if code != NotLeaderOrFollowerError.code else self.on_failure(peer)
        if code == 0 and leader.leader_id < 0:
            raise ProtocolError("records without a leader")
        if code and code != SnapshotNotFoundError.code and code != PositionOutOfRangeError.code:
            raise ProtocolError(f"the metadata log cannot be fetched: {error_for(code).name} ({code})")
        return None

    def _follow(self, leader_id: int, epoch: int) -> None:
        if (leader_id, epoch) != self._stored:
            self._store_leader(leader_id, epoch)
            self._stored = leader_id, epoch
            if leader_id >= 0:
                logger.info("controller %d leads the metadata log in epoch %d", leader_id, epoch)

    def _append(self, records: Any) -> None:
        if not records:
            return
        before = self._log.end_offset
        self._log.append_fetched(memoryview(records), self._quorum.epoch)
        if self._log.end_offset == before:
            raise ProtocolError(f"{len(records)} bytes without a whole batch from offset {before} on")

    def _advance(self, high_watermark: int) -> None:
        """Replay what is committed.

        Raises:
            KafkaStorageError: this node does not understand a committed record, so it must stop.
        """
        try:
            self._log.advance(high_watermark)
        except (ProtocolError, CorruptRecordError) as error:
            raise KafkaStorageError(
                f"the metadata log cannot be replayed up to offset {high_watermark}: {error.message}; use a release of "
                f"this broker that knows the cluster's metadata.version"
            ) from error

    def _truncate(self, epoch: int, end_offset: int) -> None:
        log = self._log
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if epoch == 0:
            target = end_offset
        elif own_epoch == epoch:
            target = min(end_offset, own_end)
        else:
            # All records of later epochs go; the next Fetch compares the end of an earlier one.
            target = max(own_end, log.high_watermark)
        if not log.high_watermark <= target < log.end_offset:
            raise ProtocolError(
                f"the controller asks to remove the records from offset {target} on, but this node's log ends at "
                f"{log.end_offset}, and is committed up to {log.high_watermark}"
            )
        logger.warning("the metadata log differs from the controller's; removing it from offset %d on", target)
        log.truncate(target)

    # FetchSnapshot

    def _begin_snapshot(self, snapshot_id: SnapshotId) -> None:
        if snapshot_id.offset < 0 or snapshot_id.epoch < 0:
            raise ProtocolError(f"{snapshot_id} is not a snapshot")
        if snapshot_id.offset < self._log.high_watermark or snapshot_id.epoch > self._quorum.epoch:
            raise ProtocolError(
                f"the snapshot {snapshot_id.file_name} does not continue the log up to {self._log.high_watermark}"
            )
        self._give_up_snapshot()
        if self._log.has_snapshot(snapshot_id):
            # A crash came between the end of the fetch and the start of the log.
            self._log.start_from_snapshot(snapshot_id)
            return
        logger.info("fetching the snapshot %s", snapshot_id.file_name)
        self._snapshot = SnapshotFetch(self._files, self._log.directory, snapshot_id)

    def _on_snapshot(self, peer: Peer, response: FetchSnapshotResponse) -> int:
        fetch = self._snapshot
        if fetch is None:
            raise ProtocolError("a piece of a snapshot that was not asked for")
        if response.error_code:
            code = response.error_code
            raise ProtocolError(f"FetchSnapshot failed with {error_for(code).name} ({code})")
        if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
            raise ProtocolError("the response to FetchSnapshot has not exactly one partition")
        piece = response.topics[0].partitions[0]
        pause = self._learn(peer, piece.error_code, piece.current_leader, _endpoints(response.node_endpoints))
        if pause is not None:
            return pause
        if piece.error_code:
            # The controller has deleted the snapshot; the next Fetch names a later one.
            logger.info("the snapshot %s is gone", fetch.snapshot_id.file_name)
            self._give_up_snapshot()
            return 0
        try:
            is_complete = fetch.take(piece)
        except KafkaStorageError:
            self._snapshot = None
            raise
        if is_complete:
            self._snapshot = None
            self._log.start_from_snapshot(fetch.snapshot_id)
            logger.info("the metadata log starts after the snapshot %s", fetch.snapshot_id.file_name)
        return 0

    def _give_up_snapshot(self) -> None:
        fetch, self._snapshot = self._snapshot, None
        if fetch is not None:
            fetch.abandon()


def _endpoints(found: list[Any]) -> Callable[[int], Peer | None]:
    """Return a function that finds the address of a node in a response."""

    def find(node_id: int) -> Peer | None:
        for endpoint in found:
            if endpoint.node_id == node_id and endpoint.host and 0 < endpoint.port <= 65535:
                return Peer(node_id, endpoint.host, endpoint.port)
        return None

    return find
