"""The checkpoints of offsets in a data directory: read when it is opened, written when they have changed.

    recovery-point-offset-checkpoint      before this offset everything is on the disk
    log-start-offset-checkpoint           where a log starts, when that is not where its first segment does
    replication-offset-checkpoint         the high watermark, from which a log starts again
    cleaner-offset-checkpoint             the offset up to which the log is compacted

Without them everything is checked, which is slow but correct. A damaged checkpoint counts as an unclean stop. The
format is in `checkpoints`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from kclient.errors import KafkaStorageError
from refbroker.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartitionKey,
    read_offsets,
    write_offsets,
)
from refbroker.log.files import Files
from refbroker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class LogState:
    """What is known of a log before it is opened.

    Attributes:
        clean: whether its files can be used without checks.
        recovery_point: before this offset everything is on the disk.
        log_start_offset: its first offset.
        high_watermark: the offset up to which its records were replicated.
        cleaned_up_to: the start of the part that was never compacted, None if none was.
    """

    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaned_up_to: int | None = None


class OffsetCheckpoints:
    """The checkpoints of one data directory.

    Parameters:
        files: the disk.
        path: the data directory.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._recovery_points: dict[TopicPartitionKey, int] = {}
        self._log_start_offsets: dict[TopicPartitionKey, int] = {}
        self._high_watermarks: dict[TopicPartitionKey, int] = {}
        self._cleaner_offsets: dict[TopicPartitionKey, int] = {}
        self._written: dict[str, dict[TopicPartitionKey, int]] = {}

    def read(self) -> bool:
        """Read the files of the last run; return whether all of them could be read.

        Raises:
            OSError: the disk fails.
        """
        damaged: list[KafkaStorageError] = []

        def table(name: str) -> dict[TopicPartitionKey, int]:
            try:
                return read_offsets(self._files, self._path / name)
            except KafkaStorageError as error:
                logger.warning("%s; the logs are checked instead", error.message)
                damaged.append(error)
                return {}

        self._recovery_points = table(RECOVERY_POINTS)
        self._log_start_offsets = table(LOG_START_OFFSETS)
        self._high_watermarks = table(HIGH_WATERMARKS)
        self._cleaner_offsets = table(CLEANER_OFFSETS)
        return not damaged

    def state_of(self, key: TopicPartitionKey, *, clean: bool) -> LogState:
        """Return the state that the last run has left of a log.

        Parameters:
            clean: whether that run ended cleanly.
        """
        return LogState(
            clean,
            self._recovery_points.get(key, 0),
            self._log_start_offsets.get(key, 0),
            self._high_watermarks.get(key, 0),
            self._cleaner_offsets.get(key),
        )

    def write(self, logs: Mapping[TopicPartitionKey, PartitionLog], names: Collection[str]) -> None:
        """Write recovery points, log start offsets and high watermarks, each if it has changed.

        Parameters:
            logs: the logs in the checkpoints.
            names: only these files; all three by default.

        Raises:
            OSError: the disk fails.
        """
        starts = {
            key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > log.segments[0].base_offset
        }
        tables = (
            (RECOVERY_POINTS, {key: log.recovery_start for key, log in logs.items()}),
            (LOG_START_OFFSETS, starts),
            (HIGH_WATERMARKS, {key: log.high_watermark for key, log in logs.items()}),
        )
        for name, offsets in tables:
            if (not names or name in names) and self._written.get(name) != offsets:
                write_offsets(self._files, self._path / name, offsets)
                self._written[name] = offsets

    def lower_recovery_points(self, logs: Mapping[TopicPartitionKey, PartitionLog]) -> None:
        """Lower the checkpoint's recovery points of logs that are not on the disk that far, before they are written to.

        A log ends before its recovery point if the disk has lost flushed data; and the rebuilt indexes of an active
        segment that ends there may be missing on the disk.

        Raises:
            OSError: the disk fails.
        """
        if any(log.recovery_start < self._recovery_points.get(key, 0) for key, log in logs.items()):
            self.write(logs, [RECOVERY_POINTS])

    def write_cleaner_offsets(self, logs: Mapping[TopicPartitionKey, PartitionLog]) -> None:
        """Write the cleaner offset of each log, if they have changed.

        Raises:
            OSError: the disk fails.
        """
        offsets = {key: log.cleaned_up_to for key, log in logs.items() if log.cleaned_up_to is not None}
        if offsets != self._cleaner_offsets:
            write_offsets(self._files, self._path / CLEANER_OFFSETS, offsets)
            self._cleaner_offsets = offsets
