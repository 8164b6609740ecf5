"""Looks up the partitions of requests, and raises the error for those that cannot be used."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from refbroker.config import BrokerConfig
from refbroker.log import LogManager, PartitionLog
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionState

NO_EPOCH = -1
NO_OFFSET = -1


class LocalPartition(NamedTuple):
    """A partition that this broker leads: its state in the cluster, and its log."""

    topic: str
    topic_id: UUID
    state: PartitionState
    log: PartitionLog

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known leader epoch up to `epoch`, and the offset after its last record.

        The current epoch is known before it has a record. (-1, -1) stands for a later epoch, and for one before all
        epochs of the log.
        """
        current, written = self.state.leader_epoch, self.log.leader_epoch
        if epoch > current:
            return NO_EPOCH, NO_OFFSET
        if epoch == current:
            return epoch, self.log.log_end_offset
        if epoch > written:
            # No record was written in it or since.
            return (epoch if written == NO_EPOCH else written), self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)


class Partitions:
    """The partitions of this broker.

    Parameters:
        image: the state of the cluster.
        logs: the broker's logs.
        config: the broker's settings.
    """

    def __init__(self, image: ClusterImage, logs: LogManager, config: BrokerConfig) -> None:
        self._image = image
        self._logs = logs
        self._config = config
        self._node_id = config.node_id

    def find(
        self,
        topic: str | UUID,
        partition: int,
        current_leader_epoch: int = NO_EPOCH,
        *,
        topic_id: UUID | None = None,
    ) -> LocalPartition:
        """Return a partition that this broker leads.

        Parameters:
            topic: by name or by id.
            current_leader_epoch: the leader epoch of the client, -1 for none.
            topic_id: the expected id of the topic; None for any.

        Raises:
            UnknownTopicIdError: no topic has the id.
            UnknownTopicOrPartitionError: the topic or the partition does not exist.
            InconsistentTopicIdError: the topic was created again.
            NotLeaderOrFollowerError: another broker is the leader, or none.
            FencedLeaderEpochError: the client's epoch is older.
            UnknownLeaderEpochError: the client's epoch is newer.
            KafkaStorageError: its data directory is offline, or its log could not be created.
        """
        if isinstance(topic, str):
            found = self._image.topics.get(topic)
        else:
            found = self._image.topics_by_id.get(topic)
            if found is None:
                raise UnknownTopicIdError(f"no topic has the id {topic}", partition=partition)
        state = None if found is None else found.partitions.get(partition)
        if found is None or state is None:
            raise UnknownTopicOrPartitionError(topic=str(topic), partition=partition)
        log = self._logs.get(found.name, partition)
        if log is None and self._node_id in state.replicas:
            raise KafkaStorageError(
                "its data directory is offline, or its log could not be created; the broker's log has the reason",
                topic=found.name,
                partition=partition,
            )
        if topic_id is not None and topic_id != found.topic_id:
            raise InconsistentTopicIdError(topic=found.name, partition=partition)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != state.leader_epoch:
            kind = FencedLeaderEpochError if current_leader_epoch < state.leader_epoch else UnknownLeaderEpochError
            raise kind(
                f"the client has leader epoch {current_leader_epoch}, the partition {state.leader_epoch}",
                topic=found.name,
                partition=partition,
            )
        if state.leader != self._node_id or log is None:
            raise NotLeaderOrFollowerError(topic=found.name, partition=partition)
        return LocalPartition(found.name, found.topic_id, state, log)

    def led(self, topic: str) -> list[LocalPartition]:
        """Return the partitions of a topic that this broker leads and whose logs are open; an empty list for an unknown
        topic.
        """
        found = self._image.topics.get(topic)
        if found is None:
            return []
        led = []
        for number, state in found.partitions.items():
            log = self._logs.get(topic, number)
            if state.leader == self._node_id and log is not None and not log.closed:
                led.append(LocalPartition(topic, found.topic_id, state, log))
        return led

    def check_in_sync(self, partition: LocalPartition) -> None:
        """Check that enough replicas are in sync for a write with acks=all.

        Raises:
            NotEnoughReplicasError: fewer than `min.insync.replicas`, and than the replicas of the partition.
        """
        own = self._image.config(TOPIC_RESOURCE, partition.topic).get("min.insync.replicas")
        wanted = self._config.min_insync_replicas if own is None else int(own)
        # If `min.insync.replicas` exceeds the number of replicas, it requires all of them.
        wanted = min(wanted, len(partition.state.replicas))
        if len(partition.state.isr) < wanted:
            raise NotEnoughReplicasError(
                f"The size of the current ISR {partition.state.isr} is insufficient to satisfy the min.isr requirement "
                f"of {wanted}",
                topic=partition.topic,
                partition=partition.state.partition_id,
            )

    def topic_name(self, topic: str | UUID) -> str | None:
        """Return the name of a topic, None if it does not exist."""
        found = self._image.topics.get(topic) if isinstance(topic, str) else self._image.topics_by_id.get(topic)
        return None if found is None else found.name
