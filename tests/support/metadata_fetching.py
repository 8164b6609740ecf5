"""A metadata log in memory, and the responses from which an observer fills it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kclient.errors import CorruptRecordError, OffsetOutOfRangeError
from kclient.protocol.messages.fetch import FetchResponse
from kclient.records import BatchBuilder, batch_headers
from refbroker.metadata.snapshot_file import SnapshotId
from refbroker.raft.observer import TOPIC_ID


class MemoryLog:
    """A metadata log in memory: batches as (base offset, end offset, epoch). A `LocalLog`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batches: list[tuple[int, int, int]] = []
        self.high_watermark = 0
        self.start: SnapshotId | None = None
        self.snapshots: set[SnapshotId] = set()

    @property
    def end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else self.start.offset if self.start else 0

    @property
    def last_epoch(self) -> int:
        return self.batches[-1][2] if self.batches else self.start.epoch if self.start else 0

    def append_fetched(self, batches: memoryview, leader_epoch: int) -> None:
        for header in batch_headers(batches):
            if not header.is_valid():
                raise CorruptRecordError("a checksum does not match")
            if header.partition_leader_epoch > leader_epoch:
                return
            if header.base_offset != self.end_offset:
                raise OffsetOutOfRangeError(f"offset {header.base_offset} does not follow {self.end_offset}")
            self.batches.append((header.base_offset, header.last_offset + 1, header.partition_leader_epoch))

    def advance(self, high_watermark: int) -> None:
        assert self.high_watermark <= high_watermark <= self.end_offset
        self.high_watermark = high_watermark

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        found = [each for each in self.batches if each[2] <= epoch]
        return (found[-1][2], found[-1][1]) if found else (-1, -1)

    def truncate(self, offset: int) -> None:
        assert offset >= self.high_watermark
        self.batches = [each for each in self.batches if each[1] <= offset]

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        return snapshot_id in self.snapshots

    def start_from_snapshot(self, snapshot_id: SnapshotId) -> None:
        self.batches, self.start, self.high_watermark = [], snapshot_id, snapshot_id.offset


def batch(offset: int, count: int, epoch: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(0, None, b"record")
    return bytes(builder.build(base_offset=offset, partition_leader_epoch=epoch))


def fetched(
    leader: int = 1,
    epoch: int = 3,
    *,
    code: int = 0,
    endpoints: dict[int, tuple[str, int]] | None = None,
    diverging: tuple[int, int] | None = None,
    snapshot: tuple[int, int] | None = None,
    **partition: Any,
) -> FetchResponse:
    kind = FetchResponse
    found = kind.PartitionData(error_code=code, **{"records": b"", "high_watermark": -1, **partition})
    found.current_leader = kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if diverging is not None:
        found.diverging_epoch = kind.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    if snapshot is not None:
        found.snapshot_id = kind.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1])
    return kind(
        responses=[kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[found])],
        node_endpoints=[
            kind.NodeEndpoint(node_id=node, host=host, port=port) for node, (host, port) in (endpoints or {}).items()
        ],
    )
