"""A data directory: its owner, its lock, and the checkpoints of its logs.

    DIR/meta.properties, .kafka_cleanshutdown            see `checkpoints`
    DIR/.lock                                            see `directory_lock`
    DIR/recovery-point-offset-checkpoint, ...            see `offset_checkpoints`
    DIR/<topic>-<partition>/                             the logs, see `segment`
    DIR/<topic>-<partition>.<id>-future/, ...            logs that come or go, see `log_names`

A directory whose disk fails goes offline as a whole until the next start.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kclient.errors import KafkaError, KafkaStorageError
from refbroker.log import checkpoints
from refbroker.log.checkpoints import MetaProperties
from refbroker.log.config import LogConfig
from refbroker.log.deletions import Deletions
from refbroker.log.directory_lock import DirectoryLock
from refbroker.log.files import DiskSpace, Files, storage_errors
from refbroker.log.flush import DiskHealth
from refbroker.log.log_names import LogKind, LogName, log_name, parse_log_name
from refbroker.log.offset_checkpoints import LogState, OffsetCheckpoints
from refbroker.log.partition_log import PartitionLog
from refbroker.log.producer_state import PRODUCER_ID_EXPIRATION_MS, ProducerStates
from refbroker.log.recovery import LogLoader
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"

Key = checkpoints.TopicPartitionKey


class LogDirectory:
    """One data directory, locked from `open` to `close`.

    Parameters:
        files: the disk.
        path: the directory.
        clock: milliseconds since the epoch.
        roll_jitter: see `PartitionLog`.
        producer_expiration_ms: see `ProducerStates`.
        recovery_threads: how many logs are recovered at once.

    Attributes:
        properties: its `meta.properties`; None before it is formatted.
        clean: whether it was last closed cleanly.
        previous_epoch: the broker epoch at its last clean stop; -1 after an unclean one.
        health: whether it is usable.
        logs: its logs by topic and partition.
        futures: its future logs, which are being filled to replace logs in other directories.
        deletions: files and logs that wait to be removed.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        *,
        clock: Callable[[], int],
        roll_jitter: Callable[[], float],
        producer_expiration_ms: Callable[[], int] = lambda: PRODUCER_ID_EXPIRATION_MS,
        recovery_threads: int = 1,
    ) -> None:
        self.path = path
        self.health = DiskHealth()
        self.logs: dict[Key, PartitionLog] = {}
        self.futures: dict[Key, PartitionLog] = {}
        self.deletions = Deletions(clock)
        self.clean = False
        self.previous_epoch = checkpoints.NO_EPOCH
        self.properties: MetaProperties | None = None
        self._files = files
        self._clock = clock
        self._roll_jitter = roll_jitter
        self._producer_expiration_ms = producer_expiration_ms
        self._recovery_threads = recovery_threads
        self._lock = DirectoryLock(files, path)
        self._checkpoints = OffsetCheckpoints(files, path)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{'' if self.is_online else ', offline'})"

    @property
    def is_online(self) -> bool:
        """Whether its disk has not failed since the start."""
        return self.health.failure is None

    @property
    def directory_id(self) -> uuid.UUID:
        """Its id in the cluster's metadata; zero while unknown."""
        found = None if self.properties is None else self.properties.directory_id
        return found or uuid.UUID(int=0)

    def open(self) -> None:
        """Create the directory if necessary, lock it, and read its owner.

        Raises:
            DirectoryInUseError: another process uses it.
            KafkaStorageError: the disk fails, or `meta.properties` is damaged.
        """
        with storage_errors(f"open the data directory {self.path}"):
            self._files.make_directory(self.path, sync=True)
            self._lock.take()
            try:
                self.properties = checkpoints.read_meta_properties(self._files, self.path)
                marked = checkpoints.read_clean_shutdown(self._files, self.path)
                self.clean = self._checkpoints.read() and marked is not None
                self.previous_epoch = checkpoints.NO_EPOCH if marked is None else marked
            except (OSError, KafkaError):
                self._lock.release()
                raise

    def format(self, cluster_id: str, node_id: int, directory_id: uuid.UUID) -> None:
        """Make it a data directory of this cluster's.

        Raises:
            KafkaStorageError: the disk fails.
        """
        properties = MetaProperties(cluster_id, node_id, directory_id)
        with storage_errors(f"format the data directory {self.path}"):
            checkpoints.write_meta_properties(self._files, self.path, properties)
        self.properties = properties

    def log_names(self) -> list[LogName]:
        """Return the names of its logs, opened or not.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with storage_errors(f"read the data directory {self.path}"):
            found = [parse_log_name(name) for name in self._files.names(self.path)]
        return [name for name in found if name is not None]

    def load(self, config: LogConfig) -> None:
        """Open every log in the directory; recover them after an unclean stop.

        Parameters:
            config: the settings of all logs; topics' own settings follow with `PartitionLog.update_config`.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with storage_errors(f"open the logs in {self.path}"):
            # From here on the files change, so the marker must be removed before.
            self._files.unlink(self.path / checkpoints.CLEAN_SHUTDOWN)
            self._files.fsync_directory(self.path)
            paths = [self.path / name for name in self._files.names(self.path)]
            found = self._logs_to_open([path for path in paths if self._files.is_directory(path)], config)
            if self.clean or self._recovery_threads == 1 or len(found) < 2:
                logs = [self._reopen(path, config) for path in found.values()]
            else:
                # One log waits for the disk while another one is read.
                with ThreadPoolExecutor(self._recovery_threads, "refbroker-recovery") as pool:
                    logs = list(pool.map(lambda path: self._reopen(path, config), found.values()))
            for (key, future), log in zip(found, logs, strict=True):
                (self.futures if future else self.logs)[key] = log
            self._checkpoints.lower_recovery_points(self._checkpointed())

    def _logs_to_open(self, paths: Iterable[Path], config: LogConfig) -> dict[tuple[Key, bool], Path]:
        """Return the logs to open, by topic and partition and whether they are future logs."""
        logs: dict[tuple[Key, bool], Path] = {}
        for path in paths:
            found = parse_log_name(path.name)
            if found is None:
                continue
            one = ((found.topic, found.partition), found.kind is LogKind.FUTURE)
            if found.kind is LogKind.STRAY:
                logger.warning("%s belongs to no partition of this broker; remove it when it is not needed", path)
            elif found.kind is LogKind.DELETE or one in logs:
                # Of two future logs either is equally good, and a copy can be made again.
                self.deletions.schedule([path], config.file_delete_delay_ms)
            else:
                logs[one] = path
        return logs

    def _reopen(self, path: Path, config: LogConfig) -> PartitionLog:
        found = parse_log_name(path.name)
        assert found is not None
        key = (found.topic, found.partition)
        state = self._checkpoints.state_of(key, clean=self.clean)
        if found.kind is LogKind.FUTURE:
            # Its source may have been compacted since.
            state = dataclasses.replace(state, cleaned_up_to=None)
        return self._open_log(path, key, self._read_topic_id(path), config, state)

    def _read_topic_id(self, path: Path) -> uuid.UUID:
        """Return a log's topic id, zero if it cannot be read: the metadata provides it later."""
        try:
            return checkpoints.read_topic_id(self._files, path) or uuid.UUID(int=0)
        except KafkaStorageError as error:
            logger.warning("%s", error.message)
            return uuid.UUID(int=0)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        *,
        kind: LogKind = LogKind.CURRENT,
        start_offset: int = 0,
    ) -> PartitionLog:
        """Create an empty log, without waiting for the disk.

        Parameters:
            kind: CURRENT or FUTURE.
            start_offset: its first offset.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.health.check()
        path = self.path / log_name(topic, partition, kind)
        with self.health.guard(f"create {path}", topic, partition, can_repeat=True):
            self._files.make_directory(path)
            state = LogState(clean=True, recovery_point=start_offset, log_start_offset=start_offset)
            log = self._open_log(path, (topic, partition), topic_id, config, state)
            if topic_id.int:
                log.set_topic_id(topic_id, sync=False)
        (self.futures if kind is LogKind.FUTURE else self.logs)[topic, partition] = log
        return log

    def _open_log(self, path: Path, key: Key, topic_id: uuid.UUID, config: LogConfig, state: LogState) -> PartitionLog:
        producers = ProducerStates(*key, expiration_ms=self._producer_expiration_ms)
        loader = LogLoader(
            self._files,
            path,
            config,
            producers,
            clean=state.clean,
            log_start_offset=state.log_start_offset,
            recovery_point=state.recovery_point,
            now_ms=self._clock(),
        )
        log = PartitionLog(
            self._files,
            path,
            *key,
            topic_id,
            config,
            loader.load(),
            clock=self._clock,
            roll_jitter=self._roll_jitter,
            health=self.health,
            deletions=self.deletions,
        )
        log.update_high_watermark(state.high_watermark)
        log.cleaned_up_to = state.cleaned_up_to
        return log

    def adopt_future(self, key: Key, config: LogConfig) -> PartitionLog:
        """Make a future log the current one, under its final name.

        It is closed, so that all of it is on the disk, and opened again.

        Parameters:
            config: its settings from now on.

        Raises:
            KafkaStorageError: the disk fails; after a crash or failure it still exists under one of the names.
        """
        # The checkpoints are its own under either name.
        self.checkpoint()
        future = self.futures.pop(key)
        future.close()
        path = self.path / log_name(*key)
        with self.health.guard(f"rename {future.directory}", *key):
            self._files.rename(future.directory, path)
            state = LogState(True, future.log_end_offset, future.log_start_offset, future.high_watermark)
            log = self._open_log(path, key, future.topic_id, config, state)
        self.logs[key] = log
        return log

    def delete(self, keys: Iterable[Key]) -> None:
        """Remove logs and their checkpoints.

        Parameters:
            keys: topics and partitions.

        Raises:
            KafkaStorageError: the disk fails.
        """
        doomed = [self.logs.pop(key) for key in keys]
        # Before the logs, or a new log of the same name could begin where the old one ended after a crash.
        self.checkpoint()
        for log in doomed:
            log.delete()

    def set_aside(self, log: PartitionLog) -> None:
        """Rename a log so that it belongs to no partition; its files stay.

        Raises:
            KafkaStorageError: the disk fails.
        """
        for logs in (self.logs, self.futures):
            if logs.get((log.topic, log.partition)) is log:
                del logs[log.topic, log.partition]
        log.abandon()
        path = self.path / log_name(log.topic, log.partition, LogKind.STRAY)
        with self.health.guard(f"rename {log.directory}", log.topic, log.partition):
            self._files.rename(log.directory, path)
        logger.warning("%s belongs to no partition of this broker, and is called %s from now on", log.directory, path)
        log.directory = path

    def space(self) -> DiskSpace:
        """Return the size and free space of the disk.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.health.check()
        with storage_errors(f"ask for the space of {self.path}"):
            return self._files.space(self.path)

    async def delete_due_files(self) -> None:
        """Remove the files that are due, in a worker thread.

        Raises:
            KafkaStorageError: the disk fails.
        """
        due = self.deletions.take_due()
        for number, deletion in enumerate(due):
            try:
                with self.health.guard(f"remove files in {self.path}", can_repeat=True):
                    await in_thread(deletion.carry_out, self._files)
            except KafkaStorageError:
                for left in due[number:]:
                    self.deletions.schedule(left.paths, 0)
                raise

    def checkpoint(self, *names: str) -> None:
        """Write recovery points, log start offsets, high watermarks and cleaner offsets, if they have changed.

        Parameters:
            names: only these files; all by default.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.health.check()
        with self.health.guard(f"write the checkpoints of {self.path}", can_repeat=True):
            self._checkpoints.write(self._checkpointed(), names)
        if not names:
            self.write_cleaner_offsets()

    def _checkpointed(self) -> dict[Key, PartitionLog]:
        # Kafka's metadata log is not in the checkpoints.
        return {key: log for key, log in (self.futures | self.logs).items() if key[0] != METADATA_TOPIC}

    def write_cleaner_offsets(self) -> None:
        """Write the cleaner offset of each log, if they have changed.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with self.health.guard(f"write the checkpoints of {self.path}", can_repeat=True):
            self._checkpoints.write_cleaner_offsets(self.logs)

    def close(self, broker_epoch: int = -1) -> None:
        """Close the logs, write the checkpoints and the marker of a clean stop, and unlock.

        Parameters:
            broker_epoch: the epoch in the marker; for the controller a broker that knows it has lost nothing.

        Raises:
            KafkaStorageError: the disk fails, or failed before: there is no marker, and the next start recovers.
        """
        try:
            _close_all([*self.logs.values(), *self.futures.values()])
            self.checkpoint()
            with self.health.guard(f"mark the clean stop of {self.path}"):
                checkpoints.write_clean_shutdown(self._files, self.path, broker_epoch)
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Close everything as it is, as in a crash; the next start recovers."""
        for log in (*self.logs.values(), *self.futures.values()):
            log.abandon()
        self._lock.release()


def _close_all(logs: Iterable[PartitionLog]) -> None:
    """Close every log, and raise the first failure after all were tried."""
    failure: KafkaStorageError | None = None
    for log in logs:
        try:
            log.close()
        except KafkaStorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure
