"""Immutable snapshots of the cluster, made from metadata responses.

A snapshot may be read from any thread. Updates never go back in time: a leader epoch does not decrease while the topic
id stays the same (KIP-320); with a new topic id (KIP-516) the old state of the topic is dropped. Elsewhere: when to
request metadata (`metadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kclient.errors import KafkaError, UnknownTopicOrPartitionError, error_from_code
from kclient.protocol.messages.metadata import MetadataResponse
from kclient.types import Node, PartitionInfo, TopicPartition

if TYPE_CHECKING:
    from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse

NO_ID = UUID(int=0)


class TopicInfo(NamedTuple):
    """A topic as the metadata describes it; `partitions` are sorted, and empty when there is an `error`."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool
    error: KafkaError | None


class Cluster:
    """A snapshot of the cluster; never changed once made.

    Attributes:
        version: grows with each snapshot of one client.
        cluster_id: the id of the cluster; None until a response contains it.
        controller_id: None if there is no controller (with KRaft: a random broker).
        brokers: the live brokers, by id.
        topics: the requested topics, by name.
        topic_names: the names by topic id.
    """

    __slots__ = ("_partitions", "brokers", "cluster_id", "controller_id", "topic_names", "topics", "version")

    def __init__(
        self,
        version: int = 0,
        cluster_id: str | None = None,
        controller_id: int | None = None,
        brokers: Mapping[int, Node] | None = None,
        topics: Mapping[str, TopicInfo] | None = None,
    ) -> None:
        self.version = version
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers: dict[int, Node] = dict(brokers or {})
        self.topics: dict[str, TopicInfo] = dict(topics or {})
        self.topic_names = {info.topic_id: name for name, info in self.topics.items() if info.topic_id != NO_ID}
        self._partitions = {(p.topic, p.partition): p for info in self.topics.values() for p in info.partitions}

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """Return a partition; None if it is unknown."""
        return self._partitions.get((topic, partition))

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...] | None:
        """Return the partitions of a topic, sorted; None if the topic is unknown."""
        info = self.topics.get(topic)
        return (info.partitions or None) if info is not None else None

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic; None if it is unknown, or the brokers are too old for topic ids."""
        info = self.topics.get(topic)
        return None if info is None or info.topic_id == NO_ID else info.topic_id

    def __repr__(self) -> str:
        known = f"brokers {sorted(self.brokers)}, topics {sorted(self.topics)}"
        return f"<Cluster {self.cluster_id} #{self.version}: {known}>"

    def updated(self, response: MetadataResponse, *, asked: Iterable[str] | None, keep: Iterable[str]) -> Cluster:
        """Return the snapshot after a response.

        Parameters:
            asked: the topics that were requested; None for all topics.
            keep: topics that were not requested and stay as they are.
        """
        brokers = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics = {name: self.topics[name] for name in keep if name in self.topics}
        for topic in response.topics:
            if topic.name is not None:
                topics[topic.name] = self._topic(topic.name, topic)
        for name in asked or ():
            if name not in topics:
                error = UnknownTopicOrPartitionError("the broker's response did not contain the topic", topic=name)
                topics[name] = TopicInfo(name, NO_ID, (), False, error)
        controller = response.controller_id if response.controller_id >= 0 else None
        return Cluster(self.version + 1, response.cluster_id or self.cluster_id, controller, brokers, topics)

    def without(self, topics: Iterable[str]) -> Cluster:
        """Return the snapshot without some topics."""
        gone = set(topics)
        left = {name: info for name, info in self.topics.items() if name not in gone}
        return Cluster(self.version + 1, self.cluster_id, self.controller_id, self.brokers, left)

    def with_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]) -> Cluster | None:
        """Return the snapshot with the new leaders of a response (KIP-951): by partition, broker and epoch.

        Returns:
            None if none of them is newer.
        """
        brokers = self.brokers | {node.node_id: node for node in nodes}
        topics = dict(self.topics)
        changed = False
        for tp, (leader, epoch) in leaders.items():
            known = self.partition(tp.topic, tp.partition)
            if known is None or leader not in brokers or epoch <= _epoch(known):
                continue
            new = PartitionInfo(
                known.topic,
                known.partition,
                leader,
                epoch,
                known.replicas,
                known.in_sync_replicas,
                known.offline_replicas,
            )
            info = topics[tp.topic]
            partitions = tuple(new if p.partition == tp.partition else p for p in info.partitions)
            topics[tp.topic] = info._replace(partitions=partitions)
            changed = True
        return Cluster(self.version + 1, self.cluster_id, self.controller_id, brokers, topics) if changed else None

    def _topic(self, name: str, topic: MetadataResponse.MetadataResponseTopic) -> TopicInfo:
        if topic.error_code:
            error = error_from_code(topic.error_code, topic=name)
            return TopicInfo(name, topic.topic_id, (), topic.is_internal, error)
        before = self.topics.get(name)
        same = before is not None and (before.topic_id == topic.topic_id or NO_ID in (before.topic_id, topic.topic_id))
        found = []
        for entry in topic.partitions:
            new = partition_info(name, entry)
            known = self.partition(name, entry.partition_index) if same else None
            # A broker that lags behind the controller may still report an earlier leader.
            found.append(known if known is not None and -1 < _epoch(new) < _epoch(known) else new)
        if before is not None and before.topic_id == topic.topic_id != NO_ID and len(before.partitions) > len(found):
            # A topic never loses partitions: this broker does not know the added ones yet.
            told = {info.partition for info in found}
            found += [info for info in before.partitions if info.partition not in told]
        found.sort(key=lambda info: info.partition)
        return TopicInfo(name, topic.topic_id, tuple(found), topic.is_internal, None)


def _epoch(info: PartitionInfo) -> int:
    return -1 if info.leader_epoch is None else info.leader_epoch


def partition_info(
    topic: str,
    entry: MetadataResponse.MetadataResponsePartition
    | DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition,
) -> PartitionInfo:
    """Return a partition as described by a broker."""
    return PartitionInfo(
        topic,
        entry.partition_index,
        leader=entry.leader_id if entry.leader_id >= 0 else None,
        leader_epoch=entry.leader_epoch if entry.leader_epoch >= 0 else None,
        replicas=tuple(entry.replica_nodes),
        in_sync_replicas=tuple(entry.isr_nodes),
        offline_replicas=tuple(entry.offline_replicas),
    )
