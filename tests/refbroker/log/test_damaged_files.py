"""What a start reads of each file, and what it works without one that is damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import CorruptRecordError
from refbroker.log import LogConfig, PartitionLog
from refbroker.log.batches import header_at
from refbroker.log.files import OpenFile
from refbroker.log.segment import Segment
from tests.support.stores import START_MS, TOPIC_ID, Disk, Store, append, make_batch, read_all


class CountingDisk(Disk):
    """A disk that remembers what is read where."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        self.reads.append((file.path.name, position, size))
        return super().pread(file, size, position)

    def reads_of_records(self) -> list[tuple[str, int, int]]:
        return [read for read in self.reads if read[0].endswith(".log")]


def fill(log: PartitionLog, batches: int = 150) -> None:
    for number in range(batches):
        append(
            log,
            2,
            timestamp=START_MS + number,
            epoch=number // 50,
            producer_id=5,
            producer_epoch=0,
            base_sequence=2 * number,
        )


def test_a_clean_start_reads_no_records_but_those_behind_the_last_index_entry(store: Store) -> None:
    log = store.log()
    fill(log)
    active = log.segments.active
    last_entry = active.offset_index.last.position
    name, size = active.path.name, active.size
    store.close()
    store.disk = CountingDisk()
    assert store.log().log_end_offset == 300
    reads = store.disk.reads_of_records()
    assert {read[0] for read in reads} <= {name}
    assert all(last_entry <= position < size for _, position, _ in reads)


def test_after_a_crash_no_segment_before_the_recovery_point_is_read(store: Store) -> None:
    log = store.log()
    fill(log, 100)
    log.flush()
    assert store.manager is not None
    store.manager.checkpoint()
    first = log.segments.active.path.name
    for number in range(100, 150):
        append(log, 2, timestamp=START_MS + number, epoch=2)
    store.crash()
    store.disk = CountingDisk()
    assert store.log().log_end_offset == 300
    assert min(read[0] for read in store.disk.reads_of_records()) == first


def zeros(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def a_part(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def text(path: Path) -> None:
    path.write_bytes(b"0\n3\nthis is not what was here\n")


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [zeros, nothing, a_part, noise, text, gone])
@pytest.mark.parametrize(
    "pattern", ["*.snapshot", "leader-epoch-checkpoint", "partition.metadata", "*.index", "*.timeindex"]
)
def test_a_log_is_whole_without_a_damaged_file(
    store: Store, clean: bool, damage: Callable[[Path], None], pattern: str
) -> None:
    log = store.log()
    fill(log)
    before, epochs = read_all(log), log.epochs.entries
    store.close() if clean else store.crash()
    for path in store.path.glob(pattern):
        damage(path)
    log = store.log()
    assert read_all(log) == before
    assert read_all(log, 201) == before[201:]
    assert log.offset_for_timestamp(START_MS + 101) == (202, START_MS + 101, 2)
    if (damage, pattern) not in ((nothing, "leader-epoch-checkpoint"), (gone, "leader-epoch-checkpoint")):
        # Kafka's is empty before there are epochs; only recovery sees that there should be some.
        assert log.epochs.entries == epochs
    if not (clean and pattern == "*.snapshot" and damage is gone):
        assert [producer.last_sequence for producer in log.producers()] == [299]
    assert append(log).base_offset == 300
    if pattern == "partition.metadata":
        assert log.topic_id.int == 0
        assert store.manager is not None
        store.manager.set_topic_ids({"orders": TOPIC_ID})
        assert store.reopened().topic_id == TOPIC_ID


@pytest.mark.parametrize("damage", [zeros, a_part, noise, text, gone])
@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"],
)
@pytest.mark.parametrize("clean", [True, False])
def test_all_logs_are_checked_when_a_checkpoint_is_damaged(
    store: Store, clean: bool, damage: Callable[[Path], None], name: str
) -> None:
    log = store.log()
    fill(log)
    before = read_all(log)
    assert store.manager is not None
    store.manager.checkpoint()
    store.close() if clean else store.crash()
    damage(store.directory / name)
    assert read_all(store.log()) == before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_an_index_of_another_segment_misleads_nobody(store: Store, clean: bool, kind: str) -> None:
    log = store.log()
    for number in range(150):
        append(log, 2, timestamp=START_MS + number, size=20 + 7 * (number % 13))
    before = read_all(log)
    store.close() if clean else store.crash()
    one, two, three, *_ = sorted(store.path.glob(f"*{kind}"))
    content = [path.read_bytes() for path in (one, two, three)]
    for path, other in zip((one, two, three), content[1:] + content[:1], strict=True):
        path.write_bytes(other)
    log = store.log()
    for offset in range(0, 300, 7):
        assert read_all(log, offset) == before[offset:]


