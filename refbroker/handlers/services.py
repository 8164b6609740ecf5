"""The parts of a broker that handlers use."""

from __future__ import annotations

from dataclasses import dataclass

from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.coordinator import GroupCoordinator
from refbroker.coordinators.transactions.coordinator import TransactionCoordinator
from refbroker.coordinators.transactions.markers import MarkerWriter
from refbroker.coordinators.transactions.verification import PartitionVerifier
from refbroker.directories.moves import ReplicaMoves
from refbroker.fetch.delayed_fetch import DelayedFetches
from refbroker.fetch.sessions import FetchSessions
from refbroker.log import LogManager
from refbroker.metadata.controller import Controller
from refbroker.metadata.log import MetadataLog
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.producer_ids import ProducerIds
from refbroker.metrics.counters import BrokerMetrics
from refbroker.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrokerServices:
    """A broker, as its handlers see it.

    Attributes:
        node_id: the broker's id.
        config: its settings.
        clock: what it goes by.
        metrics: what is counted.
        logs: its data directories and the logs in them.
        moves: brings partitions from one data directory to another.
        metadata: the log of the cluster's state.
        controller: what metadata changes are planned with.
        partitions: those that requests name.
        producer_ids: new ones.
        sessions, delayed_fetches: of Fetch requests, between two of them and while they wait.
        groups, transactions: the coordinators.
        markers: writes the markers of transactions.
        verifier: checks that partitions belong to a transaction.
    """

    node_id: int
    config: BrokerConfig
    clock: Clock
    metrics: BrokerMetrics
    logs: LogManager
    moves: ReplicaMoves
    metadata: MetadataLog
    controller: Controller
    partitions: Partitions
    producer_ids: ProducerIds
    sessions: FetchSessions
    delayed_fetches: DelayedFetches
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: MarkerWriter
    verifier: PartitionVerifier

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.logs.cluster_id
