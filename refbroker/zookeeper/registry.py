"""Keeps the registry equal to the metadata: notes which topics have changed, and writes them in a task of its own.

Writing happens in a worker thread, one change after the other, so that neither the event loop nor a client waits for
ZooKeeper. After an interruption, or a session that is over, everything is registered and compared again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from kclient.errors import BrokerError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.config import BrokerConfig
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage
from refbroker.runtime.threads import in_thread
from refbroker.zookeeper import nodes
from refbroker.zookeeper.registration import Registration
from refbroker.zookeeper.session import ZooKeeperSession
from refbroker.zookeeper.tree import Tree, UnreachableError

logger = logging.getLogger(__name__)

OpenTree = Callable[[Callable[[], None]], Tree]
"""Opens a session; the parameter is to be called, in any thread, at each later connection."""


class Registry:
    """The registry of one broker, which is also the controller. Belongs to its event loop.

    Parameters:
        image: the state of the cluster.
        node_id: the broker's id.
        cluster_id: the cluster's id.
        describe: returns the value of the broker's node.
        clock: milliseconds since the epoch.
        open_tree: opens the session with ZooKeeper.
    """

    def __init__(
        self,
        image: ClusterImage,
        node_id: int,
        cluster_id: str,
        describe: Callable[[], bytes],
        clock: Callable[[], int],
        open_tree: OpenTree,
    ) -> None:
        self._image = image
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._describe = describe
        self._clock = clock
        self._open_tree = open_tree
        self._names = {topic.topic_id: topic.name for topic in image.topics.values()}
        self._changed: dict[str, None] = {}
        self._must_join = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register the broker, and write everything there is.

        Raises:
            ConfigError: the package kazoo is missing, or the address of ZooKeeper cannot be parsed.
            UnreachableError: ZooKeeper does not answer.
            DuplicateBrokerRegistrationError: another broker has this id.
            InconsistentClusterIdError, NotControllerError: the registry belongs to another cluster or controller.
        """
        loop = asyncio.get_running_loop()

        def connected() -> None:
            loop.call_soon_threadsafe(self._connected)

        self._tree = await in_thread(self._open_tree, connected)
        self._registration = Registration(self._tree, self._node_id, self._cluster_id)
        try:
            await self._join()
            await self._write_changed()
        except BaseException:
            await in_thread(self._tree.close)
            raise
        self._idle.set()
        self._task = loop.create_task(self._run(), name="refbroker registry in ZooKeeper")

    async def stop(self) -> None:
        """Write what is left, if ZooKeeper answers, and leave: the nodes of this broker and of the controller go."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        with suppress(UnreachableError, BrokerError):
            await self._write_changed()
        await in_thread(self._tree.close)

    def follow(self, records: Sequence[Message]) -> None:
        """Note which topics have changed; a listener of the metadata log."""
        for record in records:
            if isinstance(record, TopicRecord):
                self._names[record.topic_id] = record.name
            name = self._topic_of(record)
            if name is not None:
                self._changed[name] = None
            if isinstance(record, RemoveTopicRecord):
                self._names.pop(record.topic_id, None)
        if self._changed and self._task is not None and not self._task.done():
            self._wake_up()

    def _topic_of(self, record: Message) -> str | None:
        if isinstance(record, ConfigRecord):
            return record.resource_name if record.resource_type == TOPIC_RESOURCE else None
        if isinstance(record, TopicRecord | PartitionRecord | PartitionChangeRecord | RemoveTopicRecord):
            topic_id: UUID = record.topic_id
            return self._names.get(topic_id)
        return None

    async def written(self) -> None:
        """Wait until everything that was noted is written."""
        await self._idle.wait()

    def _connected(self) -> None:
        self._must_join = True
        self._wake_up()

    def _wake_up(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            if not self._wake.is_set():
                self._idle.set()
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._must_join:
                    await self._join()
                await self._write_changed()
            except UnreachableError as error:
                # The next connection wakes this task up.
                self._must_join = True
                logger.warning("%s; trying again when it is back", error.message)
            except BrokerError as error:
                logger.error("ZooKeeper no longer follows this broker: %s", error)
                self._idle.set()
                return

    async def _join(self) -> None:
        self._must_join = False
        try:
            await in_thread(self._registration.join, self._describe(), self._clock())
        except UnreachableError:
            self._must_join = True
            raise
        self._changed |= dict.fromkeys([*self._registration.topics(), *self._image.topics])

    async def _write_changed(self) -> None:
        while self._changed:
            name = next(iter(self._changed))
            del self._changed[name]
            topic, wanted = self._image.topics.get(name), {}
            if topic is not None:
                configs = self._image.config(TOPIC_RESOURCE, name)
                wanted = nodes.topic_values(topic, configs, self._registration.controller_epoch)
            try:
                await in_thread(self._registration.write, name, wanted)
            except BaseException:
                self._changed[name] = None
                raise


def registry_of(
    config: BrokerConfig, image: ClusterImage, cluster_id: str, ports: Mapping[str, int], clock: Callable[[], int]
) -> Registry | None:
    """Return the registry that the settings ask for, None without `zookeeper.connect`."""
    connect = config.text("zookeeper.connect")
    if not connect:
        return None
    session_ms = config.integer("zookeeper.session.timeout.ms")
    connection_ms = int(config.text("zookeeper.connection.timeout.ms") or session_ms)

    def describe() -> bytes:
        listeners = [(one, config.listeners.protocol(one.name)) for one in config.listeners.advertised(ports)]
        return nodes.broker_value(listeners, config.rack, clock())

    def open_tree(connected: Callable[[], None]) -> Tree:
        return ZooKeeperSession(connect, session_ms, connection_ms, connected)

    return Registry(image, config.node_id, cluster_id, describe, clock, open_tree)
