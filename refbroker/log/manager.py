"""All the logs of a broker, over one or several data directories."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kclient.errors import KafkaError, KafkaStorageError, TopicExistsError, UnknownTopicOrPartitionError
from refbroker.clock import system_clock_ms
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.flush import Flush
from refbroker.log.log_dir import METADATA_TOPIC, LogDirectory
from refbroker.log.partition_log import PartitionLog
from refbroker.log.producer_state import PRODUCER_ID_EXPIRATION_MS
from refbroker.log.retention import delete_old_segments

logger = logging.getLogger(__name__)


class LogManager:
    """The logs of a broker. Made by `open`; everything is called on the broker's event loop.

    Attributes:
        cluster_id: the cluster the data belong to.
        directories: the data directories, in the order they were given.
        defaults: the settings of a log whose topic sets none.
    """

    def __init__(
        self, directories: list[LogDirectory], cluster_id: str, defaults: LogConfig, clock: Callable[[], int]
    ) -> None:
        self.directories = directories
        self.cluster_id = cluster_id
        self.defaults = defaults
        self._clock = clock
        self._by_id: dict[tuple[uuid.UUID, int], PartitionLog] = {}
        self._by_name: dict[tuple[str, int], PartitionLog] = {}
        self._directory_of: dict[tuple[str, int], LogDirectory] = {}

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
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> LogManager:
        """Lock the data directories and open every log in them; new directories are formatted.

        Parameters:
            paths: `log.dirs`.
            cluster_id: the cluster's id; None takes the one of the data, or a new one.
            node_id: the broker's.
            defaults: the broker's settings for logs.
            clock: milliseconds since the epoch.
            files: the disk.
            rng: for ids and for roll jitter.
            producer_expiration_ms: `producer.id.expiration.ms`.

        Raises:
            KafkaStorageError: a directory is in use by another broker, or a disk fails.
            InconsistentClusterIdError: a directory belongs to another cluster or node.
        """
        source = rng or random.SystemRandom()
        config = defaults or LogConfig()
        opened: list[LogDirectory] = []
        try:
            for path in paths:
                directory = LogDirectory(
                    files or Files(),
                    Path(path),
                    clock=clock,
                    roll_jitter=source.random,
                    producer_expiration_ms=producer_expiration_ms,
                )
                directory.open(cluster_id, node_id, lambda: _new_uuid(source))
                opened.append(directory)
                cluster_id = directory.cluster_id
            if cluster_id is None:
                raise KafkaStorageError("a broker needs at least one data directory")
            manager = cls(opened, cluster_id, config, clock)
            for directory in opened:
                directory.load(config)
                manager._adopt(directory)
        except (OSError, KafkaError):
            for directory in opened:
                directory.abandon()
            raise
        return manager

    def _adopt(self, directory: LogDirectory) -> None:
        for (topic, partition), log in directory.logs.items():
            other = self._directory_of.get((topic, partition))
            if other is not None:
                raise KafkaStorageError(
                    f"there are two logs of it, in {other.path} and in {directory.path}; move one away",
                    topic=topic,
                    partition=partition,
                )
            self._register(log, directory)

    def _register(self, log: PartitionLog, directory: LogDirectory) -> None:
        self._by_name[log.topic, log.partition] = log
        if log.topic_id.int:
            self._by_id[log.topic_id, log.partition] = log
        self._directory_of[log.topic, log.partition] = directory

    def get(self, topic: str | uuid.UUID, partition: int) -> PartitionLog | None:
        """The log of a partition by its topic's name or id, None when this broker has none."""
        if isinstance(topic, str):
            return self._by_name.get((topic, partition))
        return self._by_id.get((topic, partition))

    def logs(self) -> list[PartitionLog]:
        return list(self._by_name.values())

    def create(self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig | None = None) -> PartitionLog:
        """Make an empty log in the directory that has the fewest.

        Parameters:
            config: its settings, the broker's when left out.

        Raises:
            TopicExistsError: there is one already.
            KafkaStorageError: no data directory can be used, or the disk fails.
        """
        if (topic, partition) in self._by_name:
            raise TopicExistsError("The log exists already", topic=topic, partition=partition)
        usable = [directory for directory in self.directories if directory.health.failure is None]
        if not usable:
            raise KafkaStorageError("All data directories are offline", topic=topic, partition=partition)
        directory = min(usable, key=lambda candidate: len(candidate.logs))
        log = directory.create(topic, partition, topic_id, config or self.defaults)
        self._register(log, directory)
        return log

    def delete(self, *keys: tuple[str, int]) -> None:
        """Remove logs with all their files.

        Parameters:
            keys: topics and partitions; many at once are cheaper than one by one.

        Raises:
            UnknownTopicOrPartitionError: there is no such log; none is removed.
            KafkaStorageError: the disk fails.
        """
        for topic, partition in keys:
            if (topic, partition) not in self._by_name:
                raise UnknownTopicOrPartitionError(topic=topic, partition=partition)
        for directory in self.directories:
            here = [key for key in keys if self._directory_of.get(key) is directory]
            for topic, partition in here:
                log = self._by_name.pop((topic, partition))
                self._by_id.pop((log.topic_id, partition), None)
                del self._directory_of[topic, partition]
            if here:
                directory.delete(here)

    def set_topic_ids(self, topic_ids: Mapping[str, uuid.UUID]) -> None:
        """Give logs that were written without a topic id the one of their topic."""
        for log in self.logs():
            topic_id = topic_ids.get(log.topic)
            if topic_id is not None and not log.topic_id.int:
                log.set_topic_id(topic_id)
                self._by_id[topic_id, log.partition] = log

    def pending_flushes(self, now_ms: int) -> list[tuple[PartitionLog, Flush]]:
        """What should be synced now: segments that were rolled, and logs whose `flush.ms` has passed.

        Run `sync` of each in a worker thread and pass it to the log's `finish_flush`.
        """
        pending = []
        for log in self.logs():
            if log.health.failure is None:
                due = now_ms - log.last_flush_ms >= log.config.flush_ms
                flush = log.begin_flush(up_to_active=not due)
                if flush is not None:
                    pending.append((log, flush))
        return pending

    def checkpoint(self) -> None:
        """Write the checkpoint files of every directory that can be used.

        Raises:
            KafkaStorageError: a disk fails.
        """
        for directory in self.directories:
            if directory.health.failure is None:
                directory.checkpoint()

    def apply_retention(self) -> None:
        """Delete what the settings of each log let go; the metadata log goes by its snapshots instead.

        A log that is being compacted has its turn the next time.
        """
        now = self._clock()
        for log in self.logs():
            if log.topic == METADATA_TOPIC or log.being_cleaned or log.health.failure is not None:
                continue
            try:
                delete_old_segments(log, now)
            except KafkaStorageError as error:
                # It has taken its own directory offline; those of others go on.
                logger.error("retention: %s", error)

    async def delete_due_files(self) -> None:
        """Remove the deleted files whose time has come, in every directory that can be used."""
        for directory in self.directories:
            if directory.health.failure is None:
                try:
                    await directory.delete_due_files()
                except KafkaStorageError as error:
                    logger.error("%s", error)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget the producers that have been idle for too long, in every log."""
        for log in self.logs():
            log.remove_expired_producers(now_ms)

    def close(self) -> None:
        """Close every log and mark the clean stop.

        Raises:
            KafkaStorageError: of the first directory that could not be closed; the others are closed all the same.
        """
        failure: KafkaStorageError | None = None
        for directory in self.directories:
            try:
                directory.close()
            except KafkaStorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Let go of everything as it is, as a crash would; for tests of recovery."""
        for directory in self.directories:
            directory.abandon()


def _new_uuid(source: random.Random) -> uuid.UUID:
    """A random id whose text does not start with a dash, which command lines would take for an option."""
    while True:
        value = uuid.UUID(int=source.getrandbits(128), version=4)
        if value.bytes[0] >> 2 != 62:
            return value
