"""An index of partitions by broker, leader and data directory, so that a change of one broker does not scan all topics.

Kafka's `BrokersToIsrs`, `BrokersToElrs`, `imbalancedPartitions` and `directoriesToPartitions`. The index follows the
image: `load` reads all of it, and `follow` takes the records of each change after they are replayed. It remembers what
it has indexed of each partition, because the image no longer has the previous state.

Only the active controller needs the index. All lookups return partitions in the order in which they were indexed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from refbroker.metadata.directories import LAST_RESERVED, NO_LEADER
from refbroker.metadata.image import ClusterImage, PartitionState

K = TypeVar("K", bound=Hashable)


class PartitionId(NamedTuple):
    """A partition, by the id of its topic and its number."""

    topic_id: UUID
    number: int


class _Indexed(NamedTuple):
    """What is indexed of a partition."""

    isr: Sequence[int] = ()
    elr: Sequence[int] = ()
    leaders: Sequence[int] = ()
    directories: Sequence[UUID] = ()
    is_imbalanced: bool = False


_NOTHING = _Indexed()


class _Groups(Generic[K]):
    """Sets of partitions by key; empty sets are not kept."""

    def __init__(self) -> None:
        self._groups: dict[K, dict[PartitionId, None]] = {}

    def find(self, key: K) -> list[PartitionId]:
        return list(self._groups.get(key, ()))

    def has(self, key: K) -> bool:
        return key in self._groups

    def move(self, partition: PartitionId, before: Sequence[K], after: Sequence[K]) -> None:
        if before == after:
            return
        for key in before:
            if key not in after:
                group = self._groups[key]
                del group[partition]
                if not group:
                    del self._groups[key]
        for key in after:
            if key not in before:
                self._groups.setdefault(key, {})[partition] = None


class PartitionIndex:
    """The partitions of an image by broker.

    Parameters:
        image: the state of the cluster.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: dict[UUID, dict[int, _Indexed]] = {}
        self._isr: _Groups[int] = _Groups()
        self._elr: _Groups[int] = _Groups()
        self._leaders: _Groups[int] = _Groups()
        self._directories: _Groups[UUID] = _Groups()
        self._imbalanced: _Groups[bool] = _Groups()
        self.load()

    def in_sync(self, broker: int) -> list[PartitionId]:
        """Return the partitions with a broker in the in-sync set."""
        return self._isr.find(broker)

    def eligible(self, broker: int) -> list[PartitionId]:
        """Return the partitions with a broker among the eligible leader replicas."""
        return self._elr.find(broker)

    def led(self, broker: int) -> list[PartitionId]:
        """Return the partitions that a broker leads."""
        return self._leaders.find(broker)

    def leads(self, broker: int) -> bool:
        """Return whether a broker leads any partition."""
        return self._leaders.has(broker)

    def leaderless(self) -> list[PartitionId]:
        """Return the partitions without a leader."""
        return self._leaders.find(NO_LEADER)

    def imbalanced(self) -> list[PartitionId]:
        """Return the partitions whose leader is not their first replica."""
        return self._imbalanced.find(True)

    def in_directory(self, directory: UUID) -> list[PartitionId]:
        """Return the partitions with a replica in a data directory."""
        return self._directories.find(directory)

    def load(self) -> None:
        """Index the whole image."""
        for topic in self._image.topics.values():
            self._update_topic(topic.topic_id)

    def follow(self, records: Iterable[Message]) -> None:
        """Index a change.

        Parameters:
            records: the records, which the image has replayed.
        """
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._update(PartitionId(record.topic_id, record.partition_id))
            elif isinstance(record, RemoveTopicRecord):
                self._update_topic(record.topic_id)
            elif isinstance(record, ClearElrRecord):
                for topic in self._image.topics.values():
                    if record.topic_name in ("", topic.name):
                        self._update_topic(topic.topic_id)

    def _update_topic(self, topic_id: UUID) -> None:
        topic = self._image.topics_by_id.get(topic_id)
        present = {} if topic is None else topic.partitions
        for number in {**self._topics.get(topic_id, {}), **present}:
            self._update(PartitionId(topic_id, number))
        if topic is None:
            self._topics.pop(topic_id, None)

    def _update(self, partition: PartitionId) -> None:
        state = self._image.partition(*partition)
        numbers = self._topics.setdefault(partition.topic_id, {})
        before = numbers.pop(partition.number, _NOTHING)
        after = _NOTHING if state is None else _indexed(state)
        if state is not None:
            numbers[partition.number] = after
        self._isr.move(partition, before.isr, after.isr)
        self._elr.move(partition, before.elr, after.elr)
        self._leaders.move(partition, before.leaders, after.leaders)
        self._directories.move(partition, before.directories, after.directories)
        self._imbalanced.move(partition, (True,) * before.is_imbalanced, (True,) * after.is_imbalanced)


def _indexed(state: PartitionState) -> _Indexed:
    return _Indexed(
        state.isr,
        state.eligible_leader_replicas,
        (state.leader,),
        tuple({directory: None for directory in state.directories if directory > LAST_RESERVED}),
        state.leader != state.replicas[0],
    )
