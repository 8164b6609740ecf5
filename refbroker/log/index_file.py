"""The base class of the offset and time index: a file of fixed-size entries that is searched on disk.

The index file of an active segment is preallocated with `segment.index.bytes` (rounded down to whole entries) and
zero after its last entry; it is cut to its entries when the segment is rolled or closed. Kafka maps the file into
memory. This broker reads and writes it with system calls, so that an index uses no memory and a simulated disk sees
each write. `spare_files` may close the file between two calls; the next call opens it again.
"""

from __future__ import annotations

from pathlib import Path

from refbroker.log.files import Files, OpenFile

# A search narrows down to a block of this many entries, and then reads the block.
_BLOCK_ENTRIES = 128


class IndexFile:
    """A file of entries of `entry_size` bytes, in ascending order of the key that each begins with.

    Parameters:
        files: the disk.
        path: the file, created if missing.
        base_offset: the base offset of the segment, to which the offsets in entries are relative.
        max_bytes: the size limit in bytes.
        active: whether to preallocate; an index that is not active keeps its size.
        fresh: whether to drop the contents of an existing file.
    """

    entry_size: int

    def __init__(
        self, files: Files, path: Path, base_offset: int, max_bytes: int, *, active: bool, fresh: bool = False
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.entry_size
        self.active = active
        self._files = files
        self._file: OpenFile | None = None
        file = self._keep(files.open(path, create=True))
        size = files.size(file)
        self.entries = 0 if fresh else size // self.entry_size
        self.misaligned = bool(size % self.entry_size)
        if fresh and size:
            files.truncate(file, 0)
        if active:
            self.preallocate()

    @property
    def file(self) -> OpenFile:
        # Another thread may clear the attribute meanwhile; a file that was returned stays open.
        file = self._file
        return self._keep(self._files.open(self.path)) if file is None else file

    def _keep(self, file: OpenFile) -> OpenFile:
        self._file = file
        self._files.spare_files.add(self)
        return file

    @property
    def size_in_bytes(self) -> int:
        """The size of the entries in bytes, without preallocated space."""
        return self.entries * self.entry_size

    def preallocate(self) -> None:
        """Grow the file to its limit, for an active segment."""
        self.active = True
        self._files.truncate(self.file, self.max_entries * self.entry_size)

    def trim(self) -> None:
        """Cut the file to its entries."""
        self.active = False
        self._files.truncate(self.file, self.size_in_bytes)

    def clear(self) -> None:
        """Remove all entries; the file stays empty until the segment is active again."""
        self.active = False
        self.entries = 0
        self._files.truncate(self.file, 0)

    def keep_entries(self, count: int) -> None:
        """Remove all but the first entries, and grow the file to its limit again, for an active segment."""
        self.entries = count
        # The file is zero after its entries.
        self.trim()
        self.preallocate()

    def append_entry(self, entry: bytes) -> None:
        self._files.pwrite(self.file, [entry], self.entries * self.entry_size)
        self.entries += 1

    def read_entries(self, first: int, count: int) -> bytes:
        """Return the bytes of `count` entries from number `first` on, fewer at the end of the index."""
        count = min(count, self.entries - first)
        if count <= 0:
            return b""
        return self._files.pread(self.file, count * self.entry_size, first * self.entry_size)

    def slot_at_or_below(self, key: bytes) -> int:
        """Return the number of the last entry whose key is at most `key`, -1 if all keys are larger.

        Parameters:
            key: big-endian, as at the start of an entry; keys are not negative, so bytes compare like numbers.
        """
        size, key_size = self.entry_size, len(key)
        low, high = 0, self.entries
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.read_entries(middle, 1)[:key_size] <= key:
                low = middle
            else:
                high = middle
        block = self.read_entries(low, high - low)
        below, above = 0, len(block) // size
        while below < above:
            middle = (below + above) // 2
            if block[middle * size : middle * size + key_size] <= key:
                below = middle + 1
            else:
                above = middle
        return low + below - 1

    def flush(self) -> None:
        self._files.fsync(self.file)

    def close(self) -> None:
        """Cut the file to its entries and close it."""
        if self.active:
            self.trim()
        self.close_file()

    def close_file(self) -> None:
        """Close the file, unless a flush in progress still uses it; the next use opens it again."""
        self._file = None
