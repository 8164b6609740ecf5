"""Assembles the parts of a broker: opens the data directories, recovers, and registers with the cluster.

`build` returns complete parts; `refbroker.broker` serves them. Its steps, in order:

    open        the data directories and the logs in them
    assemble    every part, from those that it uses
    load        the metadata log into the image
    follow      bring the logs in line with the metadata, and follow it
    register    this start of the broker, and where its partitions are; the first start writes what a cluster begins
                with
    begin       loading the coordinators, and resume moves between data directories

A broker under other controllers has the same parts, and other steps (`refbroker.joining`).

If a step fails, everything opened so far is abandoned without flushing, as in a crash.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kclient.errors import KafkaError
from refbroker.config import BrokerConfig
from refbroker.controller.active import ActiveController
from refbroker.controller.bootstrap import activation_records, bootstrap_records
from refbroker.controller.direct import DirectControllerClient
from refbroker.controller.local_broker import start_broker
from refbroker.controller.tokens import DelegationTokenControl
from refbroker.coordinators.groups.coordinator import GroupCoordinator
from refbroker.coordinators.producer_ids import ProducerIds
from refbroker.coordinators.topic_creation import AutoTopicCreation
from refbroker.coordinators.transactions.coordinator import TransactionCoordinator
from refbroker.coordinators.transactions.markers import MarkerSender, MarkerWriter
from refbroker.coordinators.transactions.verification import PartitionVerifier
from refbroker.directories.events import DirectoryEvents, DirectoryReports
from refbroker.directories.moves import ReplicaMoves
from refbroker.directories.records import DirectoryRecords
from refbroker.fetch.delayed_fetch import DelayedFetches
from refbroker.fetch.sessions import FetchSessions
from refbroker.lifecycle.registration import Registration
from refbroker.log import Files, LogManager, PartitionLog
from refbroker.log.compaction.manager import CleanerConfig, LogCleaner
from refbroker.metadata.features import SUPPORTED_FEATURES
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.publisher import Publisher
from refbroker.metadata.replica import MetadataReplica
from refbroker.metadata.tokens import DelegationTokens
from refbroker.metrics.counters import BrokerMetrics
from refbroker.peers.controller_client import ControllerClient
from refbroker.quotas.client_quotas import ClientQuotas
from refbroker.replication.delayed_produce import DelayedProduces
from refbroker.replication.manager import ReplicaManager
from refbroker.runtime.addresses import NameLookups
from refbroker.runtime.clock import Clock
from refbroker.security.authorizer import Authorizer

if TYPE_CHECKING:
    # Only brokers under other controllers need their code.
    from refbroker.membership import ClusterMembership
    from refbroker.peers.forwarding import Forwarder

Join = Callable[
    [LogManager, MetadataReplica, Callable[[KafkaError], None]], tuple["ClusterMembership", DirectoryReports]
]
"""Makes the membership in a cluster of other controllers, and what reports directories to them.

Its parameters are the logs, the local copy of the metadata, and a function that is called if the broker must stop.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrokerParts:
    """All parts of a broker except its server.

    Attributes:
        node_id: the broker's id.
        config: the settings.
        clock: the clock for timestamps and timeouts.
        metrics: the counters.
        logs: the data directories and their logs.
        cleaner: compacts logs.
        moves: moves partitions between data directories.
        metadata: the log of the metadata.
        image: the state of the cluster.
        controller: plans changes of the metadata, and appends them to the log.
        partitions: the partitions that requests name.
        replicas: the roles of the broker's replicas.
        producer_ids: gives new producer ids.
        topic_creation: creates topics on behalf of the broker.
        sessions, delayed_fetches: the fetch sessions, and the Fetch requests that wait.
        delayed_produces: the Produce requests that wait for replicas.
        directory_events: records changes of the data directories in the metadata.
        groups, transactions: the coordinators.
        markers: writes the markers of transactions.
        verifier: checks that partitions belong to a transaction.
        authorizer: decides what clients may do; None if every client may do everything.
        tokens: the delegation tokens.
        token_control: plans changes of tokens, and removes those that have expired.
        quotas: limits how much clients use.
        lookups: looks up host names.
        failed: completes with the reason when the broker must stop: a disk that it depends on has failed, or the
            controller refuses it.
        membership: the membership in a cluster of other controllers; None on a node that is its own controller.
    """

    node_id: int
    config: BrokerConfig
    clock: Clock
    metrics: BrokerMetrics
    logs: LogManager
    cleaner: LogCleaner
    moves: ReplicaMoves
    metadata: MetadataReplica
    image: ClusterImage
    controller: ActiveController
    partitions: Partitions
    replicas: ReplicaManager
    producer_ids: ProducerIds
    topic_creation: AutoTopicCreation
    sessions: FetchSessions
    delayed_fetches: DelayedFetches
    delayed_produces: DelayedProduces
    directory_events: DirectoryEvents
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: MarkerWriter
    verifier: PartitionVerifier
    authorizer: Authorizer | None
    tokens: DelegationTokens
    token_control: DelegationTokenControl
    quotas: ClientQuotas
    lookups: NameLookups
    failed: asyncio.Future[KafkaError]
    membership: ClusterMembership | None = None

    @property
    def cluster_id(self) -> str:
        """The cluster id."""
        return self.logs.cluster_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this start of the broker, -1 if it was unregistered since."""
        if self.membership is not None:
            return self.membership.lifecycle.broker_epoch
        registered = self.image.brokers.get(self.node_id)
        return -1 if registered is None else registered.broker_epoch

    def cancel_waiting(self) -> None:
        """Cancel the requests that wait, without responses."""
        self.delayed_fetches.close()
        self.delayed_produces.close()

    @property
    def forwarder(self) -> Forwarder | None:
        """Forwards requests of clients to the active controller; None on the node of the active controller."""
        return None if self.membership is None else self.membership.forwarder

    def close_coordinators(self) -> None:
        """Release the coordinators' state; requests that wait for it are answered."""
        self.transactions.runtime.close()
        self.groups.runtime.close()


