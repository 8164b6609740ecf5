"""The broker: puts log, metadata, server and background work together, and takes them apart again.

    async with Broker(BrokerConfig({"log.dirs": "/tmp/data"})) as broker:
        ...                                   # it serves on broker.host, broker.port

Everything runs on one event loop of asyncio; what blocks (fsync) runs in worker threads. One node, which
is its own controller.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from functools import partial
from types import TracebackType
from typing import Self

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.coordinator import GroupCoordinator
from refbroker.coordinators.transactions.coordinator import TransactionCoordinator
from refbroker.directories.events import DirectoryEvents
from refbroker.directories.moves import ReplicaMoves
from refbroker.fetch.delayed_fetch import DelayedFetches
from refbroker.fetch.sessions import FetchSessions
from refbroker.log import Files, LogManager, PartitionLog
from refbroker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, random_uuid
from refbroker.log.compaction.manager import CleanerConfig, LogCleaner
from refbroker.metadata.bootstrap import activation_records, bootstrap_records
from refbroker.metadata.log import MetadataLog
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.producer_ids import ProducerIds
from refbroker.metadata.publisher import Publisher
from refbroker.metadata.registration import departure_records, registration_records
from refbroker.metrics.counters import BrokerMetrics
from refbroker.runtime.background import Background
from refbroker.runtime.clock import Clock
from refbroker.runtime.file_limit import file_limit, file_reserve, open_files, raise_file_limit
from refbroker.runtime.threads import in_thread
from refbroker.server.dispatch import Dispatcher
from refbroker.server.server import Server
from refbroker.testing.faults import Faults

logger = logging.getLogger(__name__)

SWEEP_MS = 5_000
FLUSH_MS = 1_000
# Which setting says how often a file of offsets is written.
CHECKPOINT_INTERVALS = {
    RECOVERY_POINTS: "log.flush.offset.checkpoint.interval.ms",
    LOG_START_OFFSETS: "log.flush.start.offset.checkpoint.interval.ms",
    HIGH_WATERMARKS: "replica.high.watermark.checkpoint.interval.ms",
}
DELETE_FILES_MS = 1_000
TAKE_SNAPSHOT_MS = 1_000
CLEAN_SNAPSHOTS_MS = 60_000


class Broker:
    """A broker on one node. An async context manager, which serves from enter to exit.

    Parameters:
        config: its settings.
        clock: what it goes by.
        files: the disk.
        rng: for ids.
        faults: what a test has asked to go wrong.

    Attributes:
        host, port: what it listens on, once it serves.
        logs, cleaner, metadata, partitions, sessions, producer_ids, delayed_fetches, background, metrics, server:
            its parts.
        groups: coordinates groups.
        transactions: coordinates transactions.
        directory_events, moves: what keeps the data directories and the metadata in step.
        failed: done, with the reason, once the broker has lost a disk it needs and has ended by itself.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        rng: random.Random | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or Clock()
        self.node_id = config.node_id
        self.rng = rng or random.SystemRandom()
        self.faults = faults or Faults()
        self.host = ""
        self.port = 0
        self._files = files or Files()
        self.background = Background(self.clock)
        self.metrics = BrokerMetrics()
        self.logs: LogManager
        self.cleaner: LogCleaner
        self.metadata: MetadataLog
        self.partitions: Partitions
        self.sessions: FetchSessions
        self.producer_ids: ProducerIds
        self.delayed_fetches: DelayedFetches
        self.server: Server
        self.directory_events: DirectoryEvents
        self.moves: ReplicaMoves
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self.failed: asyncio.Future[KafkaStorageError]
        self._ending: asyncio.Task[None] | None = None

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.logs.cluster_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this start of the broker."""
        return self.metadata.image.brokers[self.node_id].broker_epoch

    def new_uuid(self) -> uuid.UUID:
        """A random id for a topic."""
        return random_uuid(self.rng)

    def room_for_files(self) -> int:
        """How many more files may be open for good, if those that need not be are closed.

        It takes about a millisecond for a thousand that are open, so it is asked once per request.
        """
        return file_limit() - file_reserve() - open_files() + len(self._files.spare_files)

    async def start(self) -> None:
        """Open the data directories, recover, and serve.

        Raises:
            OSError: the port cannot be had.
            ConfigError: the settings contradict each other.
            KafkaStorageError: a data directory is in use, or a disk fails.
            InconsistentClusterIdError: a data directory is another cluster's or node's.
        """
        raise_file_limit()
        listener = self.config.listener
        self.server = Server(self.config, Dispatcher(self), self.metrics, self._files.spare_files.release)
        try:
            self.port = self.server.bind(listener.host, listener.port)
            self.host = listener.host or "127.0.0.1"
            self.open()
        except BaseException:
            self.server.abort()
            raise
        await self.server.start()
        self._plan_background()
        self.background.start()
        self.metrics.event_loop.start(asyncio.get_running_loop())
        logger.info("node %d of cluster %s serves on %s:%d", self.node_id, self.cluster_id, self.host, self.port)

    def open(self) -> None:
        """Open the data directories, recover and register, without serving; raises as `start` does."""
        self.logs = LogManager.open(
            self.config.data_directories,
            None,
            self.node_id,
            self.config.log_defaults,
            clock=self.clock,
            files=self._files,
            rng=self.rng,
            producer_expiration_ms=lambda: self.config.integer("producer.id.expiration.ms"),
            recovery_threads=self.config.integer("num.recovery.threads.per.data.dir"),
            metadata_path=self.config.metadata_directory,
        )
        self.cleaner = LogCleaner(self.logs, CleanerConfig(self.config.text), self.clock, self._files)
        try:
            self.metadata = MetadataLog(self.logs, self._files, self.config, self.clock)
            image = self.metadata.image
            loop = asyncio.get_running_loop()
            self.failed = loop.create_future()
            self.delayed_fetches = DelayedFetches(loop)
            self.partitions = Partitions(image, self.logs, self.config)
            self.sessions = FetchSessions(self.config.integer("max.incremental.fetch.session.cache.slots"), self.rng)
            self.producer_ids = ProducerIds(self.metadata, self.node_id)
            self.directory_events = DirectoryEvents(self, self.delayed_fetches.wake, self._fail)
            self.moves = ReplicaMoves(
                self.logs,
                self.cleaner,
                self.clock,
                self.config.replica_move_threads,
                lambda: self.config.replica_move_bytes_per_second,
                self.directory_events.assign,
                self.delayed_fetches.wake,
            )
            publisher = Publisher(image, self.logs, self.config, self._log_deleted)
            self.metadata.load()
            publisher.catch_up()
            self.metadata.listeners.append(publisher.publish)
            self.metadata.begin_epoch()
            if not image.features:
                begin = bootstrap_records(self._files, self.logs.metadata_directory.path, self.clock())
                self._append(activation_records(begin, self.config.min_insync_replicas))
            advertised = self.config.advertised(self.port)
            directories = [directory.directory_id for directory in self.logs.online]
            for records in registration_records(
                image,
                self.config,
                advertised,
                self.metadata.end_offset,
                self.new_uuid(),
                directories,
                self.directory_events.find,
            ):
                self._append(records)
            self.metadata.listeners.append(self.directory_events.follow)
            self.directory_events.inform()
            self.groups = GroupCoordinator(self)
            self.metadata.listeners.append(self.groups.follow)
            self.groups.runtime.catch_up()
            self.transactions = TransactionCoordinator(self)
            self.metadata.listeners.append(self.transactions.runtime.follow)
            self.transactions.runtime.catch_up()
            self.moves.resume()
        except BaseException:
            self.logs.abandon()
            raise

    def _log_deleted(self, log: PartitionLog) -> None:
        self.moves.cancel(log.topic, log.partition)
        self.delayed_fetches.wake(log)
        self.metrics.topics.remove(log.topic)

    def _append(self, records: list[Message]) -> None:
        self.metadata.append(records)

    async def stop(self) -> None:
        """Stop serving, leave the cluster, and close the logs cleanly; a broker that has `failed` leaves all as it is.

        Raises:
            KafkaStorageError: a log could not be closed; the next start recovers it.
        """
        if self._ending is not None:
            await self._ending
            return
        self.delayed_fetches.close()
        await self.server.close()
        self.metrics.event_loop.stop()
        await self.background.stop()
        await self.moves.stop()
        self.transactions.runtime.close()
        self.groups.runtime.close()
        try:
            self._append(departure_records(self.metadata.image, self.node_id))
        finally:
            self.logs.close(self.broker_epoch)

    async def kill(self) -> None:
        """Let go of everything as a crash would: nothing is flushed or written any more."""
        await self.server.stop_accepting()
        self.server.abort()
        self.delayed_fetches.close()
        self.metrics.event_loop.stop()
        await self.background.stop()
        await self.moves.stop()
        self.transactions.runtime.close()
        self.groups.runtime.close()
        self.logs.abandon()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended by itself, or is about to, for a disk that it needs; any thread may ask."""
        return self._ending is not None

    def _fail(self, error: KafkaStorageError) -> None:
        """End at once, as Kafka's broker does when it has lost the disk it cannot go on without."""
        if not self.failed.done():
            logger.critical("%s", error)
            self.failed.set_result(error)
            self._ending = asyncio.create_task(self.kill())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # Background work

    def _plan_background(self) -> None:
        every, integer = self.background.every, self.config.integer
        every("connection sweep", lambda: SWEEP_MS, self.server.sweep)
        every("log flush", lambda: max(min(FLUSH_MS, integer("log.flush.scheduler.interval.ms")), 1), self._flush)
        for table, interval in CHECKPOINT_INTERVALS.items():
            every(table, partial(self._checkpoint_interval_ms, interval), partial(self.logs.checkpoint, table))
        every("producer expiry", lambda: integer("producer.id.expiration.check.interval.ms"), self._expire_producers)
        every("log retention", lambda: integer("log.retention.check.interval.ms"), self.logs.apply_retention)
        every("metadata snapshots", lambda: TAKE_SNAPSHOT_MS, self.metadata.take_snapshot_if_due)
        every("metadata retention", lambda: CLEAN_SNAPSHOTS_MS, self.metadata.clean_snapshots)
        every("file deletion", lambda: DELETE_FILES_MS, self.logs.delete_due_files)
        for name, setting, work in (
            ("transaction timeouts", "abort.timed.out.transaction", self.transactions.abort_timed_out),
            ("transactional id expiry", "remove.expired.transaction", self.transactions.expire),
        ):
            every(name, partial(integer, f"transaction.{setting}.cleanup.interval.ms"), work)
        if self.config.boolean("log.cleaner.enable"):
            every("log cleaner", lambda: integer("log.cleaner.backoff.ms"), self.cleaner.clean_due)

    def _checkpoint_interval_ms(self, name: str) -> int:
        # 0 is allowed, and means as often as can be.
        return max(self.config.integer(name), 1)

    def _expire_producers(self) -> None:
        self.logs.remove_expired_producers(self.clock())

    async def _flush(self) -> None:
        for log, flush in self.logs.pending_flushes(self.clock()):
            try:
                with log.health.guard(f"flush {log.directory}", log.topic, log.partition, can_repeat=True):
                    await in_thread(flush.sync)
            except KafkaStorageError as error:
                logger.error("%s", error)
            else:
                log.finish_flush(flush)
