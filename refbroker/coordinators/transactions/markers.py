"""Writes the markers that end a transaction into the partitions that took part in it.

A marker (`refbroker.log.markers`) ends the transaction in the partition's log: the last stable offset advances, an
aborted transaction is added to the index, and fetches that wait for committed records complete. In a partition of
`__consumer_offsets`, the marker also applies or drops the offsets that the transaction has committed. The runtime of
the group coordinator writes it there, so that both happen together.

Partitions are independent. Writing a marker again after its transaction has ended is harmless, so callers repeat the
markers that failed.

Not implemented: partitions that other brokers lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kclient.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaStorageError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from refbroker.coordinators.internal_topic import OFFSETS_TOPIC
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import LocalPartition, Partitions


class MarkerWriter:
    """Ends transactions in the partitions of a broker.

    Parameters:
        image: the state of the cluster.
        partitions: those that the broker leads.
        now: the time, milliseconds since the epoch.
        end_in_group_offsets: writes a marker into a partition of `__consumer_offsets`.
    """

    def __init__(
        self,
        image: ClusterImage,
        partitions: Partitions,
        now: Callable[[], int],
        end_in_group_offsets: Callable[[int, TransactionMarker], None],
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._now = now
        self._end_in_group_offsets = end_in_group_offsets

    def exists(self, partition: TopicPartitionKey) -> bool:
        """Return whether the cluster has a partition; one that is gone needs no marker."""
        return self._image.partition(*partition) is not None

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
    ) -> dict[TopicPartitionKey, KafkaError | None]:
        """End a transaction in partitions of this broker.

        Returns:
            The error of each partition, None when its marker is stored: UNKNOWN_TOPIC_OR_PARTITION,
            NOT_LEADER_OR_FOLLOWER (also while the offsets of groups are being loaded), NOT_ENOUGH_REPLICAS,
            INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, and other errors of a log;
            UNKNOWN_SERVER_ERROR, as in Kafka, for a producer without id or epoch, which cannot have a transaction.
        """
        results: dict[TopicPartitionKey, KafkaError | None] = {}
        for topic, number in partitions:
            try:
                found = self._online(topic, number)
                if marker.producer_id < 0 or marker.producer_epoch < 0:
                    raise UnknownServerError(
                        f"there is no producer {marker.producer_id} with epoch {marker.producer_epoch}"
                    )
                if topic == OFFSETS_TOPIC:
                    self._end_in_offsets(number, marker)
                else:
                    self._partitions.check_in_sync(found)
                    marker.append_to(found.log, leader_epoch=found.state.leader_epoch, now_ms=self._now())
            except KafkaError as error:
                results[topic, number] = error
            else:
                results[topic, number] = None
        return results

    def _online(self, topic: str, number: int) -> LocalPartition:
        try:
            return self._partitions.find(topic, number)
        except KafkaStorageError as error:
            # The coordinator takes it for a partition whose new leader it has to look for.
            raise UnknownTopicOrPartitionError(error.message, topic=topic, partition=number) from error

    def _end_in_offsets(self, number: int, marker: TransactionMarker) -> None:
        try:
            self._end_in_group_offsets(number, marker)
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError) as error:
            # To the transaction's coordinator this is a partition whose leader is not ready yet.
            raise NotLeaderOrFollowerError(error.message, topic=OFFSETS_TOPIC, partition=number) from error