def build(
    config: BrokerConfig, clock: Clock, files: Files, rng: random.Random, ports: Mapping[str, int]
) -> BrokerParts:
    """Open the data directories, recover and register, in the event loop that the broker will run in.

    Parameters:
        config: the broker's settings.
        clock: the clock for timestamps and timeouts.
        files: the disk.
        rng: generates ids.
        ports: the port of each listener for clients, by its name.

    Raises:
        ConfigError: the settings contradict each other.
        KafkaStorageError: a data directory is in use, or a disk fails.
        InconsistentClusterIdError: a data directory belongs to another cluster or node.
    """
    with ExitStack() as undo:
        logs = _open(config, clock, files, rng)
        undo.callback(logs.abandon)
        parts = _assemble(config, clock, files, rng, logs)
        parts.controller.load()
        follow_metadata(parts)
        _become_controller(parts, files)
        _register(parts, ports)
        undo.callback(parts.close_coordinators)
        begin(parts)
        undo.pop_all()
    return parts


def build_member(config: BrokerConfig, clock: Clock, files: Files, rng: random.Random, join: Join) -> BrokerParts:
    """Open the data directories and recover, for a broker that joins a cluster of other controllers.

    The parts do not follow the metadata yet; see `refbroker.joining`.

    Parameters: as for `build`.
        join: makes the membership.

    Raises:
        ConfigError: the settings contradict each other, or name no controllers.
        KafkaStorageError: a data directory is in use, or a disk fails.
        InconsistentClusterIdError: a data directory belongs to another cluster or node.
    """
    with ExitStack() as undo:
        logs = _open(config, clock, files, rng)
        undo.callback(logs.abandon)
        parts = _assemble(config, clock, files, rng, logs, join)
        undo.pop_all()
    return parts


def _open(config: BrokerConfig, clock: Clock, files: Files, rng: random.Random) -> LogManager:
    return LogManager.open(
        config.data_directories,
        None,
        config.node_id,
        config.log_defaults,
        clock=clock,
        files=files,
        rng=rng,
        producer_expiration_ms=lambda: config.integer("producer.id.expiration.ms"),
        recovery_threads=config.integer("num.recovery.threads.per.data.dir"),
        metadata_path=config.metadata_directory,
    )


