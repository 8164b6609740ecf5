"""All logs of a broker, in one or several data directories."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from kclient.errors import KafkaStorageError, TopicExistsError, UnknownTopicOrPartitionError
from refbroker.log.checkpoints import NO_EPOCH, random_uuid
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.flush import Flush
from refbroker.log.log_dir import METADATA_TOPIC, Key, LogDirectory
from refbroker.log.log_names import LogKind
from refbroker.log.log_table import LogTable
from refbroker.log.opening import OpenDirectories, load_directories, open_directories
from refbroker.log.partition_log import PartitionLog
from refbroker.log.producer_state import PRODUCER_ID_EXPIRATION_MS
from refbroker.log.retention import delete_old_segments
from refbroker.log.settling import Home, settle
from refbroker.runtime.clock import system_clock_ms

logger = logging.getLogger(__name__)

SEGMENTS_IN_A_ROW = 100
"""The number of segments that retention deletes before the event loop does other work; they take some 20 ms."""


class LogManager:
    """The logs of a broker. Made by `open`; every method is called on the broker's event loop.

    Attributes:
        cluster_id: the cluster the data belong to.
        directories: the data directories, in the order they were given, offline ones too.
        metadata_directory: the one that has the metadata log.
        defaults: the settings of logs whose topics have none.
        segments_deleted: the number deleted by retention since the start.
        cordoned: the directories without new logs, `cordoned.log.dirs`.
        on_directory_failure: called when the disk of a directory fails, in the thread in which it happened; the logs
            in it raise errors from then on, until `take_offline` takes them away.
    """

    def __init__(self, opened: OpenDirectories, defaults: LogConfig, clock: Callable[[], int]) -> None:
        self.directories = opened.directories
        self._opened = opened.all
        self.metadata_directory = opened.metadata
        self.cluster_id = opened.cluster_id
        self.defaults = defaults
        self.segments_deleted = 0
        self.cordoned: frozenset[LogDirectory] = frozenset()
        self.on_directory_failure: Callable[[LogDirectory], None] | None = None
        self._clock = clock
        self._table = LogTable()
        self._preferred: dict[Key, LogDirectory] = {}
        for directory in self._opened:
            directory.health.on_failure = functools.partial(self._failed, directory)
            for key, log in directory.logs.items():
                if key[0] != METADATA_TOPIC and directory not in self.directories:
                    # A directory for the metadata only, which Kafka does not list either.
                    continue
                # A crash may leave two logs of a partition; `settle` keeps the right one.
                if key not in self._table:
                    self._table.put(log, directory)

    def _failed(self, directory: LogDirectory) -> None:
        logger.error("the data directory %s goes offline: %s", directory.path, directory.health.failure)
        if self.on_directory_failure is not None:
            self.on_directory_failure(directory)

    @classmethod
    def open(
        cls,
        paths: Iterable[Path | str],
        cluster_id: str | None,
        node_id: int,
        defaults: LogConfig | None = None,
        *,
        clock: Callable[[], int] = system_clock_ms,
        files: Files | None = None,
        rng: random.Random | None = None,
        producer_expiration_ms: Callable[[], int] = lambda: PRODUCER_ID_EXPIRATION_MS,
        metadata_path: Path | None = None,
        recovery_threads: int = 1,
    ) -> LogManager:
        """Lock the data directories and open every log in them; see `opening` for the errors.

        Parameters:
            paths: `log.dirs`.
            metadata_path: `metadata.log.dir`; by default the first of `paths` has the metadata log.
            cluster_id: the cluster's id; None takes the one of the data, or a new one.
            node_id: the broker's.
            defaults: the broker's settings for logs.
            clock: milliseconds since the epoch.
            files: the disk.
            rng: for ids and for roll jitter.
            producer_expiration_ms: says `producer.id.expiration.ms`, which may change.
            recovery_threads: `num.recovery.threads.per.data.dir`.

        Raises:
            KafkaStorageError: a directory is in use by another broker, a disk that is needed fails, or the
                directories contradict each other.
            InconsistentClusterIdError: a directory belongs to another cluster or node.
        """
        source = rng or random.SystemRandom()
        config = defaults or LogConfig()
        given = [Path(path) for path in paths]
        if not given:
            raise KafkaStorageError("a broker needs at least one data directory")
        every = {
            path.absolute(): LogDirectory(
                files or Files(),
                path,
                clock=clock,
                roll_jitter=source.random,
                producer_expiration_ms=producer_expiration_ms,
                recovery_threads=recovery_threads,
            )
            for path in (*given, *([] if metadata_path is None else [metadata_path]))
        }
        try:
            directories = [every[path.absolute()] for path in given]
            metadata = directories[0] if metadata_path is None else every[metadata_path.absolute()]
            opened = open_directories(directories, metadata, cluster_id, node_id, lambda: random_uuid(source))
            load_directories(opened, config)
        except BaseException:
            for directory in every.values():
                directory.abandon()
            raise
        return cls(opened, config, clock)

    @property
    def online(self) -> list[LogDirectory]:
        """The usable data directories."""
        return [directory for directory in self.directories if directory.is_online]

    @property
    def _usable(self) -> list[LogDirectory]:
        """The same, and the one for the metadata only."""
        return [directory for directory in self._opened if directory.is_online]

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch at the last clean stop of all data directories; -1 if one was not stopped cleanly then."""
        epochs = {directory.previous_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 and len(self.online) == len(self.directories) else NO_EPOCH

    def get(self, topic: str | uuid.UUID, partition: int) -> PartitionLog | None:
        """Return the log of a partition by its topic's name or id; None if this broker has none."""
        return self._table.get(topic, partition)

    def logs(self) -> list[PartitionLog]:
        return self._table.all()

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        """Return the directory of a partition's log; None without one."""
        return self._table.directory_of((topic, partition))

    def directory_at(self, path: str) -> LogDirectory | None:
        """Return the data directory with an absolute path; None if it is not in `log.dirs`."""
        return next((each for each in self.directories if str(each.path.absolute()) == path), None)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig | None = None,
        *,
        directory: LogDirectory | None = None,
    ) -> PartitionLog:
        """Create an empty log.

        Parameters:
            config: its settings; by default the broker's.
            directory: by default the preferred one (`prefer`), or the one with the fewest logs that is not cordoned.

        Raises:
            TopicExistsError: the log exists already.
            KafkaStorageError: no data directory is usable, or the disk fails.
        """
        key = (topic, partition)
        if key in self._table:
            raise TopicExistsError("The log exists already", topic=topic, partition=partition)
        preferred = self._preferred.pop(key, None)
        if preferred is not None and not preferred.is_online:
            preferred = None
        candidates = [preferred or directory or self.metadata_directory]
        if preferred is None and directory is None:
            candidates = self._by_number_of_logs()
        failure = KafkaStorageError("All data directories are offline", topic=topic, partition=partition)
        for candidate in candidates:
            try:
                log = candidate.create(topic, partition, topic_id, config or self.defaults)
            except KafkaStorageError as error:
                if candidate.is_online:
                    raise
                # Its disk is failing; another one may work.
                failure = error
            else:
                self._table.put(log, candidate)
                return log
        raise failure

    def _by_number_of_logs(self) -> list[LogDirectory]:
        """Return the candidates for a new log, the best one first."""
        open_to_new = [directory for directory in self.online if directory not in self.cordoned]
        # A partition that was assigned to this broker needs a directory, even if all are cordoned.
        return sorted(open_to_new, key=lambda each: len(each.logs) + len(each.futures)) or self.online[:1]

    def prefer(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """Create the log of a partition in this directory when it is created."""
        self._preferred[topic, partition] = directory

    def delete(self, *keys: tuple[str, int]) -> None:
        """Remove logs with all their files.

        Parameters:
            keys: topics and partitions; many at once are cheaper than one by one.

        Raises:
            UnknownTopicOrPartitionError: there is no such log; none is removed.
            KafkaStorageError: the disk fails.
        """
        for topic, partition in keys:
            if (topic, partition) not in self._table:
                raise UnknownTopicOrPartitionError(topic=topic, partition=partition)
        for directory in self.directories:
            here = [key for key in keys if self._table.directory_of(key) is directory]
            for key in here:
                self._table.remove(key)
                self.detach_future(*key)
            if here:
                directory.delete(here)

    def truncate_to(self, log: PartitionLog, offset: int) -> bool:
        """Remove the records of a log from an offset on, and return whether there were any; see `truncation`.

        Parameters:
            log: whose compaction is paused.
            offset: the largest possible log end offset afterwards.

        Raises:
            IllegalStateError: the log is being compacted.
            KafkaStorageError: the disk fails.
        """
        return log.truncate_to(offset, self._directory_with(log).checkpoint)

    def truncate_fully_and_start_at(self, log: PartitionLog, offset: int) -> None:
        """Remove all records of a log, and start it at an offset.

        Parameters:
            log: whose compaction is paused.
            offset: the log start and log end offset afterwards.

        Raises:
            IllegalStateError: the log is being compacted.
            KafkaStorageError: the disk fails.
        """
        log.truncate_fully_and_start_at(offset, self._directory_with(log).checkpoint)

    def _directory_with(self, log: PartitionLog) -> LogDirectory:
        for directory in self._opened:
            key = (log.topic, log.partition)
            if log in (directory.logs.get(key), directory.futures.get(key)):
                return directory
        raise UnknownTopicOrPartitionError("its log was removed", topic=log.topic, partition=log.partition)

    # Logs that move between directories

    def future(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the future log of a partition; None without one."""
        directory = self.future_directory(topic, partition)
        return None if directory is None else directory.futures[topic, partition]

    def future_directory(self, topic: str, partition: int) -> LogDirectory | None:
        """Return the directory of a partition's future log; None without one."""
        return next((each for each in self.directories if (topic, partition) in each.futures), None)

    def create_future(self, log: PartitionLog, directory: LogDirectory, start_offset: int) -> PartitionLog:
        """Create an empty log that is to replace another one.

        Parameters:
            log: the current one.
            directory: where.
            start_offset: its first offset.

        Raises:
            KafkaStorageError: the disk fails.
        """
        return directory.create(
            log.topic, log.partition, log.topic_id, log.config, kind=LogKind.FUTURE, start_offset=start_offset
        )

    def detach_future(self, topic: str, partition: int) -> PartitionLog | None:
        """Remove a future log from the table; the one that fills it deletes it afterwards."""
        directory = self.future_directory(topic, partition)
        return None if directory is None else directory.futures.pop((topic, partition))

    def promote(self, topic: str, partition: int) -> PartitionLog:
        """Replace the current log of a partition by its future log.

        The new name is written first, as in Kafka: a crash between the two leaves two logs, of which `settle` keeps
        one.

        Raises:
            UnknownTopicOrPartitionError: it has no future log.
            KafkaStorageError: a disk fails.
        """
        target = self.future_directory(topic, partition)
        if target is None:
            raise UnknownTopicOrPartitionError("there is no future log", topic=topic, partition=partition)
        key = (topic, partition)
        current, source = self._table.get(*key), self._table.directory_of(key)
        config = target.futures[key].config if current is None else current.config
        log = target.adopt_future(key, config)
        self._table.put(log, target)
        if current is not None and source is not None:
            # A copy is as clean as its source, which compaction has skipped in the meantime.
            log.cleaned_up_to = current.cleaned_up_to
            target.write_cleaner_offsets()
            source.delete([key])
        return log

    # The metadata and the disk

    def settle(self, home: Home) -> None:
        """Make the logs on the disk match the metadata after a restart; see `settling`.

        Parameters:
            home: the id of the directory in which the metadata has the partition of a log; None when this broker
                does not have that partition.

        Raises:
            KafkaStorageError: there are two logs of a partition, and the metadata names neither.
        """
        settle(self.online, self._table, home, self.promote)

    def take_offline(self, directory: LogDirectory) -> list[PartitionLog]:
        """Remove a failed directory and its logs, which are returned.

        Its future logs are only removed from the table: the one that fills them closes them.
        """
        lost = [self._table.remove(key) for key in self._table.within(directory)]
        directory.futures.clear()
        directory.abandon()
        directory.logs.clear()
        return lost

    def set_topic_ids(self, topic_ids: Mapping[str, uuid.UUID]) -> None:
        """Set the topic ids of logs that were written without one."""
        for log in self.logs():
            topic_id = topic_ids.get(log.topic)
            if topic_id is not None and not log.topic_id.int:
                log.set_topic_id(topic_id)
                self._table.index_by_id(log)

    def pending_flushes(self, now_ms: int) -> Iterator[tuple[PartitionLog, Flush]]:
        """Yield what must be synced now: rolled segments, and logs whose `flush.ms` has passed.

        Run `sync` of each in a worker thread and pass it to the log's `finish_flush`. Each has its files open, so they
        are yielded one by one.
        """
        for log in self.logs():
            if log.closed or log.health.failure is not None:
                continue
            due = now_ms - log.last_flush_ms >= log.config.flush_ms
            try:
                flush = log.begin_flush(up_to_active=not due)
            except KafkaStorageError as error:
                logger.error("%s", error)
                continue
            if flush is not None:
                yield log, flush

    def checkpoint(self, *names: str) -> None:
        """Write the checkpoint files of every usable directory.

        Parameters:
            names: only these files; all by default.

        Raises:
            KafkaStorageError: of the first disk that fails; the others are still written.
        """
        failure: KafkaStorageError | None = None
        for directory in self._usable:
            try:
                directory.checkpoint(*names)
            except KafkaStorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def apply_retention(self) -> None:
        """Delete what the settings of each log allow; the metadata log is trimmed by its snapshots instead.

        A log that is being compacted is skipped. Renaming the files of many segments takes time, so requests are
        handled between logs.
        """
        for log in self.logs():
            if log.topic == METADATA_TOPIC:
                continue
            deleted = 1
            while deleted and not (log.closed or log.being_cleaned or log.health.failure is not None):
                try:
                    deleted = delete_old_segments(log, self._clock(), at_most=SEGMENTS_IN_A_ROW)
                except KafkaStorageError as error:
                    # Its own directory may have gone offline; the logs of others continue.
                    logger.error("retention: %s", error)
                    break
                self.segments_deleted += deleted
                if deleted:
                    await asyncio.sleep(0)

    async def delete_due_files(self) -> None:
        """Remove the deleted files that are due, in every usable directory."""
        for directory in self._usable:
            try:
                await directory.delete_due_files()
            except KafkaStorageError as error:
                logger.error("%s", error)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Drop the producers that have been idle for too long, in every log."""
        for log in self.logs():
            log.remove_expired_producers(now_ms)

    def close(self, broker_epoch: int = -1) -> None:
        """Close every log and write the markers of a clean stop; offline directories are left as they are.

        Parameters:
            broker_epoch: the epoch of the broker's registration, for the marker; -1 without one.

        Raises:
            KafkaStorageError: of the first directory that could not be closed; the others are still closed.
        """
        failure: KafkaStorageError | None = None
        for directory in self._opened:
            if not directory.is_online:
                directory.abandon()
                continue
            try:
                directory.close(broker_epoch)
            except KafkaStorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Close everything as it is, as in a crash; for tests of recovery."""
        for directory in self._opened:
            directory.abandon()
