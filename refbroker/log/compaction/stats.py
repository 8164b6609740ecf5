"""The statistics of compaction: of one pass, and of all passes since the start of the broker."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PassStats:
    """One pass over one log.

    Attributes:
        topic, partition: the log's partition.
        first_dirty_offset, end_offset: the dirty part in the map; the next pass continues at the end.
        map_bytes_read, map_records: the bytes and records read for the offset map.
        map_keys: the keys in the map.
        map_utilization: how full the map was at the end, from 0 to 1.
        bytes_read, bytes_written: the bytes of the rewritten segments, and of the new ones.
        records_read, records_kept: the same in records, including control records.
        records_invalid: records without key, which were dropped.
        started_ms, duration_ms: by the broker's clock.
    """

    topic: str
    partition: int
    first_dirty_offset: int
    started_ms: int
    end_offset: int = 0
    map_bytes_read: int = 0
    map_records: int = 0
    map_keys: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_invalid: int = 0
    duration_ms: int = 0

    @property
    def records_removed(self) -> int:
        return self.records_read - self.records_kept


@dataclass(slots=True)
class CleanerStats:
    """All passes since the start.

    Attributes:
        passes: the number of finished passes.
        bytes_read, bytes_written, records_read, records_kept: sums over them, as in `PassStats`; the offset map's
            reads are in `bytes_read`.
        last_pass: the last finished pass.
        max_dirty_percent: the dirty ratio of the dirtiest log at the last choice, 0 to 100.
        max_map_utilization_percent: the utilization of the last pass's map, 0 to 100.
        max_compaction_delay_ms: for how long a log had been due by `max.compaction.lag.ms` when one was last chosen.
        last_run_ms: when logs were last looked at, milliseconds since the epoch; -1 before that.
        uncleanable: the logs that could not be cleaned and are passed over, by data directory.
    """

    passes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    last_pass: PassStats | None = None
    max_dirty_percent: int = 0
    max_map_utilization_percent: int = 0
    max_compaction_delay_ms: int = 0
    last_run_ms: int = -1
    uncleanable: dict[str, set[tuple[str, int]]] = field(default_factory=dict)

    @property
    def records_removed(self) -> int:
        return self.records_read - self.records_kept

    def add(self, finished: PassStats) -> None:
        """Add a finished pass."""
        self.passes += 1
        self.bytes_read += finished.bytes_read + finished.map_bytes_read
        self.bytes_written += finished.bytes_written
        self.records_read += finished.records_read
        self.records_kept += finished.records_kept
        self.last_pass = finished
        self.max_map_utilization_percent = int(100 * finished.map_utilization)
