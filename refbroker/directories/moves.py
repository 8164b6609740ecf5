"""Moves partitions from one data directory of the broker to another while they are written and read (KIP-113).

A move fills a future log, `<topic>-<partition>.<id>-future`, in the other directory with the batches of the current
one, until it has caught up. Then, in one turn of the event loop: what little is missing is copied, the metadata learns
the new directory, the future log gets the current one's name, and the current one goes to `-delete`.

    current log    A/orders-0 ──────────── A/orders-0 ── A/orders-0 ─── A/orders-0.….-delete
    future log     B/orders-0.….-future ── (caught up) ── B/orders-0 ─── B/orders-0
    the metadata   A ────────────────────── B ─────────── B ──────────── B

A crash before the metadata has changed leaves a future log that is filled further after the restart; a crash after it
leaves a complete one, or two logs, of which `settling` takes the right one. Reading, checking and writing the
batches is done in a worker thread, which is the only one to touch the future log until it has caught up; so whoever
gives a move up only detaches that log, and the move deletes it when its thread is done. Compaction leaves the
partition alone meanwhile. Source: Kafka's ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kclient.errors import KafkaError
from refbroker.log import LogDirectory, LogManager, Origin, PartitionLog
from refbroker.log.compaction.manager import LogCleaner
from refbroker.log.compaction.throttle import Throttle
from refbroker.log.file_range import FileRange
from refbroker.runtime.clock import Clock
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""What is copied in one go, and what may be missing when a future log takes over."""


