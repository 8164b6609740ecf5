"""Transactional producers that act at random, and a snapshot of their state and their records."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kclient.protocol import Message
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.describe_producers import DescribeProducersRequest
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.records import read_batches
from tests.support.raw_producer import TIMESTAMP_MS, RawProducer, error_codes, produce_request
from tests.support.waiting import wait_until
from tests.support.wire import Wire

TOPIC, GROUP, TRANSACTION = "t", "g", 1
# Retriable errors: no leader yet, no coordinator yet, or one that loads its log; NOT_ENOUGH_REPLICAS when a coordinator
# cannot be reached, and CONCURRENT_TRANSACTIONS while the previous transaction is being completed.
NOT_NOW = {3, 5, 6, 14, 15, 16, 19, 51}
PICTURE_BYTES = 1 << 20
TRANSACTION_TIMEOUT_MS = 900_000
"""Longer than the kills and restarts of the brokers take; the largest timeout that brokers allow by default."""


class Driver:
    """Three transactional producers and one idempotent producer, which act at random.

    Parameters:
        now: the timestamp of the records, in milliseconds since the epoch.

    Attributes:
        wire: connection to the broker that runs now.
    """

    wire: Wire

    def __init__(self, rng: random.Random, now: Callable[[], int] = lambda: TIMESTAMP_MS) -> None:
        self._rng = rng
        self._now = now
        names = ("one", "two", "three", None)
        self.producers = [RawProducer(self.ask, name) for name in names]
        self._recent: list[tuple[bytes, int]] = []
        self._open: set[RawProducer] = set()

    def ask(self, request: Message, version: int) -> Any:
        """Send a request, and repeat it while the broker has just started or has not completed a transaction."""
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(self.wire.ask(request, version))
            return NOT_NOW.isdisjoint(error_codes(answers[-1]))

        wait_until(is_answered)
        return answers[-1]

    def begin(self) -> None:
        """Create the topic, and initialize the producers."""
        for key_type, key in ((0, GROUP), (TRANSACTION, "one")):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        assert self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
        for producer in self.producers:
            assert producer.init(transaction_timeout_ms=TRANSACTION_TIMEOUT_MS).error_code == 0

    def step(self) -> None:
        """Send one request of one producer, which must succeed."""
        producer, chance = self._rng.choice(self.producers), self._rng.random()
        if producer.transactional_id is None:
            data = producer.batch(TOPIC, bytes(self._rng.randrange(500)), timestamp=self._now())
            [answer] = self.ask(produce_request(TOPIC, data), 12).responses[0].partition_responses
            assert answer.error_code == 0
            producer.sequences[TOPIC, 0] = producer.sequences.get((TOPIC, 0), 0) + 1
            self._recent = [*self._recent[-4:], (data, answer.base_offset)]
        elif chance < 0.5:
            assert producer.send(TOPIC, bytes(self._rng.randrange(500)), timestamp=self._now()).error_code == 0
            self._open.add(producer)
        elif chance < 0.7:
            assert producer.commit_offsets(GROUP, {(TOPIC, 0): self._rng.randrange(100)}) == [0]
            self._open.add(producer)
        elif producer in self._open:
            assert producer.end(commit=self._rng.random() < 0.5).error_code == 0
            self._open.remove(producer)

    def repeat(self) -> None:
        """Send the last five batches again, as a client does that received no response to them."""
        for data, offset in self._recent:
            [answer] = self.ask(produce_request(TOPIC, data), 12).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (0, offset)

    def repeat_last(self) -> None:
        """Send the last batch again: a clean stop, or Kafka's recovery, keeps no earlier one."""
        self._recent = self._recent[-1:]
        self.repeat()

    def _settle(self) -> None:
        names = [producer.transactional_id for producer in self.producers if producer.transactional_id is not None]
        request = DescribeTransactionsRequest(transactional_ids=names)
        wait_until(lambda: "Prepare" not in repr(self.ask(request, 0)))

    def picture(self) -> list[Any]:
        """Return what readers see and the state of the producers, after all ended transactions are complete."""
        self._settle()
        ends = []
        for isolation in (0, 1):
            end = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
            ends_of = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[end])
            asked = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[ends_of])
            ends.append(self.ask(asked, 7).topics[0].partitions[0].offset)
        topic = DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0])
        producers = self.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions[0].active_producers
        batches, aborted, offset = [], [], 0
        while offset < ends[1]:
            one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=PICTURE_BYTES)
            wanted = FetchRequest.FetchTopic(topic=TOPIC, partitions=[one])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[wanted])
            [part] = self.ask(request, 11).responses[0].partitions
            for batch in read_batches(bytes(part.records)):
                batches.append((batch.base_offset, batch.producer_id, batch.producer_epoch, batch.is_control))
                offset = batch.next_offset
            # The response also contains later aborted transactions up to the next index entry, which depends on the
            # implementation.
            listed = [(one.producer_id, one.first_offset) for one in part.aborted_transactions]
            aborted += [one for one in listed if one[1] < ends[1]]
        return [ends, sorted(map(repr, producers)), batches, aborted, *self._offsets()]

    def _offsets(self) -> list[str]:
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        requests = [OffsetFetchRequest(groups=[group], require_stable=stable) for stable in (False, True)]
        return [repr(self.ask(request, 8).groups) for request in requests]
