"""The handling, at a start, of segments that were being added or removed when the broker stopped.

    .deleted   deleted, and not removed yet: removed
    .cleaned   incomplete: removed
    .swap      complete and durable, and replaces other segments: installed

A `.swap` segment replaces the segments with base offsets from its own to its end. The remaining files of these are
removed, and then the suffix `.swap`. While the files of a segment are renamed from `.cleaned` to `.swap`, some have one
suffix and some the other, so a `.swap` file at or above the lowest `.cleaned` one is incomplete too. The same holds for
several segments that replace one that is split, because they are renamed from the last to the first. The directory is
flushed between steps, so that a removed file cannot reappear after the next step. Source: `load` of Kafka's LogLoader.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from kclient.errors import CorruptRecordError
from refbroker.log.batches import scan_headers
from refbroker.log.files import Files
from refbroker.log.segment import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX

logger = logging.getLogger(__name__)

# A snapshot of the metadata log that is being deleted, which does not concern the log.
_DELETED_METADATA_SNAPSHOT = ".checkpoint.deleted"


def finish_swaps(files: Files, directory: Path) -> None:
    """Complete or remove unfinished changes of segments, as the first step of opening a log.

    Raises:
        OSError: the disk fails.
    """
    names = files.names(directory)
    deleted = [n for n in names if n.endswith(DELETED_SUFFIX) and not n.endswith(_DELETED_METADATA_SNAPSHOT)]
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    lowest_cleaned = min((base for base in map(_base_offset, cleaned) if base is not None), default=None)
    unfinished = [name for name in swaps if not _is_finished(name, lowest_cleaned)]
    _remove(files, directory, [*unfinished, *deleted])
    _remove(files, directory, cleaned)
    finished = [name for name in swaps if name not in unfinished]
    if not finished:
        return
    ranges = [_offset_range(files, directory / name) for name in finished if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    # Each range by itself: a part of a split segment may be in its place already, between two that are not.
    replaced = [
        name
        for name in files.names(directory)
        if not name.endswith(SWAP_SUFFIX)
        and (base := _base_offset(name)) is not None
        and any(start <= base < stop for start, stop in ranges)
    ]
    _remove(files, directory, replaced)
    for name in finished:
        logger.info("Putting %s in its place, as compaction was about to", directory / name)
        files.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX), sync=False)
    files.fsync_directory(directory)


def _base_offset(name: str) -> int | None:
    """Return the offset at the start of a file's name; None for a file that belongs to no segment."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else None


def _is_finished(swap: str, lowest_cleaned: int | None) -> bool:
    base = _base_offset(swap)
    return base is not None and (lowest_cleaned is None or base < lowest_cleaned)


def _offset_range(files: Files, path: Path) -> tuple[int, int]:
    """Return the base offset of a segment file, and the offset after its last record."""
    start = end = int(path.name.partition(".")[0])
    file = files.open(path, writable=False)
    try:
        for header in scan_headers(files, file, 0, files.size(file)):
            end = header.next_offset
    except CorruptRecordError as error:
        # What is behind it stays in the segments that it was made of.
        logger.error("%s: %s", path, error.message)
    finally:
        file.close()
    return start, end


def _remove(files: Files, directory: Path, names: Iterable[str]) -> None:
    """Remove files permanently."""
    removed = False
    for name in names:
        logger.info("Removing %s", directory / name)
        files.unlink(directory / name)
        removed = True
    if removed:
        files.fsync_directory(directory)