@dataclass(eq=False, slots=True)
class Move:
    """One partition on its way.

    Attributes:
        source: the current log.
        future: the one that is filled.
        directory: where it goes.
        goal: the offset up to which it is filled next: where the current log ended some time ago, since a producer that
            never pauses would move its end on for ever.
        flushed: whether what was copied until the first goal is on the disk.
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
    """The moves of a broker. Belongs to its event loop.

    Parameters:
        logs: the broker's logs.
        cleaner: compacts them.
        clock: the broker's.
        at_once: how many partitions are copied at the same time, `num.replica.alter.log.dirs.threads`.
        bytes_per_second: how fast all of them are copied, `replica.alter.log.dirs.io.max.bytes.per.second`.
        assign: tells the metadata that the partition of a log is in another directory now.
        on_moved: called with a log that another one has taken the place of.
    """

    def __init__(
        self,
        logs: LogManager,
        cleaner: LogCleaner,
        clock: Clock,
        at_once: int,
        bytes_per_second: Callable[[], float],
        assign: Callable[[PartitionLog, LogDirectory], None],
        on_moved: Callable[[PartitionLog], None],
    ) -> None:
        self._logs = logs
        self._cleaner = cleaner
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._throttle = Throttle(bytes_per_second, clock)
        self._assign = assign
        self._on_moved = on_moved
        self._moves: dict[tuple[str, int], Move] = {}
        # In the order of their beginning: a set's would differ from run to run.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def resume(self) -> None:
        """Go on with the moves that a stop or a crash has interrupted.

        Raises:
            KafkaStorageError: the disk fails.
        """
        for directory in self._logs.online:
            for (topic, partition), future in list(directory.futures.items()):
                source = self._logs.get(topic, partition)
                if source is not None:
                    self._begin(source, future, directory)

    def start(self, source: PartitionLog, directory: LogDirectory) -> None:
        """Move a partition, unless it is on its way there; what an earlier move has copied there is used.

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
        self._begin(source, future, directory)

    def _begin(self, source: PartitionLog, future: PartitionLog, directory: LogDirectory) -> None:
        move = Move(source, future, directory, source.log_end_offset)
        self._moves[source.topic, source.partition] = move
        move.task = asyncio.create_task(self._carry_out(move), name=f"refbroker {move}")
        # Not at the end of the task itself, which may be cancelled before it has begun.
        move.task.add_done_callback(lambda task: self._let_go(move, task))
        self._tasks[move.task] = None
        logger.info("%s begins at offset %d", move, future.log_end_offset)

    def cancel(self, topic: str, partition: int) -> None:
        """Give up a move, if there is one; what was copied is deleted.

        Raises:
            KafkaStorageError: the disk fails.
        """
        move = self._moves.pop((topic, partition), None)
        future = self._logs.detach_future(topic, partition)
        if move is not None and move.task is not None:
            move.task.cancel()
        elif future is not None:
            # Its move went wrong, and nobody fills it.
            future.delete()

    async def stop(self) -> None:
        """Interrupt all moves; they go on after the next start."""
        self._moves.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _carry_out(self, move: Move) -> None:
        key = (move.source.topic, move.source.partition)
        try:
            await self._cleaner.pause(*key)
            async with self._slots:
                while self._is_wanted(move) and not await self._advance(move):
                    pass
        except KafkaError as error:
            # A disk that fails has taken its directory offline; what was copied is found again at the next start.
            logger.error("%s is interrupted: %s", move, error)
        except Exception:
            logger.exception("%s went wrong", move)
        finally:
            self._cleaner.resume(*key)

    def _is_wanted(self, move: Move) -> bool:
        key = (move.source.topic, move.source.partition)
        return self._logs.get(*key) is move.source and move.directory.futures.get(key) is move.future

    def _let_go(self, move: Move, task: asyncio.Task[None]) -> None:
        key = (move.source.topic, move.source.partition)
        self._tasks.pop(task, None)
        if self._moves.get(key) is move:
            del self._moves[key]
        if not move.complete and move.directory.futures.get(key) is not move.future:
            self._dispose(move)

    def _dispose(self, move: Move) -> None:
        """Close a future log that was given up, and delete it if its disk can still be used."""
        if not move.directory.is_online:
            move.future.abandon()
            return
        try:
            move.future.delete()
        except KafkaError as error:
            logger.error("%s was given up, and its log could not be deleted: %s", move, error)

    async def _advance(self, move: Move) -> bool:
        """Do the next step; whether the move is at its end."""
        if not self._fits(move):
            self._begin_anew(move)
        if move.flushed and self._take_over(move):
            return True
        if move.future.log_end_offset < move.goal:
            missing = self._next_range(move)
            await in_thread(_copy, move.future, missing)
            if wait_ms := self._throttle.observe(missing.size):
                await self._clock.sleep(wait_ms)
        elif not move.flushed:
            # The bulk of it, so that the rest needs no long wait for the disk.
            await in_thread(move.future.flush)
            move.flushed = True
        else:
            move.goal = move.source.log_end_offset
        return False

    def _fits(self, move: Move) -> bool:
        """Whether the future log can be filled further: it ends within the current one."""
        source, end = move.source, move.future.log_end_offset
        return (end >= source.log_start_offset or end >= first_offset(source)) and end <= source.log_end_offset

    def _begin_anew(self, move: Move) -> None:
        """Replace a future log that cannot be filled further by an empty one."""
        logger.warning("%s begins anew: offset %d is not in the log any more", move, move.future.log_end_offset)
        self._logs.detach_future(move.source.topic, move.source.partition)
        self._dispose(move)
        move.future = self._logs.create_future(move.source, move.directory, first_offset(move.source))
        move.goal, move.flushed = move.source.log_end_offset, False

    def _next_range(self, move: Move) -> FileRange:
        source = move.source
        limit = min(COPY_BYTES, source.config.segment_bytes)
        return source.read(max(move.future.log_end_offset, source.log_start_offset), limit).records

    def _take_over(self, move: Move) -> bool:
        """Put the future log in the place of the current one; False when too much is missing for one turn."""
        source, future = move.source, move.future
        allowed = COPY_BYTES
        while future.log_end_offset < source.log_end_offset:
            missing = self._next_range(move)
            if missing.size > allowed:
                return False
            allowed -= missing.size
            _copy(future, missing)
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
    """The base offset of the batch that holds the log start: where a copy of a log begins.

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
    """Append a part of one log to another one.

    Raises:
        KafkaStorageError: a disk fails.
        CorruptRecordError: the log is damaged.
    """
    data = records.read()
    if data:
        future.append(data, leader_epoch=-1, origin=Origin.REPLICATION, now_ms=0)
