"""A data directory: whose it is, that nobody else uses it, and the checkpoints of the logs in it.

    DIR/meta.properties, .lock, .kafka_cleanshutdown     see `checkpoints`
    DIR/recovery-point-offset-checkpoint, ...
    DIR/<topic>-<partition>/                             the logs, see `segment`
    DIR/<topic>-<partition>.<id>-delete/                 a log on its way out

`.lock` is empty; the lock is on the file. A second process is refused, be it this broker or Apache
Kafka.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio.to_thread

from kclient.errors import KafkaError, KafkaStorageError
from refbroker.log import checkpoints
from refbroker.log.checkpoints import MetaProperties
from refbroker.log.config import LogConfig
from refbroker.log.deletions import Deletions
from refbroker.log.files import Files, OpenFile, storage_errors
from refbroker.log.flush import DiskHealth
from refbroker.log.partition_log import PartitionLog
from refbroker.log.producer_state import PRODUCER_ID_EXPIRATION_MS, ProducerStates
from refbroker.log.recovery import LogLoader

logger = logging.getLogger(__name__)

LOCK = ".lock"
METADATA_TOPIC = "__cluster_metadata"

_LOG_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_DELETED_LOG_NAME = re.compile(r"[a-zA-Z0-9._-]+-\d+\.[0-9a-f]{32}-delete")

# Locks of the operating system are between processes; these are the directories of this one.
_in_use: set[Path] = set()


def parse_log_name(name: str) -> tuple[str, int] | None:
    """Topic and partition of a log's directory, None for any other name."""
    match = _LOG_NAME.fullmatch(name)
    return None if match is None else (match["topic"], int(match["partition"]))


