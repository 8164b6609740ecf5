"""Fetches a snapshot of the metadata log in pieces, which do not end where its batches do (KIP-630).

The pieces are written to `<snapshot>-<number>.checkpoint.part`, which a restart removes. The complete file is synced,
read once to check every checksum, and renamed. Elsewhere: the requests (`observer`), the format
(`refbroker.metadata.snapshot_file`).
"""

from __future__ import annotations

import uuid
from pathlib import Path

from kclient.errors import KafkaStorageError, ProtocolError
from kclient.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from refbroker.log import Files
from refbroker.log.files import OpenFile, storage_errors
from refbroker.metadata.snapshot_file import PART_SUFFIX, SUFFIX, SnapshotId, read_snapshot

Piece = FetchSnapshotResponse.PartitionSnapshot


class SnapshotFetch:
    """A snapshot that is being fetched.

    Parameters:
        files: the disk.
        directory: the directory of the metadata log.
        snapshot_id: the snapshot.

    Attributes:
        position: the number of bytes that have arrived.
    """

    def __init__(self, files: Files, directory: Path, snapshot_id: SnapshotId) -> None:
        self.snapshot_id = snapshot_id
        self.position = 0
        self._files = files
        self._path = directory / snapshot_id.file_name
        self._part = directory / f"{snapshot_id.file_name.removesuffix(SUFFIX)}-{uuid.uuid4().int}{PART_SUFFIX}"
        self._size: int | None = None
        self._file: OpenFile | None = None

    def take(self, piece: Piece) -> bool:
        """Write a piece; return whether the snapshot is complete, and has its final name.

        Raises:
            ProtocolError: the piece does not continue what has arrived, or belongs to another snapshot.
            KafkaStorageError: the snapshot is damaged, or the disk fails; nothing of it is left.
        """
        found = SnapshotId(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
        data = memoryview(piece.unaligned_records)
        if found != self.snapshot_id:
            raise ProtocolError(f"a piece of the snapshot {found.file_name}, not of {self.snapshot_id.file_name}")
        if piece.position != self.position:
            raise ProtocolError(f"a piece from byte {piece.position} on, where {self.position} was asked for")
        if self._size not in (None, piece.size):
            raise ProtocolError(f"the size of the snapshot has changed from {self._size} to {piece.size} bytes")
        if piece.size <= 0 or len(data) == 0 or self.position + len(data) > piece.size:
            raise ProtocolError(f"{len(data)} bytes from byte {self.position} on of a snapshot of {piece.size} bytes")
        self._size = piece.size
        try:
            with storage_errors(f"write {self._part}"):
                if self._file is None:
                    self._file = self._files.open(self._part, create=True)
                self.position += self._files.pwrite(self._file, [data], self.position)
                if self.position < piece.size:
                    return False
                self._files.fsync(self._file)
                self._file.close()
                read_snapshot(self._files, self._part)
                self._files.rename(self._part, self._path)
                return True
        except KafkaStorageError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove what has arrived."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with storage_errors(f"remove {self._part}"):
            self._files.unlink(self._part)
