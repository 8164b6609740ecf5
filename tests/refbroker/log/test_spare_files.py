"""How many files stay open for logs: one for each, and some more while there is room; and what happens without any."""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from refbroker.log import Files, LogManager, PartitionLog, spare_files
from refbroker.log.files import OpenFile
from refbroker.log.spare_files import SpareFiles
from refbroker.runtime.clock import Clock
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import SMALL, START_MS, TOPIC_ID, LedLogs, append, read_all

FEW = 4


class CountingFiles(Files):
    """Real files.

    Attributes:
        open_paths: what is open, by descriptor.
    """

    def __init__(self) -> None:
        super().__init__(durable=False)
        self.open_paths: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> OpenFile:
        file = super().open(path, create=create, writable=writable)
        self.open_paths[file.fd] = path
        return file

    def close(self, fd: int) -> None:
        del self.open_paths[fd]
        super().close(fd)

    def open_names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.open_paths.values() if path.suffix == suffix)


class Holder:
    def __init__(self) -> None:
        self.is_open = True

    def close_file(self) -> None:
        self.is_open = False


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_files, "MOST", FEW)


@contextmanager
def no_more_files(allowed: int = 0) -> Iterator[None]:
    """The process may open no more files than are open now, and some that are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_logs(files: Files, root: Path) -> LogManager:
    clock = Clock()
    clock.hold(START_MS)
    return LedLogs.open([root], "cluster", 1, SMALL, clock=clock, files=files, rng=random.Random(1))


def fill(log: PartitionLog, batches: int) -> None:
    for _ in range(batches):
        append(log, 2, timestamp=START_MS + log.log_end_offset, epoch=max(log.leader_epoch, 0))


def check(log: PartitionLog, count: int) -> None:
    assert [offset for offset, _, _ in read_all(log)] == list(range(count))
    for offset in range(0, count, 8):
        found = log.offset_for_timestamp(START_MS + offset)
        assert found is not None
        assert found.offset == offset


@pytest.mark.usefixtures("few")
def test_what_was_opened_first_is_closed_first() -> None:
    spare, holders = SpareFiles(), [Holder() for _ in range(FEW + 2)]
    for holder in holders[:FEW]:
        spare.add(holder)
    # It was opened again.
    spare.add(holders[0])
    for holder in holders[FEW:]:
        spare.add(holder)
    assert [holder.is_open for holder in holders] == [True, False, False, True, True, True]
    assert spare.release()
    assert not any(holder.is_open for holder in holders)
    assert not spare.release()


def test_no_more_are_open_than_a_part_of_what_the_process_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_files, "file_limit", lambda: 32)
    spare, holders = SpareFiles(), [Holder() for _ in range(20)]
    for holder in holders:
        spare.add(holder)
    assert sum(holder.is_open for holder in holders) == len(spare) == 8


def test_who_is_dropped_counts_no_more() -> None:
    spare = SpareFiles()
    spare.add(Holder())
    gc.collect()
    assert len(spare) == 0


@pytest.mark.usefixtures("few")
def test_logs_that_rest_have_one_open_file_each_and_lose_nothing(tmp_path: Path) -> None:
    files = CountingFiles()
    manager = open_logs(files, tmp_path)
    logs = [manager.create("t", number, TOPIC_ID) for number in range(10)]
    for _ in range(3):
        for log in logs:
            fill(log, 40)
    assert all(len(log.segments) > 3 for log in logs)
    for log in logs:
        check(log, 240)
    assert len(files.spare_files) <= FEW
    lock, active = 1, len(logs)
    assert len(files.open_paths) <= lock + active + FEW
    manager.close()
    assert not files.open_paths

    manager = open_logs(files, tmp_path)
    for number in range(10):
        opened = manager.get("t", number)
        assert opened is not None
        check(opened, 240)
        fill(opened, 40)
        check(opened, 320)
    assert len(files.open_paths) <= lock + active + FEW
    manager.abandon()


@pytest.mark.usefixtures("few")
def test_indexes_that_were_closed_while_active_are_those_that_stay_open(tmp_path: Path) -> None:
    """Byte by byte what a log writes whose files stay open."""

    def written(root: Path) -> dict[str, bytes]:
        manager = open_logs(CountingFiles(), root)
        logs = [manager.create("t", number, TOPIC_ID) for number in range(6)]
        for _ in range(20):
            for log in logs:
                fill(log, 5)
        manager.close()
        return {path.name: path.read_bytes() for path in sorted((root / "t-3").iterdir())}

    tight = written(tmp_path / "tight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spare_files, "MOST", 1000)
        roomy = written(tmp_path / "roomy")
    assert tight == roomy
    assert sum(name.endswith(".index") for name in tight) > 3


def test_spare_files_are_closed_where_files_run_out(tmp_path: Path) -> None:
    files = CountingFiles()
    manager = open_logs(files, tmp_path)
    log = manager.create("t", 0, TOPIC_ID)
    fill(log, 10)
    assert (len(files.open_names(".index")), len(files.open_names(".timeindex"))) == (1, 1)
    with no_more_files():
        other = files.open(tmp_path / "other", create=True)
        assert files.open_names(".index") == files.open_names(".timeindex") == []
    other.close()
    check(log, 20)
    with no_more_files():
        files.fsync_directory(tmp_path)
        log.roll()
        fill(log, 10)
    check(log, 40)
    files.spare_files.release()
    with no_more_files(), pytest.raises(OSError, match="Too many open files") as caught:
        files.open(tmp_path / "other")
    assert caught.value.errno == errno.EMFILE
    manager.abandon()


# No room at all


@contextmanager
def out_of_files(files: CountingFiles, allowed: int = 0) -> Iterator[None]:
    """Nothing more can be opened, but for what is allowed, and nothing that is open can be closed instead."""
    files.spare_files.release()
    with no_more_files(allowed):
        yield


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def manager(files: CountingFiles, tmp_path: Path) -> Iterator[LogManager]:
    manager = open_logs(files, tmp_path / "data")
    yield manager
    manager.abandon()


@pytest.fixture
def filled(manager: LogManager) -> PartitionLog:
    log = manager.create("t", 0, TOPIC_ID)
    fill(log, 60)
    return log


ATTEMPTS: dict[str, Callable[[LogManager, PartitionLog], object]] = {
    "read": lambda _, log: log.read(0, 1 << 20),
    "search": lambda _, log: log.offset_for_timestamp(START_MS),
    "search for the largest": lambda _, log: log.offset_of_max_timestamp(),
    "append": lambda _, log: fill(log, 60),
    "append in a new epoch": lambda _, log: append(log, 2, timestamp=START_MS + log.log_end_offset, epoch=7),
    "roll": lambda _, log: log.roll(),
    "begin an epoch": lambda _, log: log.begin_leader_epoch(3),
    "flush": lambda _, log: log.flush(),
    "checkpoint": lambda manager, _: manager.checkpoint(),
    "create": lambda manager, _: manager.create("u", 0, TOPIC_ID),
}


@pytest.mark.parametrize("what", ATTEMPTS)
def test_what_cannot_be_done_without_files_fails_alone_and_later_succeeds(
    files: CountingFiles, manager: LogManager, filled: PartitionLog, what: str, tmp_path: Path
) -> None:
    attempt = ATTEMPTS[what]
    with out_of_files(files), pytest.raises(KafkaStorageError, match=r"raise the limit of open files \(ulimit -n\)"):
        attempt(manager, filled)
    stored = filled.log_end_offset
    check(filled, stored)
    assert manager.online
    attempt(manager, filled)
    fill(filled, 10)
    end, epochs = filled.log_end_offset, filled.epochs.entries
    check(filled, end)
    manager.abandon()

    again = open_logs(files, tmp_path / "data")
    log = again.get("t", 0)
    assert log is not None
    check(log, end)
    assert log.epochs.entries == epochs
    again.abandon()


def test_a_segment_that_could_not_be_begun_leaves_nothing_behind(
    files: CountingFiles, filled: PartitionLog, tmp_path: Path
) -> None:
    def segments() -> list[str]:
        return [name for name in files.names(filled.directory) if not name.endswith(".snapshot")]

    before = segments()
    for allowed in range(2):
        with out_of_files(files, allowed), pytest.raises(KafkaStorageError):
            filled.roll()
        assert segments() == before
    fill(filled, 1)
    check(filled, filled.log_end_offset)


def test_a_log_that_could_not_be_made_is_in_no_directory(files: CountingFiles, tmp_path: Path) -> None:
    clock = Clock()
    clock.hold(START_MS)
    paths = [tmp_path / "a", tmp_path / "b"]
    manager = LedLogs.open(paths, "cluster", 1, SMALL, clock=clock, files=files, rng=random.Random(1))
    with out_of_files(files), pytest.raises(KafkaStorageError):
        manager.create("t", 0, TOPIC_ID)
    assert manager.online == manager.directories
    assert [(path / "t-0").exists() for path in paths].count(True) < 2
    log = manager.create("t", 0, TOPIC_ID)
    fill(log, 5)
    check(log, 10)
    manager.abandon()


async def test_files_that_could_not_be_removed_are_removed_later(
    files: CountingFiles, manager: LogManager, filled: PartitionLog
) -> None:
    doomed = filled.directory.with_name("doomed")
    for name in ("one", "two"):
        files.make_directory(doomed / name)
        manager.directories[0].deletions.schedule([doomed / name], 0)
    with out_of_files(files):
        await manager.delete_due_files()
    assert manager.online
    assert files.names(doomed) == ["one", "two"]
    await manager.delete_due_files()
    assert files.names(doomed) == []


def test_other_failures_still_take_the_directory_offline(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    manager = open_logs(disk, tmp_path)
    log = manager.create("t", 0, TOPIC_ID)
    fill(log, 60)
    disk.spare_files.release()
    disk.fail(operation="open", error=errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.read(0, 1 << 20)
    assert not manager.online
    manager.abandon()
