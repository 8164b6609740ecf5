"""Moves of partitions between data directories of the broker while they are written and read (KIP-113).

A move copies the batches of the current log to a future log, `<topic>-<partition>.<id>-future`, in the other
directory until it has caught up. Then, in one turn of the event loop, the last batches are copied, the metadata is
updated to the new directory, the future log is renamed to the current one's name, and the current log is renamed to
`-delete`.

    current log    A/orders-0 ──────────── A/orders-0 ── A/orders-0 ─── A/orders-0.….-delete
    future log     B/orders-0.….-future ── (caught up) ── B/orders-0 ─── B/orders-0
    the metadata   A ────────────────────── B ─────────── B ──────────── B

After a crash before the metadata has changed, the move resumes with the future log that it finds. A crash after the
change leaves a complete future log, or two logs, of which `settling` keeps the one that the metadata names. Until the
future log has caught up, only a worker thread reads, checks and writes its batches. So cancelling a move only
detaches the future log, and the move deletes that log once its thread is done. Compaction of the partition is paused
during a move. Source: Kafka's ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kclient.errors import KafkaError
from refbroker.log import Isolation, LogDirectory, LogManager, Origin, PartitionLog
from refbroker.log.compaction.manager import LogCleaner
from refbroker.log.compaction.throttle import Throttle
from refbroker.log.file_range import FileRange
from refbroker.runtime.clock import Clock
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""The bytes that are copied at a time, and the most that may be missing when the future log replaces the current."""


@dataclass(eq=False, slots=True)
class Move:
    """The move of one partition.

    Attributes:
        source: the current log.
        future: the log that batches are copied to.
        directory: the target directory.
        goal: the offset to copy up to: an earlier log end offset of the current log, because a producer that never
            pauses would advance the end without limit.
        flushed: whether the batches up to the first goal have been flushed to disk.
        complete: whether the future log has become the current one.
    """

    source: PartitionLog
    future: PartitionLog
    directory: LogDirectory
    goal: int
    task: asyncio.Task[None] | None = None
    flushed: bool = False
    complete: bool = False

    def __str__(self) -> str:
        return f"the move of {self.source.topic}-{self.source.partition} to {self.directory.path}"


