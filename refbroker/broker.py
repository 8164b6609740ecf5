"""The broker: runs the parts that `refbroker.building` assembles, and stops them.

    async with await Broker.start(BrokerConfig({"log.dirs": "/tmp/data"})) as broker:
        ...                                   # it serves on broker.host, broker.port

Everything runs on one asyncio event loop; blocking calls (fsync) run in worker threads. A node is its own controller,
or joins a cluster of other controllers (`refbroker.joining`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from kclient.errors import KafkaError, KafkaStorageError
from refbroker.building import BrokerParts, build
from refbroker.config import BrokerConfig
from refbroker.controller.local_broker import stop_broker
from refbroker.log import Files
from refbroker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from refbroker.metrics.samples import Samples
from refbroker.peers.network import Connector, LoopConnector
from refbroker.runtime.background import Background
from refbroker.runtime.clock import Clock
from refbroker.runtime.file_limit import raise_file_limit
from refbroker.runtime.threads import in_thread
from refbroker.server.dispatch import Dispatcher, Interceptor
from refbroker.server.listening import Listener, ListenerFactory, SocketListeners
from refbroker.server.sasl import sasl_listeners
from refbroker.server.server import Server
from refbroker.server.tls import tls_listeners
from refbroker.settings.listeners import LOOPBACK
from refbroker.zookeeper.registry import Registry, registry_of

logger = logging.getLogger(__name__)

SLOW_STOP_SECONDS = 1.0
"""A stop that takes longer logs a warning with the time of each step."""
SWEEP_MS = 5_000
FLUSH_MS = 1_000
# The setting that controls how often each file of offsets is written.
CHECKPOINT_INTERVALS = {
    RECOVERY_POINTS: "log.flush.offset.checkpoint.interval.ms",
    LOG_START_OFFSETS: "log.flush.start.offset.checkpoint.interval.ms",
    HIGH_WATERMARKS: "replica.high.watermark.checkpoint.interval.ms",
}
DELETE_FILES_MS = 1_000
TAKE_SNAPSHOT_MS = 1_000
CLEAN_SNAPSHOTS_MS = 60_000


class Broker:
    """A running broker on one node; `start` creates it. An async context manager that stops it at exit.

    Parameters:
        parts: the broker's parts.
        server: accepts its connections.
        ports: the port of each listener, by its name.

    Attributes:
        parts: the broker's parts.
        server: the listening sockets and the connections.
        background: the periodic tasks.
        host, port: the address of its first listener.
        ports: the port of each listener, by its name.
    """

    def __init__(self, parts: BrokerParts, server: Server, ports: Mapping[str, int]) -> None:
        self.parts = parts
        self.server = server
        self.background = Background(parts.clock)
        first = parts.config.listeners.all[0]
        self.host = first.host or LOOPBACK
        self.port = ports[first.name]
        self.ports = ports
        self._ending: asyncio.Task[None] | None = None
        self._registry: Registry | None = registry_of(parts.config, parts.image, parts.cluster_id, ports, parts.clock)
        parts.failed.add_done_callback(self._end_after_failure)

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        rng: random.Random | None = None,
        interceptor: Interceptor | None = None,
        listeners: ListenerFactory | None = None,
        connector: Connector | None = None,
    ) -> Self:
        """Open the data directories, recover, and serve.

        Parameters:
            config: the broker's settings.
            clock: the clock for timestamps and timeouts.
            files: the disk.
            rng: generates ids.
            interceptor: called before the handlers, in tests.
            listeners: creates the listeners; TCP by default.
            connector: connects to other nodes; through the event loop by default.

        Raises:
            OSError: a port is in use or an address is not local.
            ConfigError: the settings contradict each other, or certificates cannot be used.
            KafkaStorageError: a data directory is in use, or a disk fails.
            InconsistentClusterIdError: a data directory belongs to another cluster or node, or the controllers do.
            RequestTimedOutError, UnsupportedVersionError: the broker could not register at its controllers.
        """
        config.check_runnable()
        clock = clock or Clock()
        tls, sasl = tls_listeners(config), sasl_listeners(config, clock)
        config.log_stored()
        raise_file_limit()
        files = files or Files()
        # The ports come first: they are part of what the broker advertises, and a port that is in use must leave the
        # disk untouched.
        bound: dict[str, Listener] = {}
        try:
            for name, host, port in config.listeners.all:
                bound[name] = (listeners or SocketListeners()).bind(host, port, config.static)
            ports = {name: listener.port for name, listener in bound.items()}
            source = rng or random.SystemRandom()
            if config.is_controller:
                parts = build(config, clock, files, source, ports)
            else:
                # Imported on first use: most brokers are their own controllers.
                from refbroker.joining import join

                parts = await join(config, clock, files, source, ports, connector or LoopConnector())
        except BaseException:
            for listener in bound.values():
                listener.close()
            raise
        dispatcher = Dispatcher(parts, interceptor)
        server = Server(parts, dispatcher, bound, tls, sasl, files.spare_files.release)
        broker = cls(parts, server, ports)
        try:
            for each in sasl.values():
                each.plan(broker.background)
            await broker._serve()
        except BaseException:
            await broker.kill()
            raise
        return broker

    async def _serve(self) -> None:
        if self._registry is not None:
            await self._registry.start()
            self.parts.metadata.listeners.append(self._registry.follow)
        self.server.start()
        self.parts.metadata.listeners.append(self.server.follow)
        self.background.every("connection sweep", lambda: SWEEP_MS, self.server.sweep)
        plan_background(self.background, self.parts)
        self.background.start()
        self.parts.metrics.event_loop.start(asyncio.get_running_loop())
        if self.parts.membership is not None:
            from refbroker.joining import serve

            await serve(self.parts)
        where = ", ".join(address for _, address in self._addresses())
        logger.info("node %d of cluster %s serves on %s", self.parts.node_id, self.parts.cluster_id, where)

    def _addresses(self) -> list[tuple[str, str]]:
        """Return the name and the address of each listener."""
        hosts = {name: host or LOOPBACK for name, host, _ in self.parts.config.listeners.all}
        return [
            (name, f"[{host}]:{self.ports[name]}" if ":" in host else f"{host}:{self.ports[name]}")
            for name, host in hosts.items()
        ]

    def ready_lines(self) -> list[str]:
        """Return the lines with which `refbroker run` says where each listener accepts connections."""
        (_, first), *others = self._addresses()
        return [f"refbroker ready on {first}", *(f"refbroker listener {name} on {where}" for name, where in others)]

    async def stop(self) -> None:
        """Stop serving, leave the cluster, and close the logs cleanly; a broker that has `failed` leaves its files
        untouched.

        It waits at most a second for responses that a client does not read. Apart from that it waits only for the disk:
        for a worker thread that flushes or compacts, and for the logs, indexes, snapshots and checkpoints that it
        flushes one after the other: everything written since the start, and at least 16 files and directories.

        Raises:
            KafkaStorageError: a log could not be closed; the next start recovers it.
        """
        parts = self.parts
        if self.has_failed:
            await self._killed()
            return
        clock = asyncio.get_running_loop().time
        if parts.membership is not None:
            from refbroker.joining import leave

            await leave(parts)
        began = clock()
        parts.cancel_waiting()
        await self.server.close()
        disconnected = clock()
        await self._stop_work()
        idle = clock()
        try:
            if parts.membership is None:
                stop_broker(parts.controller)
        finally:
            if self._registry is not None:
                await self._registry.stop()
            parts.logs.close(parts.broker_epoch)
        ended = clock()
        logger.log(
            logging.WARNING if ended - began > SLOW_STOP_SECONDS else logging.INFO,
            "stopping took %.2f s: %.2f s for responses, %.2f s for work in progress, %.2f s to flush the logs",
            ended - began,
            disconnected - began,
            idle - disconnected,
            ended - idle,
        )

    async def kill(self) -> None:
        """Drop everything as a crash would: nothing is flushed or written afterwards."""
        await self.server.stop_accepting()
        self.server.abort()
        self.parts.cancel_waiting()
        await self._stop_work()
        if self._registry is not None:
            await self._registry.stop()
        self.parts.logs.abandon()

    async def _stop_work(self) -> None:
        self.parts.metrics.event_loop.stop()
        await self.background.stop()
        await self.parts.moves.stop()
        if self.parts.membership is not None:
            await self.parts.membership.close()
        self.parts.close_coordinators()

    @property
    def has_failed(self) -> bool:
        """Whether the broker has stopped, or is about to stop, because a disk it needs has failed, or because it was
        refused by the controller; any thread may read it.
        """
        return self.parts.failed.done()

    def _end_after_failure(self, failed: asyncio.Future[KafkaError]) -> None:
        """Stop immediately, as Kafka's broker does when a disk it depends on has failed."""
        logger.critical("%s", failed.result())
        self._killed()

    def _killed(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.create_task(self.kill())
        return self._ending

    async def collect_metrics(self) -> Samples:
        """Return the values of all metrics."""
        # Imported on first use: most brokers in tests never serve metrics.
        from refbroker.server.metrics.collect import collect

        return await collect(self.parts, self.server.connection_count, self.server.limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()


def plan_background(background: Background, parts: BrokerParts) -> None:
    """Schedule the periodic tasks of a broker."""
    every, integer, logs, metadata = background.every, parts.config.integer, parts.logs, parts.metadata
    every(
        "log flush",
        lambda: max(min(FLUSH_MS, integer("log.flush.scheduler.interval.ms")), 1),
        partial(_flush, parts),
    )
    for table, interval in CHECKPOINT_INTERVALS.items():
        every(table, partial(_at_least_1, integer, interval), partial(logs.checkpoint, table))
    every(
        "producer expiry",
        lambda: integer("producer.id.expiration.check.interval.ms"),
        lambda: logs.remove_expired_producers(parts.clock()),
    )
    if parts.controller.is_active:
        every(
            "delegation token expiry",
            partial(integer, "delegation.token.expiry.check.interval.ms"),
            parts.token_control.remove_expired,
        )
        _plan_controller(background, parts)
    every("log retention", lambda: integer("log.retention.check.interval.ms"), logs.apply_retention)
    every("metadata snapshots", lambda: TAKE_SNAPSHOT_MS, metadata.take_snapshot_if_due)
    every("metadata retention", lambda: CLEAN_SNAPSHOTS_MS, metadata.clean_snapshots)
    every("file deletion", lambda: DELETE_FILES_MS, logs.delete_due_files)
    for name, setting, work in (
        ("transaction timeouts", "abort.timed.out.transaction", parts.transactions.abort_timed_out),
        ("transactional id expiry", "remove.expired.transaction", parts.transactions.expire),
    ):
        every(name, partial(integer, f"transaction.{setting}.cleanup.interval.ms"), work)
    if parts.config.boolean("log.cleaner.enable"):
        every("log cleaner", lambda: integer("log.cleaner.backoff.ms"), parts.cleaner.clean_due)


def _plan_controller(background: Background, parts: BrokerParts) -> None:
    """Schedule the periodic tasks of the active controller."""
    controller, integer = parts.controller, parts.config.integer
    background.every("broker sessions", lambda: controller.liveness.check_interval_ms, controller.fence_expired)
    background.every(
        "preferred leaders",
        lambda: integer("leader.imbalance.check.interval.seconds") * 1000,
        controller.balance_leaders,
    )
    background.every(
        "unclean elections",
        partial(integer, "unclean.leader.election.interval.ms"),
        controller.elect_unclean_leaders,
    )


def _at_least_1(integer: Callable[[str], int], setting: str) -> int:
    # 0 is allowed and means as often as possible.
    return max(integer(setting), 1)


async def _flush(parts: BrokerParts) -> None:
    for log, flush in parts.logs.pending_flushes(parts.clock()):
        try:
            with log.health.guard(f"flush {log.directory}", log.topic, log.partition, can_repeat=True):
                await in_thread(flush.sync)
        except KafkaStorageError as error:
            logger.error("%s", error)
        else:
            log.finish_flush(flush)
