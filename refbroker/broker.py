"""The broker: puts log, metadata, server and background work together, and takes them apart again.

    async with Broker(BrokerConfig({"log.dirs": "/tmp/data"})) as broker:
        ...                                   # it serves on broker.host, broker.port

Everything runs on one event loop of asyncio; what blocks (fsync) runs in worker threads. One node, which
is its own controller; groups and transactions are left out.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from refbroker.config import BrokerConfig
from refbroker.delayed_fetch import DelayedFetches
from refbroker.dispatch import Dispatcher
from refbroker.fetch_sessions import FetchSessions
from refbroker.log import Files, LogManager
from refbroker.log.manager import system_clock_ms
from refbroker.metadata.log import MetadataLog
from refbroker.metadata.publisher import Publisher
from refbroker.metadata.registration import bootstrap_records, registration_records
from refbroker.partitions import Partitions
from refbroker.producer_ids import ProducerIds
from refbroker.server import Server

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
FLUSH_SECONDS = 1.0
EXPIRE_PRODUCERS_SECONDS = 600.0


class Broker:
    """A broker on one node. An async context manager, which serves from enter to exit.

    Parameters:
        config: its settings.
        clock: milliseconds since the epoch.
        files: the disk.
        rng: for ids.

    Attributes:
        host, port: what it listens on, once it serves.
        logs, metadata, partitions, sessions, producer_ids, delayed_fetches, server: its parts.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Callable[[], int] = system_clock_ms,
        files: Files | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self.rng = rng or random.SystemRandom()
        self.host = ""
        self.port = 0
        self._files = files or Files()
        self._background: asyncio.Task[None] | None = None
        self.logs: LogManager
        self.metadata: MetadataLog
        self.partitions: Partitions
        self.sessions: FetchSessions
        self.producer_ids: ProducerIds
        self.delayed_fetches: DelayedFetches
        self.server: Server

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
        while True:
            value = uuid.UUID(int=self.rng.getrandbits(128), version=4)
            # Kafka's text of it must not begin with a dash, which command lines take for an option.
            if value.bytes[0] >> 2 != 62:
                return value

    async def start(self) -> None:
        """Open the data directories, recover, and serve.

        Raises:
            OSError: the port cannot be had.
            ConfigError: the settings contradict each other.
            KafkaStorageError: a data directory is in use, or a disk fails.
            InconsistentClusterIdError: a data directory is another cluster's or node's.
        """
        listener = self.config.listener
        self.server = Server(self.config, Dispatcher(self))
        try:
            self.port = self.server.bind(listener.host, listener.port)
            self.host = listener.host or "127.0.0.1"
            self.open()
        except BaseException:
            self.server.abort()
            raise
        await self.server.start()
        self._background = asyncio.create_task(self._work(), name="refbroker-background")
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
            producer_expiration_ms=self.config.integer("producer.id.expiration.ms"),
        )
        try:
            self.metadata = MetadataLog(self.logs, self.node_id, self.clock)
            image = self.metadata.image
            self.delayed_fetches = DelayedFetches(asyncio.get_running_loop())
            self.partitions = Partitions(image, self.logs, self.node_id)
            self.sessions = FetchSessions(self.config.integer("max.incremental.fetch.session.cache.slots"), self.rng)
            self.producer_ids = ProducerIds(self.metadata, self.node_id)
            publisher = Publisher(image, self.logs, self.config, self.delayed_fetches.log_deleted)
            self.metadata.load()
            publisher.catch_up()
            self.metadata.listeners.append(publisher.publish)
            self.metadata.begin_epoch()
            self._append(bootstrap_records(image))
            advertised = self.config.advertised(self.port)
            directories = [directory.directory_id for directory in self.logs.directories]
            for records in registration_records(
                image, self.config, advertised, self.metadata.end_offset, self.new_uuid(), directories
            ):
                self._append(records)
        except BaseException:
            self.logs.abandon()
            raise

    def _append(self, records: list[Message]) -> None:
        self.metadata.append(records)

    async def stop(self) -> None:
        """Stop serving, and close the logs cleanly.

        Raises:
            KafkaStorageError: a log could not be closed; the next start recovers it.
        """
        self.delayed_fetches.close()
        await self.server.close()
        await self._stop_background()
        self.logs.close()

    async def kill(self) -> None:
        """Let go of everything as a crash would: nothing is flushed or written any more."""
        self.server.abort()
        self.delayed_fetches.close()
        await self._stop_background()
        self.logs.abandon()

    async def _stop_background(self) -> None:
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait([self._background])
            self._background = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # Background work

    async def _work(self) -> None:
        checkpoint_seconds = self.config.integer("log.flush.offset.checkpoint.interval.ms") / 1000
        async with anyio.create_task_group() as group:
            group.start_soon(self._every, SWEEP_SECONDS, self._sweep)
            group.start_soon(self._flush)
            group.start_soon(self._every, checkpoint_seconds, self.logs.checkpoint)
            group.start_soon(self._every, EXPIRE_PRODUCERS_SECONDS, self._expire_producers)

    async def _every(self, seconds: float, do: Callable[[], None]) -> None:
        while True:
            await anyio.sleep(seconds)
            try:
                do()
            except KafkaStorageError as error:
                logger.error("%s", error)

    def _sweep(self) -> None:
        self.server.sweep()

    def _expire_producers(self) -> None:
        self.logs.remove_expired_producers(self.clock())

    async def _flush(self) -> None:
        while True:
            await anyio.sleep(FLUSH_SECONDS)
            for log, flush in self.logs.pending_flushes(self.clock()):
                try:
                    with log.health.guard(f"flush {log.directory}", log.topic, log.partition):
                        await anyio.to_thread.run_sync(flush.sync)
                except KafkaStorageError as error:
                    logger.error("%s", error)
                else:
                    log.finish_flush(flush)
