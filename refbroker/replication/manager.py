"""The roles of this broker's replicas: which partitions it leads, in which leader epoch, and who is in sync.

The role of a replica moves the high watermark of its log. A leader that is alone in the in-sync set moves it to the log
end when it becomes the leader and with each append, in the same turn of the event loop. A leader whose in-sync set has
other replicas keeps it until they have fetched the records. On becoming the leader in a new epoch, the epoch begins at
the log end before any record of it (KIP-101), and not only with its first record.

Not implemented: the high watermark of leaders with followers, and of followers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from refbroker.log import LogManager, PartitionLog
from refbroker.metadata.image import ClusterImage, TopicState

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Leadership:
    """The leadership of this broker over a partition.

    Attributes:
        alone: whether no other replica is in sync.
    """

    log: PartitionLog
    leader_epoch: int
    alone: bool = False


class ReplicaManager:
    """The roles of a broker's replicas, from the state of the cluster.

    Parameters:
        image: the state of the cluster.
        logs: the broker's logs.
        node_id: the broker's id.
        on_leadership_change: called with a log that this broker no longer leads, or leads in another epoch, so that the
            requests that wait for it are answered.
    """

    def __init__(
        self,
        image: ClusterImage,
        logs: LogManager,
        node_id: int,
        on_leadership_change: Callable[[PartitionLog], None],
    ) -> None:
        self._image = image
        self._logs = logs
        self._node_id = node_id
        self._on_leadership_change = on_leadership_change
        self._led: dict[tuple[UUID, int], Leadership] = {}

    def catch_up(self) -> None:
        """Take over the roles of the whole state, as after a restart."""
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                self._update(topic, partition)

    def follow(self, records: Sequence[Message]) -> None:
        """Take over the roles after a change; a listener of the metadata log, after the one that creates logs."""
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                topic = self._image.topics_by_id.get(record.topic_id)
                if topic is not None:
                    self._update(topic, record.partition_id)
            elif isinstance(record, RemoveTopicRecord):
                for key in [key for key in self._led if key[0] == record.topic_id]:
                    self._resign(key)

    def log_replaced(self, old: PartitionLog) -> None:
        """Take over the role of a partition whose log was replaced by one in another directory."""
        topic = self._image.topics_by_id.get(old.topic_id)
        if topic is not None:
            self._update(topic, old.partition)

    def _update(self, topic: TopicState, partition: int) -> None:
        key = (topic.topic_id, partition)
        state, log, led = topic.partitions[partition], self._logs.get(topic.name, partition), self._led.get(key)
        if log is None or log.closed or state.leader != self._node_id:
            if led is not None:
                self._resign(key)
            return
        if led is not None and (led.log, led.leader_epoch) != (log, state.leader_epoch):
            self._resign(key)
            led = None
        if led is None:
            try:
                log.begin_leader_epoch(state.leader_epoch, save=False)
            except KafkaStorageError as error:
                logger.error("cannot lead %s-%d: %s", topic.name, partition, error)
                return
            led = self._led[key] = Leadership(log, state.leader_epoch)
        self._set_alone(led, alone=state.isr == [self._node_id])

    def _set_alone(self, led: Leadership, *, alone: bool) -> None:
        if alone == led.alone:
            return
        led.alone = alone
        if alone:
            led.log.on_append.append(PartitionLog.move_high_watermark_to_end)
            led.log.move_high_watermark_to_end()
        else:
            led.log.on_append.remove(PartitionLog.move_high_watermark_to_end)

    def _resign(self, key: tuple[UUID, int]) -> None:
        led = self._led.pop(key)
        self._set_alone(led, alone=False)
        self._on_leadership_change(led.log)
