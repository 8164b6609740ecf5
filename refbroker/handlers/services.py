"""The parts of a broker that handlers use, as one Protocol for each family of handlers.

A handler names its family in its signature, `Context[FetchServices]`, and can use nothing else of the broker. The
metadata log is not among the parts: a handler that changes the cluster's state returns a `Change`.

Elsewhere: what a handler knows of its request (`refbroker.handlers.context`), and the broker that has all the parts
(`refbroker.building`).
"""

from __future__ import annotations

from typing import Protocol

from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.coordinator import GroupCoordinator
from refbroker.coordinators.transactions.coordinator import TransactionCoordinator
from refbroker.coordinators.transactions.markers import MarkerWriter
from refbroker.coordinators.transactions.verification import PartitionVerifier
from refbroker.directories.moves import ReplicaMoves
from refbroker.fetch.delayed_fetch import DelayedFetches
from refbroker.fetch.sessions import FetchSessions
from refbroker.log import LogManager
from refbroker.metadata.control_records import VoterSet
from refbroker.metadata.controller import Controller
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.producer_ids import ProducerIds
from refbroker.metrics.counters import BrokerMetrics
from refbroker.runtime.clock import Clock


class MetadataServices(Protocol):
    """What handlers need that describe the cluster, its brokers, topics and settings."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""

    @property
    def node_id(self) -> int:
        """The broker's id."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""

    @property
    def image(self) -> ClusterImage:
        """The state of the cluster."""


class ControllerServices(MetadataServices, Protocol):
    """What handlers need whose requests the controller answers: topics, settings, features, reassignments."""

    @property
    def controller(self) -> Controller:
        """What changes of the metadata are planned with."""


class MetadataQuorum(Protocol):
    """The progress of the metadata log, and its voters."""

    @property
    def epoch(self) -> int:
        """The leader epoch."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""

    @property
    def voters(self) -> VoterSet:
        """The voters, as the log names them."""


class QuorumServices(MetadataServices, Protocol):
    """What DescribeQuorum needs."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def metadata(self) -> MetadataQuorum:
        """The metadata log."""


class PartitionServices(MetadataServices, Protocol):
    """What handlers need that read the logs of partitions or cut them."""

    @property
    def partitions(self) -> Partitions:
        """The partitions that requests name."""


class ProduceServices(PartitionServices, Protocol):
    """What Produce needs."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def metrics(self) -> BrokerMetrics:
        """What is counted."""

    @property
    def verifier(self) -> PartitionVerifier:
        """Checks that partitions belong to a transaction."""


class FetchServices(PartitionServices, Protocol):
    """What Fetch needs."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def metrics(self) -> BrokerMetrics:
        """What is counted."""

    @property
    def sessions(self) -> FetchSessions:
        """The incremental fetch sessions."""

    @property
    def delayed_fetches(self) -> DelayedFetches:
        """The fetches that wait for records."""


class LogDirServices(PartitionServices, Protocol):
    """What handlers need that describe the data directories or move partitions between them."""

    @property
    def logs(self) -> LogManager:
        """The data directories and the logs in them."""

    @property
    def moves(self) -> ReplicaMoves:
        """Moves partitions from one data directory to another."""


class GroupServices(MetadataServices, Protocol):
    """What handlers need that serve the members of groups, their offsets, and the administration of groups."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""


class CoordinatorServices(GroupServices, Protocol):
    """What FindCoordinator needs."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""


class TransactionServices(CoordinatorServices, Protocol):
    """What handlers need that serve transactional and idempotent producers, and the administration of transactions."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def producer_ids(self) -> ProducerIds:
        """Gives new producer ids."""

    @property
    def markers(self) -> MarkerWriter:
        """Writes the markers that end transactions."""

    @property
    def verifier(self) -> PartitionVerifier:
        """Checks that partitions belong to a transaction."""


class BrokerServices(
    ControllerServices,
    QuorumServices,
    ProduceServices,
    FetchServices,
    LogDirServices,
    TransactionServices,
    Protocol,
):
    """What all handlers need together: what the dispatcher must have."""