def _assemble(
    config: BrokerConfig,
    clock: Clock,
    files: Files,
    rng: random.Random,
    logs: LogManager,
    join: Join | None = None,
) -> BrokerParts:
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[KafkaError] = loop.create_future()

    def fail(error: KafkaError) -> None:
        if not failed.done():
            failed.set_result(error)

    metrics = BrokerMetrics()
    cleaner = LogCleaner(logs, CleanerConfig(config.text), clock, files)
    metadata = MetadataReplica(logs, files, config, clock)
    image = metadata.image
    controller = ActiveController(metadata, files, config, clock, rng, logs.cluster_id)
    partitions = Partitions(image, logs, config)
    client: ControllerClient = DirectControllerClient(controller)
    reports: DirectoryReports = DirectoryRecords(logs, controller, config.node_id)
    membership: ClusterMembership | None = None
    if join is not None:
        metadata.load(can_fetch=True)
        membership, reports = join(logs, metadata, fail)
        client = membership.controller
    producer_ids = ProducerIds(client, image, config.node_id)
    delayed_fetches, delayed_produces = DelayedFetches(loop), DelayedProduces(loop, partitions)

    def wake(log: PartitionLog) -> None:
        delayed_fetches.wake(log)
        delayed_produces.check(log)

    replicas = ReplicaManager(image, logs, config.node_id, wake)

    def log_replaced(log: PartitionLog) -> None:
        replicas.log_replaced(log)
        groups.runtime.catch_up()
        transactions.runtime.catch_up()
        wake(log)

    directory_events = DirectoryEvents(logs, reports, wake, fail)
    moves = ReplicaMoves(
        logs,
        cleaner,
        clock,
        config.replica_move_threads,
        lambda: config.replica_move_bytes_per_second,
        directory_events.assign,
        log_replaced,
    )
    tokens = DelegationTokens(image, config, rng)
    topic_creation = AutoTopicCreation(client)
    groups = GroupCoordinator(config, image, topic_creation, partitions, clock, rng, metrics.groups)
    markers = MarkerWriter(
        partitions,
        clock,
        groups.runtime.end_transaction,
        delayed_produces,
        lambda: config.integer("request.timeout.ms"),
    )
    transactions = TransactionCoordinator(
        config,
        image,
        topic_creation,
        partitions,
        producer_ids,
        MarkerSender(image, lambda leader: markers),
        clock,
    )
    return BrokerParts(
        node_id=config.node_id,
        config=config,
        clock=clock,
        metrics=metrics,
        logs=logs,
        cleaner=cleaner,
        moves=moves,
        metadata=metadata,
        image=image,
        controller=controller,
        partitions=partitions,
        replicas=replicas,
        producer_ids=producer_ids,
        topic_creation=topic_creation,
        sessions=FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"), rng),
        delayed_fetches=delayed_fetches,
        delayed_produces=delayed_produces,
        directory_events=directory_events,
        groups=groups,
        transactions=transactions,
        markers=markers,
        verifier=PartitionVerifier(config, partitions, transactions),
        authorizer=Authorizer.from_settings(config.static),
        tokens=tokens,
        token_control=DelegationTokenControl(controller, tokens, clock),
        quotas=ClientQuotas(image, config, clock),
        lookups=NameLookups(),
        failed=failed,
        membership=membership,
    )


def follow_metadata(parts: BrokerParts) -> None:
    """Bring the parts in line with the metadata, and let them follow it."""
    metadata, image = parts.metadata, parts.image

    def log_deleted(log: PartitionLog) -> None:
        parts.moves.cancel(log.topic, log.partition)
        parts.delayed_fetches.wake(log)
        parts.delayed_produces.check(log)
        parts.metrics.topics.remove(log.topic)

    publisher = Publisher(image, parts.logs, parts.config, log_deleted)
    if parts.authorizer is not None:
        parts.authorizer.follow(image.acls.values())
        metadata.listeners.append(parts.authorizer.follow)
    parts.quotas.load()
    metadata.listeners.append(parts.quotas.follow)
    parts.tokens.load()
    metadata.listeners.append(parts.tokens.follow)
    publisher.catch_up()
    metadata.listeners.append(publisher.publish)
    parts.replicas.catch_up()
    metadata.listeners.append(parts.replicas.follow)


def _become_controller(parts: BrokerParts, files: Files) -> None:
    controller = parts.controller
    controller.begin_epoch()
    if not parts.image.features:
        first = bootstrap_records(files, parts.logs.metadata_directory.path, parts.clock())
        controller.append(activation_records(first, parts.config.min_insync_replicas))


def _register(parts: BrokerParts, ports: Mapping[str, int]) -> None:
    controller, events = parts.controller, parts.directory_events
    registration = Registration.of_start(parts.config, parts.logs, ports, controller.new_uuid(), SUPPORTED_FEATURES)
    start_broker(controller, registration.request(), events.find)
    parts.metadata.listeners.append(events.follow)
    events.inform()


def begin(parts: BrokerParts) -> None:
    """Load the coordinators, and resume moves between data directories."""
    groups, transactions = parts.groups, parts.transactions
    parts.metadata.listeners.append(groups.follow)
    groups.runtime.catch_up()
    parts.metadata.listeners.append(transactions.runtime.follow)
    transactions.runtime.catch_up()
    parts.moves.resume()
