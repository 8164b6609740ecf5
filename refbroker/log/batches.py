"""Iteration over the batches of a segment file, read in chunks so that memory does not depend on the file's size."""

from __future__ import annotations

from collections.abc import Iterator

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader
from refbroker.log.files import Files, OpenFile

LOG_OVERHEAD = 12
HEADER_SIZE = 61
# The length field of a batch covers at least magic, checksum and attributes.
SMALLEST_LENGTH = 14
# One read returns dozens of small batches. A larger read would be wasted before a large batch.
_HEADER_READ = 8 * 1024


def header_at(data: memoryview, position: int) -> BatchHeader | None:
    """Return the batch header at the start of `data`, which need not hold the whole batch; None if it is incomplete.

    Parameters:
        position: the position of `data` in the file, in bytes.

    Raises:
        CorruptRecordError: the length or magic is not that of a batch.
    """
    if len(data) <= LOG_OVERHEAD + 5:
        return None
    length = int.from_bytes(data[8:12], "big", signed=True)
    magic = data[16]
    smallest = HEADER_SIZE - LOG_OVERHEAD if magic == 2 else SMALLEST_LENGTH + 8 * magic
    if magic > 2 or length < smallest:
        offset = int.from_bytes(data[:8], "big", signed=True)
        raise CorruptRecordError(
            f"no record batch at position {position}: length {length}, magic {magic}", offset=offset
        )
    if len(data) < smallest + LOG_OVERHEAD:
        return None
    header = BatchHeader(data[: smallest + LOG_OVERHEAD], position)
    header.size_in_bytes = length + LOG_OVERHEAD
    return header


def scan_headers(files: Files, file: OpenFile, start: int, end: int) -> Iterator[BatchHeader]:
    """Yield the headers of the complete batches between two positions of a segment file.

    The `raw` of each header is the header alone. A last batch that extends beyond `end` is omitted.

    Raises:
        CorruptRecordError: the length or magic is not that of a batch.
    """
    position = start
    chunk = memoryview(b"")
    chunk_start = start
    while position + LOG_OVERHEAD <= end:
        header = header_at(chunk[position - chunk_start :], position) if position >= chunk_start else None
        if header is None:
            chunk = memoryview(files.pread(file, min(_HEADER_READ, end - position), position))
            chunk_start = position
            header = header_at(chunk, position)
        if header is None or position + header.size_in_bytes > end:
            return
        yield header
        position += header.size_in_bytes


def scan_batches(
    files: Files, file: OpenFile, start: int, end: int, *, chunk_size: int = 1 << 20
) -> Iterator[BatchHeader]:
    """Yield the complete batches between two positions of a segment file; `raw` of each header is the whole batch.

    Raises:
        CorruptRecordError: the length or magic is not that of a batch.
    """
    position = start
    while position + LOG_OVERHEAD <= end:
        chunk = memoryview(files.pread(file, min(chunk_size, end - position), position))
        done = 0
        while (header := header_at(chunk[done:], position)) is not None:
            size = header.size_in_bytes
            if position + size > end:
                return
            if done + size > len(chunk):
                if done == 0:
                    chunk = memoryview(files.pread(file, size, position))
                    if len(chunk) < size:
                        return
                else:
                    break
            yield BatchHeader(chunk[done : done + size], position)
            done += size
            position += size
        if header is None and done == 0:
            return


def read_batch(files: Files, file: OpenFile, header: BatchHeader) -> bytes:
    """Return the bytes of one batch."""
    return files.pread(file, header.size_in_bytes, header.position)
