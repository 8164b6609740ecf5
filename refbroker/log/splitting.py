"""The splitting of a segment whose offsets are too far from its base offset for an index, which old brokers wrote.

The parts are written as `.cleaned` files and replace the segment as a compacted one does (see `swap_recovery`), so a
crash leaves either the segment or its parts. Source: KAFKA-6264, `splitOverflowedSegment` of Kafka's LocalLog.
"""

from __future__ import annotations

import logging
from pathlib import Path

from kclient.errors import CorruptRecordError
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.segment import CLEANED_SUFFIX, SWAP_SUFFIX, Segment
from refbroker.log.swap_recovery import finish_swaps
from refbroker.log.validation import keep_offsets

logger = logging.getLogger(__name__)


class OffsetOverflowError(Exception):
    """A segment contains an offset that is too far from its base offset for an index entry.

    Attributes:
        segment: the segment.
    """

    def __init__(self, segment: Segment) -> None:
        super().__init__(f"{segment.path} has offsets that are too far from its base offset")
        self.segment = segment


def split_segment(files: Files, directory: Path, segment: Segment, config: LogConfig) -> None:
    """Replace one segment by several; the caller must open them afterwards.

    Raises:
        OSError: the disk fails.
    """
    parts: list[Segment] = []
    try:
        for header in segment.batches():
            if not parts or not parts[-1].takes(header.last_offset):
                base = header.base_offset if parts else segment.base_offset
                part = Segment(
                    files, directory, base, config, created_ms=segment.created_ms, create=True, suffix=CLEANED_SUFFIX
                )
                parts.append(part)
            parts[-1].append([keep_offsets(header)])
    except CorruptRecordError as error:
        # Recovery would truncate the segment at the same batch.
        logger.warning("%s: %s", segment.path, error.message)
    for part in parts:
        part.deactivate()
        for file in part.open_files():
            files.fsync(file)
    segment.release()
    for part in reversed(parts):
        part.change_suffix(SWAP_SUFFIX)
    logger.warning("%s is split into segments from %s on", segment.path, [part.base_offset for part in parts])
    finish_swaps(files, directory)
