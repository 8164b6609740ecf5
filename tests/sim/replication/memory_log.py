"""A log in memory: records with their epochs, what of them is on the disk, and what a failure leaves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from refbroker.log.files import Files
from refbroker.log.leader_epochs import EpochEntry, LeaderEpochCache


class Entry(NamedTuple):
    """A record: the epoch of the leader that wrote it, and its value."""

    epoch: int
    value: int

    @property
    def partition_leader_epoch(self) -> int:
        """The epoch, as a batch header names it."""
        return self.epoch


class NoFiles(Files):
    """A disk that keeps nothing; the log itself knows what survives."""

    def write_bytes(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Ignore the data."""


FILES = NoFiles(durable=False)
PATH = Path("leader-epoch-checkpoint")


class MemoryLog:
    """A log whose records each are a batch.

    Attributes:
        base: the offset of the first entry.
        entries: the records.
        flushed_end: what survives a power failure in any case.
        checkpoint: the high watermark that a restart finds.
        changes: the number of changes so far.
    """

    def __init__(self) -> None:
        self.base = 0
        self.entries: list[Entry] = []
        self.log_start_offset = 0
        self.high_watermark = 0
        self.checkpoint = 0
        self.flushed_end = 0
        self.changes = 0
        self.epochs = LeaderEpochCache(FILES, PATH)

    def __repr__(self) -> str:
        return (
            f"MemoryLog({self.log_start_offset}..{self.log_end_offset}, hw {self.high_watermark}, flushed "
            f"{self.flushed_end}, epochs {[tuple(each) for each in self.epochs.entries]})"
        )

    @property
    def log_end_offset(self) -> int:
        return self.base + len(self.entries)

    @property
    def leader_epoch(self) -> int:
        return self.epochs.latest_epoch

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def read(self, start: int, end: int) -> list[Entry]:
        """Return the records from `start` to `end`, as far as there are any."""
        return self.entries[max(start - self.base, 0) : max(end - self.base, 0)]

    def append(self, entry: Entry) -> int:
        """Append a record and return its offset."""
        offset = self.log_end_offset
        self.changes += 1
        self.epochs.assign(entry.epoch, offset)
        self.entries.append(entry)
        return offset

    def begin_leader_epoch(self, epoch: int) -> None:
        self.changes += 1
        self.epochs.assign(epoch, self.log_end_offset)

    def update_high_watermark(self, offset: int) -> None:
        reached = min(offset, self.log_end_offset)
        if reached > self.high_watermark:
            self.changes += 1
            self.high_watermark = reached

    def delete_records(self, before: int) -> None:
        """Move the log start up to an offset, at most to the high watermark."""
        start = min(before, self.high_watermark)
        if start > self.log_start_offset:
            self.changes += 1
            self.log_start_offset = start
            self.epochs.truncate_from_start(start)

    def truncate_to(self, offset: int) -> None:
        end = min(offset, self.log_end_offset)
        self.changes += 1
        if end < self.base:
            self.restart_at(offset)
            return
        del self.entries[end - self.base :]
        self.epochs.truncate_from_end(end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = min(self.high_watermark, end)
        self.flushed_end = min(self.flushed_end, end)
        self.checkpoint = min(self.checkpoint, end)

    def restart_at(self, offset: int) -> None:
        """Remove everything, and start at an offset."""
        self.changes += 1
        self.entries = []
        self.epochs.clear()
        self.base = self.log_start_offset = self.high_watermark = self.checkpoint = self.flushed_end = offset

    def flush(self) -> None:
        self.flushed_end = self.log_end_offset

    def save_high_watermark(self) -> None:
        self.checkpoint = self.high_watermark

    def crash(self) -> None:
        """Leave what a killed process leaves: everything that was written."""
        self.changes += 1
        self.high_watermark = min(max(self.checkpoint, self.log_start_offset), self.log_end_offset)

    def lose_power(self, rng: random.Random) -> int:
        """Lose some of what was not flushed, and return the new log end offset."""
        kept = rng.randint(max(self.flushed_end, self.log_start_offset), self.log_end_offset)
        del self.entries[kept - self.base :]
        self.epochs.truncate_from_end(kept)
        self.flushed_end = min(self.flushed_end, kept)
        self.crash()
        return kept
