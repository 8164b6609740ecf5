"""The membership of a broker in a cluster whose controllers are other nodes, such as Apache Kafka's.

It observes the metadata log, registers the broker and sends its heartbeats, and has the connections to the active
controller: one for heartbeats, one for everything else. The steps of a start:

    start      observe the metadata and register; `caught_up` completes when the image has the registration
    ready      the broker serves; `unfenced` completes when it may lead partitions
    leave      a controlled shutdown, until the controller has moved the leaders elsewhere
    close      no more connections

Elsewhere: what is done once the metadata has arrived (`refbroker.joining`). Source: Kafka's BrokerServer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.errors import KafkaError
from refbroker.config import BrokerConfig
from refbroker.lifecycle.machine import BrokerReport, Lifecycle, Timing
from refbroker.lifecycle.manager import LifecycleManager
from refbroker.lifecycle.registration import Registration
from refbroker.log import Files, LogManager
from refbroker.log.checkpoints import random_uuid
from refbroker.log.files import storage_errors
from refbroker.metadata.features import REGISTERED_FEATURES
from refbroker.metadata.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from refbroker.metadata.replica import MetadataReplica
from refbroker.metadata.versions import CORDONED_DIRECTORIES
from refbroker.peers.channel import ChannelSettings
from refbroker.peers.controller_channel import FORWARDING_SECONDS, ControllerChannel, PeerNetwork
from refbroker.peers.forwarding import Forwarder
from refbroker.peers.network import Connector
from refbroker.peers.quorum import ControllerQuorum, quorum_addresses
from refbroker.peers.security import controller_security
from refbroker.raft.observation import Observation
from refbroker.raft.observer import Observer, ObserverSettings
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 30.0
"""How long a controlled shutdown may take. Kafka waits for 5 minutes."""


class NodeParts(NamedTuple):
    """The parts of a broker that its membership uses.

    Attributes:
        config: the settings.
        logs: the data directories.
        metadata: the local copy of the metadata log.
        files: the disk.
        clock: the broker's clock.
        rng: generates ids.
    """

    config: BrokerConfig
    logs: LogManager
    metadata: MetadataReplica
    files: Files
    clock: Clock
    rng: random.Random


class ClusterMembership:
    """The membership of this broker.

    Parameters:
        parts: the parts of the broker.
        ports: the port of each listener for clients, by its name.
        connector: the network.
        on_fatal: called if the broker cannot stay: the controller refuses it, or the disk of the metadata log failed.

    Attributes:
        controller: sends requests to the active controller.
        forwarder: forwards the requests of clients to it.

    Raises:
        ConfigError: the settings name no controllers, or no way to connect to them.
        KafkaStorageError: the quorum's state cannot be read.
    """

    def __init__(
        self,
        parts: NodeParts,
        ports: Mapping[str, int],
        connector: Connector,
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        config = parts.config
        self._parts = parts
        self._addresses = quorum_addresses(config)
        self._quorum = ControllerQuorum(self._addresses)
        self._load_quorum_state()
        security = controller_security(config)
        settings = ChannelSettings(
            f"refbroker-{config.node_id}",
            request_timeout=config.integer("controller.socket.timeout.ms") / 1000,
            largest_response=config.socket_request_max_bytes,
        )
        network = PeerNetwork(security, connector, settings, parts.rng)
        self.controller = ControllerChannel(self._quorum, network, FORWARDING_SECONDS, "requests")
        self.forwarder = Forwarder(self.controller)
        session = config.integer("broker.session.timeout.ms") / 2000
        self._heartbeats = ControllerChannel(self._quorum, network, session, "heartbeats")
        fetching = settings._replace(request_timeout=config.integer("controller.quorum.request.timeout.ms") / 1000)
        self._observation = Observation(self._observer(), network._replace(settings=fetching), on_fatal)
        self._lifecycle = LifecycleManager(
            Lifecycle(
                self._registration(ports),
                Timing(
                    config.integer("broker.heartbeat.interval.ms"),
                    config.integer("initial.broker.registration.timeout.ms"),
                ),
            ),
            self._heartbeats,
            self._report,
            parts.clock,
            on_fatal,
        )
        self._reported = self._directories()

    @property
    def lifecycle(self) -> Lifecycle:
        """The state of the broker."""
        return self._lifecycle.lifecycle

    @property
    def active_controller(self) -> int | None:
        """The id of the active controller; None while it is unknown or does not respond."""
        return None if self._quorum.leader is None else self._quorum.leader.node_id

    @property
    def caught_up(self) -> asyncio.Future[None]:
        """Completes when the image has everything up to the registration of this start."""
        return self._lifecycle.caught_up

    @property
    def unfenced(self) -> asyncio.Future[None]:
        """Completes when the broker may lead partitions."""
        return self._lifecycle.unfenced

    def start(self) -> None:
        """Observe the metadata, and register."""
        where = ", ".join(f"{peer.host}:{peer.port}" for peer in self._addresses)
        logger.info("broker %d joins the cluster of the controllers at %s", self._parts.config.node_id, where)
        self._observation.start()
        self._lifecycle.start()

    def ready(self) -> None:
        """Ask to be unfenced."""
        self._lifecycle.ready()

    def directories_changed(self) -> None:
        """Send a heartbeat at once if a directory has failed, or others are cordoned."""
        if self._directories() != self._reported:
            self._lifecycle.wake()

    async def leave(self) -> None:
        """Wait until the controller has moved the leaders elsewhere, for at most LEAVE_SECONDS."""
        self._lifecycle.leave()
        done, _ = await asyncio.wait([self._lifecycle.stopped], timeout=LEAVE_SECONDS)
        if not done:
            logger.warning(
                "the controller did not end the controlled shutdown of broker %d within %g s; stopping without it",
                self._parts.config.node_id,
                LEAVE_SECONDS,
            )

    async def close(self) -> None:
        """End all tasks and connections."""
        await self._lifecycle.stop()
        await self._observation.stop()
        self._heartbeats.close()
        self.controller.close()

    def _observer(self) -> Observer:
        config, logs = self._parts.config, self._parts.logs
        settings = ObserverSettings(
            config.node_id,
            logs.metadata_directory.directory_id,
            logs.cluster_id,
            config.integer("controller.quorum.fetch.max.bytes"),
            config.integer("controller.quorum.fetch.snapshot.max.bytes"),
        )
        return Observer(settings, self._parts.metadata, self._quorum, self._parts.files, self._store_leader)

    def _registration(self, ports: Mapping[str, int]) -> Registration:
        parts = self._parts
        return Registration.of_start(parts.config, parts.logs, ports, random_uuid(parts.rng), REGISTERED_FEATURES)

    def _report(self) -> BrokerReport:
        self._reported = offline, cordoned = self._directories()
        image = self._parts.metadata.image
        has_cordoned = image.metadata_version >= CORDONED_DIRECTORIES
        return BrokerReport(image.next_offset - 1, list(offline), list(cordoned) if has_cordoned else None)

    def _directories(self) -> tuple[tuple[UUID, ...], tuple[UUID, ...]]:
        """Return the ids of the failed directories, and of the cordoned ones."""
        logs = self._parts.logs
        offline = tuple(each.directory_id for each in logs.directories if not each.is_online and each.directory_id.int)
        return offline, tuple(sorted(each.directory_id for each in logs.cordoned if each.directory_id.int))

    def _load_quorum_state(self) -> None:
        directory = self._parts.metadata.directory
        with storage_errors(f"read the quorum's state in {directory}"):
            state = read_quorum_state(self._parts.files, directory)
        self._quorum.learn(-1, self._parts.metadata.last_epoch)
        if state is not None:
            self._quorum.learn(state.leader_id, state.leader_epoch)

    def _store_leader(self, leader_id: int, epoch: int) -> None:
        directory = self._parts.metadata.directory
        voters = tuple(peer.node_id for peer in self._addresses if peer.node_id >= 0)
        with storage_errors(f"write the quorum's state in {directory}"):
            state = QuorumState(leader_id, epoch, voters)
            # The version of the file follows from where the voters are.
            write_quorum_state(self._parts.files, directory, state, 0 if voters else 1)