class ReplicaMoves:
    """The moves of a broker. Its methods must be called in the broker's event loop.

    Parameters:
        logs: the broker's logs.
        cleaner: the log cleaner, which is paused for partitions that move.
        clock: the broker's clock.
        max_concurrent: the most partitions that are copied at the same time, `num.replica.alter.log.dirs.threads`.
        bytes_per_second: returns the limit for all moves, `replica.alter.log.dirs.io.max.bytes.per.second`.
        assign: called with a log and its new directory, to update the metadata.
        on_moved: called with a log that its future log has replaced.
    """

    def __init__(
        self,
        logs: LogManager,
        cleaner: LogCleaner,
        clock: Clock,
        max_concurrent: int,
        bytes_per_second: Callable[[], float],
        assign: Callable[[PartitionLog, LogDirectory], None],
        on_moved: Callable[[PartitionLog], None],
    ) -> None:
        self._logs = logs
        self._cleaner = cleaner
        self._clock = clock
        self._slots = asyncio.Semaphore(max_concurrent)
        self._throttle = Throttle(bytes_per_second, clock)
        self._assign = assign
        self._on_moved = on_moved
        self._moves: dict[tuple[str, int], Move] = {}
        # A dict keeps the order of starts; the order of a set would differ from run to run.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def resume(self) -> None:
        """Resume the moves that a stop or a crash has interrupted.

        Raises:
            KafkaStorageError: the disk fails.
        """
        for directory in self._logs.online:
            for (topic, partition), future in list(directory.futures.items()):
                source = self._logs.get(topic, partition)
                if source is not None:
                    self._start_task(source, future, directory)

    def start(self, source: PartitionLog, directory: LogDirectory) -> None:
        """Move a partition to a directory, unless it is moving there already; reuse what an earlier move has copied.

        Raises:
            KafkaStorageError: the disk fails.
        """
        key = (source.topic, source.partition)
        if key in self._moves and self._moves[key].directory is directory:
            return
        if self._logs.future_directory(*key) is not directory:
            self.cancel(*key)
        future = directory.futures.get(key)
        if future is None:
            future = self._logs.create_future(source, directory, first_offset(source))
        self._start_task(source, future, directory)

    def _start_task(self, source: PartitionLog, future: PartitionLog, directory: LogDirectory) -> None:
        move = Move(source, future, directory, source.log_end_offset)
        self._moves[source.topic, source.partition] = move
        move.task = asyncio.create_task(self._run(move), name=f"refbroker {move}")
        # A callback, because a task that is cancelled before it starts runs no `finally`.
        move.task.add_done_callback(lambda task: self._on_task_done(move, task))
        self._tasks[move.task] = None
        logger.info("%s begins at offset %d", move, future.log_end_offset)

    def cancel(self, topic: str, partition: int) -> None:
        """Cancel the move of a partition, if it has one, and delete what was copied.

        Raises:
            KafkaStorageError: the disk fails.
        """
        move = self._moves.pop((topic, partition), None)
        future = self._logs.detach_future(topic, partition)
        if move is not None and move.task is not None:
            move.task.cancel()
        elif future is not None:
            # Its move has failed, so no task will delete the log.
            future.delete()

    async def stop(self) -> None:
        """Interrupt all moves; `resume` continues them after the next start."""
        self._moves.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, move: Move) -> None:
        key = (move.source.topic, move.source.partition)
        try:
            await self._cleaner.pause(*key)
            async with self._slots:
                while self._is_current(move) and not await self._advance(move):
                    pass
        except KafkaError as error:
            # A failed disk has taken its directory offline; the next start finds what was copied.
            logger.error("%s is interrupted: %s", move, error)
        except Exception:
            logger.exception("%s has failed", move)
        finally:
            self._cleaner.resume(*key)

    def _is_current(self, move: Move) -> bool:
        key = (move.source.topic, move.source.partition)
        return self._logs.get(*key) is move.source and move.directory.futures.get(key) is move.future

    def _on_task_done(self, move: Move, task: asyncio.Task[None]) -> None:
        key = (move.source.topic, move.source.partition)
        self._tasks.pop(task, None)
        if self._moves.get(key) is move:
            del self._moves[key]
        if not move.complete and move.directory.futures.get(key) is not move.future:
            self._discard(move)

    def _discard(self, move: Move) -> None:
        """Close a detached future log, and delete it if its directory is online."""
        if not move.directory.is_online:
            move.future.abandon()
            return
        try:
            move.future.delete()
        except KafkaError as error:
            logger.error("%s was cancelled, and its log could not be deleted: %s", move, error)

    async def _advance(self, move: Move) -> bool:
        """Do the next step, and return whether the move is complete."""
        if not self._can_continue(move):
            self._restart(move)
        if move.flushed and self._take_over(move):
            return True
        if move.future.log_end_offset < move.goal:
            missing = self._next_range(move)
            await in_thread(_copy, move.future, missing)
            if wait_ms := self._throttle.observe(missing.size):
                await self._clock.sleep(wait_ms)
        elif not move.flushed:
            # Flush most of the data here, so that the last step does not wait long for the disk.
            await in_thread(move.future.flush)
            move.flushed = True
        else:
            move.goal = move.source.log_end_offset
        return False

    def _can_continue(self, move: Move) -> bool:
        """Return whether the future log ends within the current one, so that copying can continue."""
        source, end = move.source, move.future.log_end_offset
        return (end >= source.log_start_offset or end >= first_offset(source)) and end <= source.log_end_offset

    def _restart(self, move: Move) -> None:
        """Replace a future log that cannot be continued by an empty one."""
        logger.warning(
            "%s starts again from the log start: offset %d is no longer in the log", move, move.future.log_end_offset
        )
        self._logs.detach_future(move.source.topic, move.source.partition)
        self._discard(move)
        move.future = self._logs.create_future(move.source, move.directory, first_offset(move.source))
        move.goal, move.flushed = move.source.log_end_offset, False

    def _next_range(self, move: Move) -> FileRange:
        source = move.source
        limit = min(COPY_BYTES, source.config.segment_bytes)
        offset = max(move.future.log_end_offset, source.log_start_offset)
        return source.read(offset, limit, isolation=Isolation.LOG_END).records

    def _take_over(self, move: Move) -> bool:
        """Replace the current log by the future log; return False if too much is missing for one turn of the loop."""
        source, future = move.source, move.future
        allowed = COPY_BYTES
        while future.log_end_offset < source.log_end_offset:
            missing = self._next_range(move)
            if missing.size > allowed:
                return False
            allowed -= missing.size
            _copy(future, missing)
        future.update_high_watermark(source.high_watermark)
        future.delete_records(source.log_start_offset)
        future.begin_leader_epoch(source.leader_epoch)
        self._assign(source, move.directory)
        move.complete = True
        try:
            self._logs.promote(source.topic, source.partition)
        finally:
            self._on_moved(source)
        logger.info("%s is complete", move)
        return True


def first_offset(log: PartitionLog) -> int:
    """Return the offset that a copy of a log begins with: the base offset of the batch that has the log start offset.

    Raises:
        KafkaStorageError: the disk fails.
    """
    log.health.check()
    with log.health.guard(f"read {log.directory}", log.topic, log.partition, can_repeat=True):
        for segment in log.segments.from_offset(log.log_start_offset):
            header = segment.find(log.log_start_offset)
            if header is not None:
                return min(header.base_offset, log.log_start_offset)
    return log.log_start_offset


def _copy(future: PartitionLog, records: FileRange) -> None:
    """Append records of the current log to the future log.

    Raises:
        KafkaStorageError: a disk fails.
        CorruptRecordError: the log is damaged.
    """
    data = records.read()
    if data:
        future.append(data, leader_epoch=-1, origin=Origin.REPLICATION, now_ms=0)
