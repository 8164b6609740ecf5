"""Writes the markers that end a transaction into the partitions that took part in it.

A marker is a control batch with the producer's id and epoch, and the epoch of the transaction's coordinator. With it
the transaction ends in the partition's log: the last stable offset moves on, what was aborted goes into the index of
aborted transactions, and fetches that wait for committed records are answered. In a partition of `__consumer_offsets`
the offsets that the transaction committed count from then on, or are forgotten; the group coordinator's runtime writes
the marker there, so that both happen together.

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
from kclient.records import ABORT, COMMIT, control_batch
from refbroker.coordinators.groups.coordinator import OFFSETS_TOPIC
from refbroker.log import Origin
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.partitions import LocalPartition

if TYPE_CHECKING:
    from refbroker.broker import Broker


def write_markers(
    broker: Broker,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    commit: bool,
    partitions: Iterable[TopicPartitionKey],
    transaction_version: int,
) -> dict[TopicPartitionKey, KafkaError | None]:
    """End a transaction in partitions of this broker.

    Parameters:
        producer_epoch: from version 2 of transactions on one more than that of the transaction's records.
        coordinator_epoch: the leader epoch of the partition of `__transaction_state` that the transaction is in.
        commit: False to abort it.
        partitions: topics and partitions.
        transaction_version: 0 or 1 when the markers have the same epoch as the records, else 2.

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
            if producer_id < 0 or producer_epoch < 0:
                raise UnknownServerError(f"there is no producer {producer_id} with epoch {producer_epoch}")
            if topic == OFFSETS_TOPIC:
                _end_in_offsets(
                    broker, number, producer_id, producer_epoch, coordinator_epoch, commit, transaction_version
                )
            else:
                broker.partitions.check_in_sync(found)
                now = broker.clock()
                marker = control_batch(
                    COMMIT if commit else ABORT,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    coordinator_epoch=coordinator_epoch,
                    timestamp=now,
                )
                found.log.append(
                    marker,
                    leader_epoch=found.state.leader_epoch,
                    origin=Origin.COORDINATOR,
                    now_ms=now,
                    transaction_version=transaction_version,
                )
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


def _end_in_offsets(
    broker: Broker,
    number: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    transaction_version: int,
) -> None:
    try:
        broker.groups.runtime.end_transaction(
            number,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
        )
    except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError) as error:
        # To the transaction's coordinator this is a partition whose leader is not ready yet.
        raise NotLeaderOrFollowerError(error.message, topic=OFFSETS_TOPIC, partition=number) from error
