"""The parts of the broker that handlers use, as one Protocol for each family of handlers.

A handler names its family in its signature, `Context[FetchServices]`, and can use no other parts. A handler that
changes the metadata appends nothing itself: it returns a `Change`.

Elsewhere: the context of a request (`refbroker.handlers.context`), and the broker that has all the parts
(`refbroker.building`).
"""

from __future__ import annotations

from typing import Protocol

from refbroker.config import BrokerConfig
from refbroker.controller.active import ActiveController
from refbroker.controller.controller import Controller
from refbroker.controller.tokens import DelegationTokenControl
from refbroker.coordinators.groups.coordinator import GroupCoordinator
from refbroker.coordinators.producer_ids import ProducerIds
from refbroker.coordinators.topic_creation import AutoTopicCreation
from refbroker.coordinators.transactions.coordinator import TransactionCoordinator
from refbroker.coordinators.transactions.markers import MarkerWriter
from refbroker.coordinators.transactions.verification import PartitionVerifier
from refbroker.directories.moves import ReplicaMoves
from refbroker.fetch.delayed_fetch import DelayedFetches
from refbroker.fetch.sessions import FetchSessions
from refbroker.log import LogManager
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.tokens import DelegationTokens
from refbroker.metrics.counters import BrokerMetrics
from refbroker.replication.delayed_produce import DelayedProduces
from refbroker.runtime.addresses import NameLookups
from refbroker.runtime.clock import Clock
from refbroker.security.authorizer import Authorizer


class MetadataServices(Protocol):
    """The parts for handlers that describe the cluster, its brokers, topics and settings."""

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


class AclServices(Protocol):
    """The parts for the handlers of ACLs."""

    @property
    def authorizer(self) -> Authorizer | None:
        """Decides what clients may do; None if every client may do everything."""

    @property
    def controller(self) -> Controller:
        """The planner of metadata changes."""


class ControllerServices(MetadataServices, Protocol):
    """The parts for handlers of controller requests: topics, settings, features, reassignments."""

    @property
    def controller(self) -> Controller:
        """The planner of metadata changes."""


class TopicServices(MetadataServices, Protocol):
    """The parts for Metadata, which may create topics."""

    @property
    def topic_creation(self) -> AutoTopicCreation:
        """Creates topics on behalf of the broker."""


class TokenServices(MetadataServices, Protocol):
    """The parts for the handlers of delegation tokens."""

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""

    @property
    def token_control(self) -> DelegationTokenControl:
        """The planner of changes of tokens."""


class QuotaServices(MetadataServices, Protocol):
    """The parts for AlterClientQuotas."""

    @property
    def lookups(self) -> NameLookups:
        """Looks up host names."""


class QuorumServices(MetadataServices, Protocol):
    """The parts for DescribeQuorum."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def controller(self) -> ActiveController:
        """The leader of the metadata log."""


class BrokerControlServices(MetadataServices, Protocol):
    """The parts for handlers of requests that brokers send to the controller."""

    @property
    def controller(self) -> ActiveController:
        """The active controller."""


class PartitionServices(MetadataServices, Protocol):
    """The parts for handlers that read or truncate the logs of partitions."""

    @property
    def partitions(self) -> Partitions:
        """Looks up the partitions of requests."""


class ProduceServices(PartitionServices, Protocol):
    """The parts for Produce."""

    @property
    def delayed_produces(self) -> DelayedProduces:
        """The requests that wait for replicas."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def metrics(self) -> BrokerMetrics:
        """The metrics."""

    @property
    def verifier(self) -> PartitionVerifier:
        """Checks that partitions belong to a transaction."""


class FetchServices(PartitionServices, Protocol):
    """The parts for Fetch."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def metrics(self) -> BrokerMetrics:
        """The metrics."""

    @property
    def sessions(self) -> FetchSessions:
        """The incremental fetch sessions."""

    @property
    def delayed_fetches(self) -> DelayedFetches:
        """The waiting fetches."""


class LogDirServices(PartitionServices, Protocol):
    """The parts for handlers that describe data directories or move partitions between them."""

    @property
    def logs(self) -> LogManager:
        """The data directories and the logs in them."""

    @property
    def moves(self) -> ReplicaMoves:
        """Moves partitions from one data directory to another."""


class GroupServices(MetadataServices, Protocol):
    """The parts for handlers of groups, their members and offsets."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""


class CoordinatorServices(GroupServices, Protocol):
    """The parts for FindCoordinator."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""


class TransactionServices(CoordinatorServices, Protocol):
    """The parts for handlers of transactional and idempotent producers."""

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
    AclServices,
    ControllerServices,
    TopicServices,
    TokenServices,
    QuotaServices,
    QuorumServices,
    BrokerControlServices,
    ProduceServices,
    FetchServices,
    LogDirServices,
    TransactionServices,
    Protocol,
):
    """The parts for all handlers together; the dispatcher has them."""

    @property
    def controller(self) -> ActiveController:
        """The controller, which commits the changes that handlers return."""
