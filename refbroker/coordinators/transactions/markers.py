"""Writes the markers that end a transaction into the partitions that took part in it.

With a marker (`refbroker.log.markers`) the transaction ends in the partition's log: the last stable offset moves on,
what was aborted goes into the index of aborted transactions, and fetches that wait for committed records are answered.
In a partition of `__consumer_offsets` the offsets that the transaction committed count from then on, or are forgotten;
the group coordinator's runtime writes the marker there, so that both happen together.

Each partition for itself: a marker that is written once more after its transaction has ended does no harm, so whoever
writes them repeats those that failed. Left out: partitions that other brokers lead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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
from refbroker.coordinators.groups.coordinator import OFFSETS_TOPIC
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.metadata.partitions import LocalPartition

if TYPE_CHECKING:
    from refbroker.broker import Broker


def write_markers(
    broker: Broker, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
) -> dict[TopicPartitionKey, KafkaError | None]:
    """End a transaction in partitions of this broker.

    Returns:
        What went wrong with each partition, None when its marker is stored: UNKNOWN_TOPIC_OR_PARTITION,
        NOT_LEADER_OR_FOLLOWER (also while the offsets of groups are being loaded), NOT_ENOUGH_REPLICAS,
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, and what else a log may answer;
        UNKNOWN_SERVER_ERROR, as in Kafka, for a producer without id or epoch, which cannot have a transaction.
    """
    results: dict[TopicPartitionKey, KafkaError | None] = {}
    for topic, number in partitions:
        try:
            found = _online(broker, topic, number)
            if marker.producer_id < 0 or marker.producer_epoch < 0:
                raise UnknownServerError(
                    f"there is no producer {marker.producer_id} with epoch {marker.producer_epoch}"
                )
            if topic == OFFSETS_TOPIC:
                _end_in_offsets(broker, number, marker)
            else:
                broker.partitions.check_in_sync(found)
                marker.append_to(found.log, leader_epoch=found.state.leader_epoch, now_ms=broker.clock())
        except KafkaError as error:
            results[topic, number] = error
        else:
            results[topic, number] = None
    return results


def _online(broker: Broker, topic: str, number: int) -> LocalPartition:
    try:
        return broker.partitions.find(topic, number)
    except KafkaStorageError as error:
        # The coordinator takes it for a partition whose new leader it has to look for.
        raise UnknownTopicOrPartitionError(error.message, topic=topic, partition=number) from error


def _end_in_offsets(broker: Broker, number: int, marker: TransactionMarker) -> None:
    try:
        broker.groups.runtime.end_transaction(number, marker)
    except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError) as error:
        # To the transaction's coordinator this is a partition whose leader is not ready yet.
        raise NotLeaderOrFollowerError(error.message, topic=OFFSETS_TOPIC, partition=number) from error