BIG = 1_073_707_263


def sparse_segment(tmp_path: Path, disk: Disk, batches: list[bytes], times: list[tuple[int, int]]) -> Segment:
    """A segment from offset 6500000 on of a gigabyte, of which only the last kilobytes take space."""
    base = 6_500_000
    with (tmp_path / f"{base:020d}.log").open("wb") as file:
        file.seek(BIG)
        file.write(b"".join(batches))
    (tmp_path / f"{base:020d}.index").write_bytes(struct.pack(">ii", 6_506_150 - base, BIG))
    (tmp_path / f"{base:020d}.timeindex").write_bytes(
        b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in times)
    )
    return Segment(disk, tmp_path, base, LogConfig(), created_ms=0)


def one_by_one(first: int, count: int, timestamp: int) -> list[bytes]:
    return [
        make_batch(1, timestamp=timestamp + number, base_offset=first + number, partition_leader_epoch=0)
        for number in range(count)
    ]


def test_an_offset_is_found_by_scanning_from_the_index_entry_before_it(tmp_path: Path) -> None:
    disk = CountingDisk()
    segment = sparse_segment(tmp_path, disk, one_by_one(6_506_150, 20, 1_570_793_423_400), [])
    header = segment.find(6_506_155)
    assert header is not None
    assert (header.base_offset, header.position) == (6_506_155, BIG + 5 * len(make_batch()))
    assert min(position for _, position, _ in disk.reads_of_records()) == BIG
    assert segment.next_offset() == 6_506_170


def test_a_time_between_two_entries_is_found_by_scanning_from_the_one_before_it(tmp_path: Path) -> None:
    disk = CountingDisk()
    batches = one_by_one(6_506_150, 100, 1_570_793_423_413)
    times: list[Any] = [(1_570_793_423_413, 6_506_150), (1_570_793_423_503, 6_506_240)]
    segment = sparse_segment(tmp_path, disk, batches, times)
    assert segment.time_index.lookup(1_570_793_423_501) == (1_570_793_423_413, 6_506_150)
    assert segment.find_timestamp(1_570_793_423_501, 0) == (6_506_238, 1_570_793_423_501, 0)
    assert segment.find_timestamp(1_570_793_423_503, 0) == (6_506_240, 1_570_793_423_503, 0)


@pytest.mark.parametrize(("magic", "smallest"), [(0, 14), (1, 22), (2, 49)])
def test_what_is_smaller_than_any_batch_of_its_format_is_none(magic: int, smallest: int) -> None:
    def start(length: int) -> memoryview:
        return memoryview(struct.pack(">qiiB", 2**40, length, 0, magic) + bytes(50))

    header = header_at(start(smallest), 700)
    assert header is not None
    assert (header.position, header.size_in_bytes) == (700, 12 + smallest)
    with pytest.raises(CorruptRecordError, match="at position 700") as caught:
        header_at(start(smallest - 1), 700)
    assert caught.value.offset == 2**40


def test_a_format_that_is_not_known_is_no_batch() -> None:
    with pytest.raises(CorruptRecordError, match="magic 3"):
        header_at(memoryview(struct.pack(">qiiB", 0, 1000, 0, 3) + bytes(50)), 0)
