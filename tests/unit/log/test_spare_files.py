"""How many files stay open for logs: one for each, and some more while there is room."""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refbroker.log import Files, LogManager, PartitionLog, spare_files
from refbroker.log.files import OpenFile
from refbroker.log.spare_files import SpareFiles
from tests.unit.log.stores import SMALL, START_MS, TOPIC_ID, Clock, append, read_all

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

    def let_go(self) -> None:
        self.is_open = False


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_files, "MOST", FEW)


@contextmanager
def no_more_files() -> Iterator[None]:
    """The process may open no more files than are open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_logs(files: Files, root: Path) -> LogManager:
    clock = Clock()
    clock.hold(START_MS)
    return LogManager.open([root], "cluster", 1, SMALL, clock=clock, files=files, rng=random.Random(1))


def fill(log: PartitionLog, batches: int) -> None:
    for _ in range(batches):
        append(log, 2, timestamp=START_MS + log.log_end_offset)


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
        log = manager.get("t", number)
        assert log is not None
        check(log, 240)
        fill(log, 40)
        check(log, 320)
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
