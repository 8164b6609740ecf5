"""The start offset of each leader epoch, `leader-epoch-checkpoint` in a partition's directory.

The file is a version, a count and a line `<epoch> <start offset>` per epoch, both ascending:

    0
    2
    0 0
    3 4711

A client that returns after a leader change asks for the end of its epoch (KIP-320), and a replica finds out where its
log diverges from the leader's.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from kclient.errors import KafkaStorageError
from refbroker.log.checkpoints import decode_table, encode_table
from refbroker.log.files import Files

LEADER_EPOCHS = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and its first offset."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log, kept in memory and written to the checkpoint on every change.

    Parameters:
        files: the disk.
        path: the checkpoint file.

    Attributes:
        saved: whether the checkpoint has all epochs.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self.saved = True
        self._files = files
        self._entries: list[EpochEntry] = []

    def read(self) -> None:
        """Read the checkpoint file, if it exists.

        Raises:
            KafkaStorageError: the file is damaged.
        """
        if not self._files.exists(self.path):
            return
        try:
            rows = decode_table(self._files.read_bytes(self.path), self.path)
            entries = [EpochEntry(int(epoch), int(start)) for epoch, start in rows]
        except ValueError as error:
            raise KafkaStorageError(f"the checkpoint file {self.path} is damaged: {error}") from error
        for entry in entries:
            self._insert(entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The last epoch, -1 without one."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    @property
    def latest_start_offset(self) -> int:
        """The offset at which the last epoch begins, -1 without one."""
        return self._entries[-1].start_offset if self._entries else UNDEFINED_OFFSET

    def assign(self, epoch: int, start_offset: int, *, save: bool = True) -> None:
        """Record that records from `start_offset` on have `epoch`; nothing changes within an epoch.

        Parameters:
            save: False leaves the file to the next change that is saved, or to `save`.
        """
        before = list(self._entries)
        if epoch >= 0 and self._insert(EpochEntry(epoch, start_offset)):
            self.saved = False
        if save and not self.saved:
            try:
                self.save()
            except OSError:
                # Otherwise it would never be written.
                self._entries = before
                raise

    def _insert(self, entry: EpochEntry) -> bool:
        entries = self._entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)
        return True

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch of a record with this offset, -1 if unknown."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest epoch at or below `epoch` and the offset after its last record; (-1, -1) if unknown.

        Source: KIP-101, KIP-279.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        index = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if index == len(self._entries):
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        found = self._entries[index - 1].epoch if index else epoch
        return EpochEntry(found, self._entries[index].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if len(kept) != len(self._entries):
            self._entries = kept
            self.save()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what is before `start_offset`: the epoch at that offset begins there from now on."""
        index = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if index and self._entries[index - 1].start_offset != start_offset:
            first = EpochEntry(self._entries[index - 1].epoch, start_offset)
            self._entries = [first, *self._entries[index:]]
            self.save()
        elif index > 1:
            self._entries = self._entries[index - 1 :]
            self.save()

    def clear(self) -> None:
        self._entries = []
        self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        self._files.write_bytes(self.path, encode_table(self._entries))
        self.saved = True
