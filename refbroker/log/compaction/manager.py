"""The log cleaner: it chooses logs, runs passes over them, and stores the clean part of each log.

Every `log.cleaner.backoff.ms` it looks for logs that are due, and cleans the dirtiest, up to `log.cleaner.threads` at
once, until none is due. A log whose cleaning fails for any other reason than its disk is uncleanable until the next
start; if the disk fails, its data directory is offline anyway.

Everything here runs on the event loop; `cleaner` documents what runs in worker threads. Elsewhere: retention, also of
logs with `compact,delete` (the log manager, which skips logs that are being cleaned).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import anyio

from kclient.errors import CorruptRecordError, KafkaStorageError
from refbroker.log.compaction.cleaner import CleanerSettings, CleaningAbortedError, CleaningPass, Place
from refbroker.log.compaction.selection import LogToClean, choose, first_dirty_offset, measure
from refbroker.log.compaction.states import CleaningState, CleaningStates, Event
from refbroker.log.compaction.stats import CleanerStats, PassStats
from refbroker.log.compaction.throttle import Throttle
from refbroker.log.files import Files
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.log.manager import LogManager
from refbroker.log.partition_log import PartitionLog
from refbroker.runtime.clock import Clock
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

Key = tuple[str, int]

# Less could not contain the header of a batch.
_SMALLEST_BUFFER = 1024


class CleanerConfig:
    """The settings of the log cleaner, which may change while it runs.

    Parameters:
        value: returns the value of a broker setting by its name.
    """

    def __init__(self, value: Callable[[str], str | None]) -> None:
        self._value = value

    def _number(self, name: str) -> float:
        text = self._value(f"log.cleaner.{name}")
        assert text is not None, f"log.cleaner.{name} has a default"
        return float(text)

    @property
    def threads(self) -> int:
        return int(self._number("threads"))

    @property
    def backoff_ms(self) -> int:
        return int(self._number("backoff.ms"))

    @property
    def max_bytes_per_second(self) -> float:
        # Kafka accepts any number here, and stops at one that is not positive.
        return max(self._number("io.max.bytes.per.second"), 1.0)

    def of_one_cleaner(self) -> CleanerSettings:
        """Return the settings of each cleaner, which share the memory."""
        threads = max(self.threads, 1)
        return CleanerSettings(
            dedupe_buffer_size=int(self._number("dedupe.buffer.size")) // threads,
            load_factor=self._number("io.buffer.load.factor"),
            # Half of it is for reading, half for writing.
            io_buffer_size=max(int(self._number("io.buffer.size")) // threads // 2, _SMALLEST_BUFFER),
        )


class LogCleaner:
    """Compacts the logs of a broker.

    Parameters:
        logs: the broker's logs.
        config: the settings.
        clock: its clock.
        files: the disk.

    Attributes:
        stats: its statistics.
    """

    def __init__(self, logs: LogManager, config: CleanerConfig, clock: Clock, files: Files) -> None:
        self.stats = CleanerStats()
        self._logs = logs
        self._config = config
        self._clock = clock
        self._files = files
        self._throttle = Throttle(lambda: config.max_bytes_per_second, clock)
        self._states = CleaningStates()
        self._passes: dict[Key, CleaningPass] = {}
        self._pass_ended = asyncio.Event()

    # Who may clean

    def state(self, topic: str, partition: int) -> CleaningState | None:
        """Return the cleaning state of a log; None without one."""
        return self._states[topic, partition]

    async def pause(self, topic: str, partition: int) -> None:
        """Abort a pass over a log, and start none until `resume`; return once its segments are no longer used.

        For truncation and for moving the log. Pauses are counted.
        """
        key = (topic, partition)
        self._states.change(key, Event.PAUSE)
        if (running := self._passes.get(key)) is not None:
            running.abort()
        while self._states[key] is CleaningState.ABORTED:
            await self._pass_ended.wait()

    def resume(self, topic: str, partition: int) -> None:
        """Undo one `pause`.

        Raises:
            IllegalStateError: it is not paused.
        """
        self._states.change((topic, partition), Event.RESUME)

    # Choosing

    def look(self) -> list[LogToClean]:
        """Return every compacted log that may be cleaned now, with its dirty part; record the dirtiest."""
        now = self._clock()
        self.stats.last_run_ms = now
        self._forget_deleted()
        found = [
            measured
            for log in self._logs.logs()
            if self._may_clean(log) and (measured := self._measure(log, now)) is not None
        ]
        self.stats.max_dirty_percent = int(100 * max((each.dirty_ratio for each in found), default=0.0))
        self.stats.max_compaction_delay_ms = max((each.overdue_ms for each in found), default=0)
        return found

    def _may_clean(self, log: PartitionLog) -> bool:
        key = (log.topic, log.partition)
        if not log.config.compacted or log.topic == METADATA_TOPIC or self._states[key] is not None:
            return False
        uncleanable = self.stats.uncleanable.get(str(log.directory.parent), ())
        return key not in uncleanable and not log.closed and log.health.failure is None

    def _measure(self, log: PartitionLog, now_ms: int) -> LogToClean | None:
        try:
            with log.health.guard(f"look at {log.directory}", log.topic, log.partition, can_repeat=True):
                measured = measure(log, now_ms)
        except KafkaStorageError as error:
            logger.error("log cleaner: %s", error)
            return None
        except CorruptRecordError as error:
            logger.error("log cleaner: %s", error)
            self._mark_uncleanable(log)
            return None
        if log.cleaned_up_to is not None:
            # A checkpoint that is ignored is not read again.
            log.cleaned_up_to = measured.first_dirty_offset
        return measured

    def _forget_deleted(self) -> None:
        for directory, keys in list(self.stats.uncleanable.items()):
            keys.intersection_update((log.topic, log.partition) for log in self._logs.logs())
            if not keys:
                del self.stats.uncleanable[directory]

    def _mark_uncleanable(self, log: PartitionLog) -> None:
        logger.error("%s is uncleanable until the next start", log)
        self.stats.uncleanable.setdefault(str(log.directory.parent), set()).add((log.topic, log.partition))

    # Cleaning

    async def clean_due(self) -> None:
        """Clean all due logs, as many at a time as there are threads."""
        async with anyio.create_task_group() as group:
            for _ in range(self._config.threads):
                group.start_soon(self._clean_while_any_is_due)

    async def _clean_while_any_is_due(self) -> None:
        while True:
            target = choose(self.look())
            if target is not None:
                await self.clean(target)
            elif self._passes:
                await self._wait_for_a_pass_to_end()
            else:
                return

    async def _wait_for_a_pass_to_end(self) -> None:
        """Wait for the end of a pass, at most until the logs are checked again."""
        waits: list[asyncio.Task[Any]] = [
            asyncio.create_task(self._pass_ended.wait()),
            asyncio.create_task(self._clock.sleep(self._config.backoff_ms)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def clean(self, target: LogToClean) -> PassStats | None:
        """Run a pass over a log; return its statistics, None if it was aborted or failed."""
        log = target.log
        key = (log.topic, log.partition)
        self._states.change(key, Event.BEGIN)
        log.being_cleaned = True
        running = CleaningPass(self._files, target, self._config.of_one_cleaner(), self._throttle, self._clock)
        self._passes[key] = running
        try:
            await self._run(running)
            log.cleaned_up_to = running.stats.end_offset
            directory = self._logs.directory_of(*key)
            if directory is not None:
                directory.write_cleaner_offsets()
        except CleaningAbortedError as error:
            logger.info("%s", error)
            return None
        except KafkaStorageError as error:
            logger.error("log cleaner: %s", error)
            return None
        except CorruptRecordError as error:
            logger.error("log cleaner: %s", error)
            self._mark_uncleanable(log)
            return None
        except Exception:
            # Whatever the error was, it would return in each round, and the other logs must be cleaned.
            logger.exception("cleaning %s went wrong", log)
            self._mark_uncleanable(log)
            return None
        finally:
            running.close()
            log.being_cleaned = False
            del self._passes[key]
            self._states.change(key, Event.FINISH)
            self._pass_ended.set()
            self._pass_ended = asyncio.Event()
        self.stats.add(running.stats)
        _log_pass(running.stats)
        return running.stats

    async def _run(self, running: CleaningPass) -> None:
        place = Place.LOOP
        while True:
            step = running.step() if place is Place.LOOP else await in_thread(running.step)
            if step is None:
                return
            if step.wait_ms:
                await self._clock.sleep(step.wait_ms)
            place = step.place


def uncleanable_bytes(log: PartitionLog) -> int:
    """Return the bytes of an uncleanable log that wait to be cleaned."""
    first = first_dirty_offset(log)
    return sum(segment.size for segment in log.segments.from_offset(first) if segment is not log.segments.active)


def _log_pass(stats: PassStats) -> None:
    logger.info(
        "Cleaned %s-%d, dirty from %d to %d, in %d ms: %d of %d records stay, %d of %d bytes; %d keys, %d%% of the map",
        stats.topic,
        stats.partition,
        stats.first_dirty_offset,
        stats.end_offset,
        stats.duration_ms,
        stats.records_kept,
        stats.records_read,
        stats.bytes_written,
        stats.bytes_read,
        stats.map_keys,
        int(100 * stats.map_utilization),
    )
    if stats.records_invalid:
        logger.warning(
            "%s-%d had %d records without key, which are gone", stats.topic, stats.partition, stats.records_invalid
        )
