"""What the plans of partitions and brokers read: the state of the cluster, its index, and the rules of topics.

A plan is a function of a `Cluster`: it returns the records of a change, or raises Kafka's error, and changes nothing.
A driver, whether a broker or a simulation, repeats three steps:

    records = plan(cluster, ...)                # for example brokers.fence(cluster, 2)
    for record in records: image.replay(record) # after they are stored
    index.follow(records); liveness.follow(records)

The plans are in `brokers` (registration, fencing, shutdown, directories), `heartbeats`, `isr` (AlterPartition),
`elections`, `reassignments`, `placement`, `balance` (work at intervals) and `directory_assignments`. `liveness` is
the only one with a state of its own: the sessions of brokers, which are not in the metadata log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kclient.errors import StaleBrokerEpochError
from refbroker.config import BrokerConfig
from refbroker.controller.partition_index import PartitionIndex
from refbroker.metadata.directories import LOST, MIGRATING, UNASSIGNED, default_directory, directory_on
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from refbroker.metadata.image import TOPIC_RESOURCE, BrokerRegistration, ClusterImage, PartitionState, TopicState
from refbroker.metadata.versions import DIRECTORIES


class TopicRules(Protocol):
    """The effective settings of topics that decide elections."""

    def min_in_sync_replicas(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic."""

    def may_elect_unclean(self, topic: str) -> bool:
        """Return `unclean.leader.election.enable` of a topic."""


@dataclass(frozen=True, slots=True)
class EffectiveTopicRules:
    """The rules of topics: their own settings, or those of the controller.

    Attributes:
        image: the state of the cluster.
        config: the settings of the controller's node.
    """

    image: ClusterImage
    config: BrokerConfig

    def min_in_sync_replicas(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic."""
        return int(self._value(topic, "min.insync.replicas"))

    def may_elect_unclean(self, topic: str) -> bool:
        """Return `unclean.leader.election.enable` of a topic."""
        return self._value(topic, "unclean.leader.election.enable").strip().lower() == "true"

    def _value(self, topic: str, name: str) -> str:
        # Broker and topic have the same names of these settings.
        own = self.image.config(TOPIC_RESOURCE, topic).get(name)
        return (self.config.text(name) or "") if own is None else own


@dataclass(frozen=True, slots=True)
class Cluster:
    """The inputs of plans.

    Attributes:
        image: the state of the cluster.
        index: its partitions by broker.
        rules: the settings of topics.
    """

    image: ClusterImage
    index: PartitionIndex
    rules: TopicRules

    @property
    def has_eligible_leaders(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def min_isr(self, topic: TopicState) -> int:
        """Return how many replicas of a topic must be in sync; at most the number of replicas."""
        return min(self.rules.min_in_sync_replicas(topic.name), len(topic.partitions[0].replicas))

    def is_active(self, broker: int) -> bool:
        """Return whether a broker is registered, not fenced, and not shutting down."""
        registered = self.image.brokers.get(broker)
        return registered is not None and registered.is_active

    def is_online(self, broker: int, directory: UUID) -> bool:
        """Return whether a directory of a registered broker is online; assumed if the broker listed none."""
        registered = self.image.brokers.get(broker)
        if registered is None or directory == LOST:
            return False
        online = registered.record.log_dirs
        return directory in (UNASSIGNED, MIGRATING) or not online or directory in online

    def may_lead(self, state: PartitionState, broker: int) -> bool:
        """Return whether a broker can be the leader of a partition: it is active, and its replica is online.

        Where Kafka fails, because the last known leader is no longer a replica, that broker cannot lead here.
        """
        return self.is_active(broker) and self.has_online_replica(state, broker)

    def has_online_replica(self, state: PartitionState, broker: int) -> bool:
        """Return whether a registered broker has a replica of a partition in a directory that is online."""
        return broker in state.replicas and self.is_online(broker, directory_on(state, broker))

    def default_directory(self, broker: int) -> UUID:
        """Return the directory of a new replica on a broker."""
        return MIGRATING if self.image.metadata_version < DIRECTORIES else default_directory(self.image, broker)

    def registered(self, broker: int, epoch: int) -> BrokerRegistration:
        """Return the registration of the broker that sent a request.

        Parameters:
            epoch: the broker epoch in the request.

        Raises:
            StaleBrokerEpochError: the broker is not registered, or in another epoch.
        """
        found = self.image.brokers.get(broker)
        if found is None:
            raise StaleBrokerEpochError(f"No broker registration found for broker id {broker}")
        if found.broker_epoch != epoch:
            raise StaleBrokerEpochError(f"Expected broker epoch {found.broker_epoch}, but got broker epoch {epoch}")
        return found