class LogDirectory:
    """One data directory, locked from `open` to `close`.

    Parameters:
        files: the disk.
        path: the directory.
        clock: milliseconds since the epoch.
        roll_jitter: see `PartitionLog`.
        producer_expiration_ms: see `ProducerStates`.

    Attributes:
        directory_id: from `meta.properties`.
        cluster_id: likewise.
        clean: whether it was closed cleanly the last time.
        health: whether it can be used.
        logs: its logs by topic and partition.
        deletions: files and logs that wait to be removed.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        *,
        clock: Callable[[], int],
        roll_jitter: Callable[[], float],
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        self.path = path
        self.health = DiskHealth()
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.deletions = Deletions(clock)
        self.clean = False
        self.directory_id = uuid.UUID(int=0)
        self.cluster_id = ""
        self._files = files
        self._clock = clock
        self._roll_jitter = roll_jitter
        self._producer_expiration_ms = producer_expiration_ms
        self._lock: OpenFile | None = None
        self._recovery_points: dict[tuple[str, int], int] = {}
        self._log_start_offsets: dict[tuple[str, int], int] = {}

    def open(self, cluster_id: str | None, node_id: int, new_uuid: Callable[[], uuid.UUID]) -> None:
        """Make the directory if need be, lock it, and see whose it is.

        Parameters:
            cluster_id: the cluster's; None takes the one it was formatted with, or a new one.
            node_id: the broker's.
            new_uuid: makes ids.

        Raises:
            KafkaStorageError: another process uses it, or the disk fails.
            InconsistentClusterIdError: it belongs to another cluster or node.
        """
        with storage_errors(f"open the data directory {self.path}"):
            self._files.make_directory(self.path)
            self._take_lock()
            try:
                self._identify(cluster_id, node_id, new_uuid)
                self.clean = self._files.exists(self.path / checkpoints.CLEAN_SHUTDOWN)
                self._recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS)
                self._log_start_offsets = self._read_offsets(checkpoints.LOG_START_OFFSETS)
            except (OSError, KafkaError):
                self._release_lock()
                raise

    def _take_lock(self) -> None:
        path = self.path.resolve()
        lock = None if path in _in_use else self._files.lock(self.path / LOCK)
        if lock is None:
            raise KafkaStorageError(
                f"the data directory {self.path} is in use by another broker; stop that one, or use another directory"
            )
        _in_use.add(path)
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            _in_use.discard(self.path.resolve())

    def _identify(self, cluster_id: str | None, node_id: int, new_uuid: Callable[[], uuid.UUID]) -> None:
        found = checkpoints.read_meta_properties(self._files, self.path)
        if found is None or found.directory_id is None:
            owner = found.cluster_id if found is not None else cluster_id or checkpoints.encode_uuid(new_uuid())
            found = MetaProperties(owner, node_id if found is None else found.node_id, new_uuid())
            checkpoints.check_owner(found, self.path, cluster_id or owner, node_id)
            checkpoints.write_meta_properties(self._files, self.path, found)
        checkpoints.check_owner(found, self.path, cluster_id or found.cluster_id, node_id)
        self.cluster_id = found.cluster_id
        self.directory_id = found.directory_id or self.directory_id

    def _read_offsets(self, name: str) -> dict[tuple[str, int], int]:
        try:
            return checkpoints.read_offsets(self._files, self.path / name)
        except KafkaStorageError as error:
            # Without checkpoints everything is checked, which is slow but right.
            logger.warning("%s", error)
            self.clean = False
            return {}

    def load(self, config: LogConfig) -> None:
        """Open every log in the directory, recovering them after an unclean stop.

        Parameters:
            config: for all of them; topics' own settings come with `PartitionLog.update_config`.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with self.health.guard(f"open the logs in {self.path}"):
            # From here on the files change, so the mark must be gone before.
            self._files.unlink(self.path / checkpoints.CLEAN_SHUTDOWN)
            self._files.fsync_directory(self.path)
            for name in self._files.names(self.path):
                path = self.path / name
                if not self._files.is_directory(path):
                    continue
                if _DELETED_LOG_NAME.fullmatch(name):
                    self._files.remove_tree(path)
                elif (key := parse_log_name(name)) is not None:
                    topic_id = checkpoints.read_topic_id(self._files, path) or uuid.UUID(int=0)
                    self.logs[key] = self._open_log(*key, topic_id, config)

    def create(self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig) -> PartitionLog:
        """Make an empty log.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.health.check()
        path = self.path / f"{topic}-{partition}"
        with self.health.guard(f"create {path}", topic, partition):
            self._files.make_directory(path)
            if topic_id.int:
                checkpoints.write_topic_id(self._files, path, topic_id)
            log = self._open_log(topic, partition, topic_id, config)
        self.logs[topic, partition] = log
        return log

    def _open_log(self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig) -> PartitionLog:
        path = self.path / f"{topic}-{partition}"
        producers = ProducerStates(topic, partition, expiration_ms=self._producer_expiration_ms)
        loader = LogLoader(
            self._files,
            path,
            config,
            producers,
            clean=self.clean,
            log_start_offset=self._log_start_offsets.get((topic, partition), 0),
            recovery_point=self._recovery_points.get((topic, partition), 0),
            now_ms=self._clock(),
        )
        return PartitionLog(
            self._files,
            path,
            topic,
            partition,
            topic_id,
            config,
            loader.load(),
            clock=self._clock,
            roll_jitter=self._roll_jitter,
            health=self.health,
            deletions=self.deletions,
        )

    def delete(self, keys: Iterable[tuple[str, int]]) -> None:
        """Remove logs and what the checkpoints say of them.

        Parameters:
            keys: topics and partitions.

        Raises:
            KafkaStorageError: the disk fails.
        """
        doomed = [self.logs.pop(key) for key in keys]
        for log in doomed:
            self._recovery_points.pop((log.topic, log.partition), None)
            self._log_start_offsets.pop((log.topic, log.partition), None)
        # Before the logs, or else a new log of the same name could begin where the old one ended after a crash.
        self.checkpoint()
        for log in doomed:
            log.delete()

    async def delete_due_files(self) -> None:
        """Remove the files whose time has come, in a worker thread.

        Raises:
            KafkaStorageError: the disk fails.
        """
        for deletion in self.deletions.take_due():
            with self.health.guard(f"remove files in {self.path}"):
                await anyio.to_thread.run_sync(deletion.carry_out, self._files)

    def checkpoint(self) -> None:
        """Write recovery points, log start offsets and high watermarks.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.health.check()
        # Kafka keeps its metadata log out of the checkpoints.
        logs = {key: log for key, log in self.logs.items() if key[0] != METADATA_TOPIC}
        starts = {
            key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > log.segments[0].base_offset
        }
        tables = (
            (checkpoints.RECOVERY_POINTS, {key: log.recovery_point for key, log in logs.items()}),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, {key: log.high_watermark for key, log in logs.items()}),
        )
        with self.health.guard(f"write the checkpoints of {self.path}"):
            for name, offsets in tables:
                checkpoints.write_offsets(self._files, self.path / name, offsets)

    def close(self) -> None:
        """Close the logs, write the checkpoints, leave the mark of a clean stop, and unlock.

        Raises:
            KafkaStorageError: the disk fails, or failed before: there is no mark, and the next start recovers.
        """
        try:
            _close_all(self.logs.values())
            self.checkpoint()
            with self.health.guard(f"mark the clean stop of {self.path}"):
                checkpoints.write_clean_shutdown(self._files, self.path)
        finally:
            self._release_lock()

    def abandon(self) -> None:
        """Let go of everything as it is, as a crash would; the next start recovers."""
        for log in self.logs.values():
            log.abandon()
        self._release_lock()


def _close_all(logs: Iterable[PartitionLog]) -> None:
    """Close every log, and raise the first failure once all have been tried."""
    failure: KafkaStorageError | None = None
    for log in logs:
        try:
            log.close()
        except KafkaStorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure
