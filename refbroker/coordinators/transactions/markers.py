"""Writes the markers that end a transaction into the partitions that took part in it.

A marker (`refbroker.log.markers`) ends the transaction in the partition's log: the last stable offset advances, an
aborted transaction is added to the index, and fetches that wait for committed records complete. In a partition of
`__consumer_offsets`, the marker also applies or drops the offsets that the transaction has committed. The runtime of
the group coordinator writes it there, so that both happen together.

Partitions are independent. Writing a marker again after its transaction has ended is harmless, so callers repeat the
markers that failed. The markers of a transaction go to the leaders of its partitions, in one request for each broker,
and a leader answers when its markers are replicated. With one replica in sync that is in the same turn.

Not implemented: partitions that other brokers lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

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
from refbroker.log import AppendResult, TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import LocalPartition, Partitions
from refbroker.replication.delayed_produce import AwaitedAppend, DelayedProduces
from refbroker.runtime.eventual import all_of, then

MarkerResults = dict[TopicPartitionKey, KafkaError | None]
"""The error of each partition, None when its marker is replicated."""


class MarkerDestination(Protocol):
    """A broker that receives markers for the partitions that it leads; Kafka's request for that is WriteTxnMarkers."""

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
    ) -> MarkerResults | asyncio.Future[MarkerResults]:
        """End a transaction in partitions of the broker."""


class MarkerSender:
    """Sends the markers of transactions to the leaders of their partitions.

    Parameters:
        image: the state of the cluster.
        destination: returns the destination for a broker id; also for -1, when a partition has no leader.
    """

    def __init__(self, image: ClusterImage, destination: Callable[[int], MarkerDestination]) -> None:
        self._image = image
        self._destination = destination

    def send(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
    ) -> MarkerResults | asyncio.Future[MarkerResults]:
        """End a transaction in partitions, now or when the slowest broker has answered; skip those that are gone."""
        by_leader: dict[int, list[TopicPartitionKey]] = {}
        for key in partitions:
            state = self._image.partition(*key)
            if state is not None:
                by_leader.setdefault(state.leader, []).append(key)
        answers = [self._destination(leader).write(marker, keys) for leader, keys in by_leader.items()]
        return then(all_of(answers), _merge)


def _merge(answers: list[MarkerResults]) -> MarkerResults:
    merged: MarkerResults = {}
    for results in answers:
        merged.update(results)
    return merged


class MarkerWriter:
    """Ends transactions in the partitions of this broker; the local `MarkerDestination`.

    Parameters:
        partitions: those that the broker leads.
        now: the time, milliseconds since the epoch.
        end_in_group_offsets: writes a marker into a partition of `__consumer_offsets`.
        delayed: the appends that wait for replicas.
        timeout_ms: returns for how long markers may wait for replicas, in milliseconds.
    """

    def __init__(
        self,
        partitions: Partitions,
        now: Callable[[], int],
        end_in_group_offsets: Callable[[int, TransactionMarker], AppendResult],
        delayed: DelayedProduces,
        timeout_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._now = now
        self._end_in_group_offsets = end_in_group_offsets
        self._delayed = delayed
        self._timeout_ms = timeout_ms

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
    ) -> MarkerResults | asyncio.Future[MarkerResults]:
        """End a transaction in partitions of this broker.

        Returns:
            The error of each partition, None when its marker is replicated: UNKNOWN_TOPIC_OR_PARTITION,
            NOT_LEADER_OR_FOLLOWER (also while the offsets of groups are being loaded), NOT_ENOUGH_REPLICAS,
            NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, INVALID_PRODUCER_EPOCH,
            TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, and other errors of a log; UNKNOWN_SERVER_ERROR, as in
            Kafka, for a producer without id or epoch, which cannot have a transaction.
        """
        results: MarkerResults = {}
        appends: list[AwaitedAppend] = []
        for key in partitions:
            try:
                found = self._online(*key)
                stored = self._append(found, marker)
            except KafkaError as error:
                results[key] = error
                continue
            results[key] = None
            if found.log.high_watermark <= stored.last_offset:
                appends.append(AwaitedAppend(found.log, stored.last_offset + 1, partial(results.__setitem__, key)))
        return self._delayed.wait(appends, self._timeout_ms(), lambda: results) if appends else results

    def _online(self, topic: str, number: int) -> LocalPartition:
        try:
            return self._partitions.find(topic, number)
        except KafkaStorageError as error:
            # The coordinator takes it for a partition whose new leader it has to look for.
            raise UnknownTopicOrPartitionError(error.message, topic=topic, partition=number) from error

    def _append(self, found: LocalPartition, marker: TransactionMarker) -> AppendResult:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise UnknownServerError(f"there is no producer {marker.producer_id} with epoch {marker.producer_epoch}")
        if found.topic == OFFSETS_TOPIC:
            return self._end_in_offsets(found.state.partition_id, marker)
        self._partitions.check_in_sync(found)
        return marker.append_to(found.log, leader_epoch=found.state.leader_epoch, now_ms=self._now())

    def _end_in_offsets(self, number: int, marker: TransactionMarker) -> AppendResult:
        try:
            return self._end_in_group_offsets(number, marker)
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError) as error:
            # To the transaction's coordinator this is a partition whose leader is not ready yet.
            raise NotLeaderOrFollowerError(error.message, topic=OFFSETS_TOPIC, partition=number) from error
