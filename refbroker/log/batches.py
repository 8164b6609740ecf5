"""Walking over the batches of a segment file: headers only, read in pieces, whatever the file's size."""

from __future__ import annotations

from collections.abc import Iterator

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader
from refbroker.log.files import Files, OpenFile

LOG_OVERHEAD = 12
HEADER_SIZE = 61
# A batch's size as its length field says it must hold at least magic, checksum and attributes.
SMALLEST_LENGTH = 14
# Small batches come by the dozen in one read; more would be read in vain before a large one.
_HEADER_READ = 8 * 1024


def header_at(data: memoryview, position: int) -> BatchHeader | None:
    """The header at the start of `data`, which may end before the batch does; None when the header is not whole.

    Parameters:
        position: where in the file `data` starts; the header's `position`.

    Raises:
        CorruptRecordError: a size or format that no batch has.
    """
    if len(data) <= LOG_OVERHEAD + 5:
        return None
    length = int.from_bytes(data[8:12], "big", signed=True)
    magic = data[16]
    smallest = HEADER_SIZE - LOG_OVERHEAD if magic == 2 else SMALLEST_LENGTH + 8 * magic
    if magic > 2 or length < smallest:
        offset = int.from_bytes(data[:8], "big", signed=True)
        raise CorruptRecordError(
            f"there is no record batch at position {position}: length {length}, magic {magic}", offset=offset
        )
    if len(data) < smallest + LOG_OVERHEAD:
        return None
    header = BatchHeader(data[: smallest + LOG_OVERHEAD], position)
    header.size_in_bytes = length + LOG_OVERHEAD
    return header


def scan_headers(files: Files, file: OpenFile, start: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the whole batches between two positions of a segment file.

    Each header's `raw` is the header alone. A last batch that does not end before `end` is left out.

    Raises:
        CorruptRecordError: a size or format that no batch has.
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
    """The whole batches between two positions of a segment file, each header's `raw` the complete batch.

    Raises:
        CorruptRecordError: a size or format that no batch has.
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
    """The bytes of one batch."""
    return files.pread(file, header.size_in_bytes, header.position)
