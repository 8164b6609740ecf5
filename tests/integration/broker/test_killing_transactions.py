"""kill -9 of `refbroker run` between the requests of transactional producers: it knows afterwards what it knew before.

KCLIENT_KILLS says how often.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.describe_producers import DescribeProducersRequest
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.records import read_batches
from tests.integration.broker.wire import Wire
from tests.interop.broker_process import BrokerProcess
from tests.interop.killing import KILLS, TIMEOUT
from tests.raw_producer import RawProducer, produce_request
from tests.waiting import wait_until

TOPIC, GROUP, TRANSACTION = "t", "g", 1
LOADING, NOT_COORDINATOR = 14, 16
SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "1"}
PICTURE_BYTES = 1 << 20


class Driver:
    """Three transactional producers, and one without transactions, of which each does something at random.

    Attributes:
        wire: to the broker that runs now.
    """

    wire: Wire

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        names = ("one", "two", "three", None)
        self.producers = [RawProducer(lambda request, version: self.wire.ask(request, version), name) for name in names]
        self._recent: list[tuple[bytes, int]] = []
        self._open: set[RawProducer] = set()

    def begin(self) -> None:
        for key_type, key in ((0, GROUP), (TRANSACTION, "one")):
            found = self.wire.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
            assert found.coordinators[0].error_code == 0
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        assert self.wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
        for producer in self.producers:
            assert producer.init().error_code == 0

    def step(self) -> None:
        producer, chance = self._rng.choice(self.producers), self._rng.random()
        if producer.transactional_id is None:
            data = producer.batch(TOPIC, bytes(self._rng.randrange(500)))
            [answer] = self.wire.ask(produce_request(TOPIC, data), 12).responses[0].partition_responses
            assert answer.error_code == 0
            producer.sequences[TOPIC, 0] = producer.sequences.get((TOPIC, 0), 0) + 1
            self._recent = [*self._recent[-4:], (data, answer.base_offset)]
        elif chance < 0.5:
            assert producer.send(TOPIC, bytes(self._rng.randrange(500))).error_code == 0
            self._open.add(producer)
        elif chance < 0.7:
            assert producer.commit_offsets(GROUP, {(TOPIC, 0): self._rng.randrange(100)}) == [0]
            self._open.add(producer)
        elif producer in self._open:
            assert producer.end(commit=self._rng.random() < 0.5).error_code == 0
            self._open.remove(producer)

    def repeat(self) -> None:
        """The last five batches once more, as a client does that has heard nothing of them."""
        for data, offset in self._recent:
            [answer] = self.wire.ask(produce_request(TOPIC, data), 12).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (0, offset)

    def picture(self) -> list[Any]:
        """What a reader can see, and what is known of the producers."""
        ends = []
        for isolation in (0, 1):
            end = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
            ends_of = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[end])
            asked = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[ends_of])
            ends.append(self.wire.ask(asked, 7).topics[0].partitions[0].offset)
        topic = DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0])
        producers = self.wire.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions[0].active_producers
        batches, aborted, offset = [], [], 0
        while offset < ends[1]:
            one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=PICTURE_BYTES)
            wanted = FetchRequest.FetchTopic(topic=TOPIC, partitions=[one])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[wanted])
            [part] = self.wire.ask(request, 11).responses[0].partitions
            for batch in read_batches(bytes(part.records)):
                batches.append((batch.base_offset, batch.producer_id, batch.producer_epoch, batch.is_control))
                offset = batch.next_offset
            aborted += [(found.producer_id, found.first_offset) for found in part.aborted_transactions]
        return [ends, sorted(map(repr, producers)), batches, aborted, *self._offsets()]

    def _offsets(self) -> list[Any]:
        found = []
        for stable in (False, True):
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
            request = OffsetFetchRequest(groups=[group], require_stable=stable)
            answers: list[Any] = []

            def is_loaded(request: OffsetFetchRequest = request, answers: list[Any] = answers) -> bool:
                answers[:] = self.wire.ask(request, 8).groups
                return answers[0].error_code not in (LOADING, NOT_COORDINATOR)

            wait_until(is_loaded)
            found.append(repr(answers))
        return found

    def wait_for_coordinator(self) -> None:
        for producer in self.producers:
            if producer.transactional_id is not None:
                wait_until(partial(self._is_coordinated, producer.transactional_id))

    def _is_coordinated(self, transactional_id: str) -> bool:
        # Nobody's identity: it changes nothing.
        nobody = RawProducer(self.producers[0].ask, transactional_id)
        [topic] = nobody.add(TOPIC).results_by_topic_v3_and_below
        return topic.results_by_partition[0].partition_error_code != LOADING


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
def test_what_a_broker_knows_of_transactions_survives_kills(tmp_path: Path, rng: random.Random) -> None:
    driver, before = Driver(rng), None
    for number in range(KILLS):
        broker = BrokerProcess(tmp_path / "data", settings=SETTINGS)
        with broker, Wire(broker.bootstrap_servers) as driver.wire:
            if not number:
                driver.begin()
            else:
                assert driver.picture() == before
                driver.repeat()
                driver.wait_for_coordinator()
            for _ in range(rng.randrange(200)):
                driver.step()
            before = driver.picture()
            broker.stop(kill=True)
