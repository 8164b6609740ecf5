"""Transactional requests as chance has them, right and wrong ones, to Apache Kafka and to refbroker: the same answers.

Producers of both versions share two transactional ids, fence each other, repeat themselves, use old epochs, and are
ended by others; records, offsets and groups are deleted under their transactions. After each step all transactions that
have been decided are complete. KCLIENT_TRANSACTION_PLAYS says how many plays there are; each has its own seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from kclient.protocol import Message
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.delete_records import DeleteRecordsRequest
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.list_transactions import ListTransactionsRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest
from tests.interop.transaction_plays import UNDECIDED, TransactionPlay, differences, two_coordinators
from tests.support.patience import GUARD
from tests.support.raw_producer import NOTHING, RawProducer
from tests.support.waiting import wait_until

PLAYS = int(os.environ.get("KCLIENT_TRANSACTION_PLAYS", "4"))
STEPS = 60
RECENT = 4
SPECIAL_TIMES = (-1, -2, -3, -4)
# Of all records: behind old ones Kafka begins a segment for a marker even if it then refuses that.
NOW_MS = time.time_ns() // 1_000_000


class ChancePlay(TransactionPlay):
    """Producers that ask once, whatever the answer.

    Attributes:
        producers: all that there have been; those before the last few are zombies.
        rng: of the step, the same at both brokers whatever they have answered.
    """

    def __init__(self, bootstrap_servers: str, name: str, stack: ExitStack) -> None:
        super().__init__(bootstrap_servers, name, stack)
        self.rng = random.Random(name)
        self.ids = [f"{name}-one", f"{name}-two"]
        self.everyone: list[RawProducer] = []

    def ask(self, request: Message, version: int) -> Any:
        return self.note(self._main.ask(request, version))

    def play(self, seed: int) -> None:
        for name in self.ids:
            self._start(name)
        steps, weights = zip(*STEPS_BY_WEIGHT.items(), strict=True)
        for number in range(STEPS):
            self.rng = random.Random(f"{seed}:{number}")
            (step,) = self.rng.choices(steps, weights)
            producer = self.rng.choice(self.everyone if self.rng.random() < 0.2 else self.everyone[-RECENT:])
            self.answers.append(f"{number}: {step.__name__} by {self.everyone.index(producer)}")
            step(self, producer, self.rng.randrange(2))
            self._see()
        self.producers()
        for partition in (0, 1):
            for committed in (True, False):
                self.read(committed=committed, partition=partition)

    def _see(self) -> None:
        request = DescribeTransactionsRequest(transactional_ids=self.ids)
        wait_until(
            lambda: UNDECIDED.isdisjoint(
                state.transaction_state for state in self._main.ask(request, 0).transaction_states
            )
        )
        self.ask(request, 0)
        self.offsets(0)
        self.offsets(1)
        self.committed()

    def _start(self, name: str | None, **fields: Any) -> None:
        producer = RawProducer(self.ask, name, transactions=self.rng.choice((1, 2)))
        producer.init(**fields)
        if producer.producer_id == NOTHING:
            # The transaction of the one before is aborted first.
            self._see()
            producer.init(**fields)
        self.everyone.append(producer)

    def epoch_near(self, producer: RawProducer) -> int:
        """The producer's epoch, most often."""
        return max(producer.epoch + self.rng.choice((0, 0, 0, -1, 1)), 0)

    # Steps

    def send(self, producer: RawProducer, partition: int) -> None:
        producer.send(self.topic, partition=partition, timestamp=NOW_MS)

    def send_something_else(self, producer: RawProducer, partition: int) -> None:
        epoch, is_transactional = self.epoch_near(producer), self.rng.random() < 0.7
        producer.send(
            self.topic,
            partition=partition,
            sequence=self.rng.randrange(5),
            version=self.rng.choice((9, 10, 11, 12)),
            # Outside of transactions nothing is verified: a later epoch is stored, and markers refused indefinitely.
            producer_epoch=epoch if is_transactional else min(epoch, producer.epoch),
            is_transactional=is_transactional,
            timestamp=NOW_MS,
        )

    def add(self, producer: RawProducer, partition: int) -> None:
        producer.add(self.topic, *self.rng.choice(((0,), (1,), (0, 1), (0, 7))), version=self.rng.choice((1, 3)))

    def ask_as_a_broker(self, producer: RawProducer, partition: int) -> None:
        kind = AddPartitionsToTxnRequest
        one = kind.AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id or "",
            producer_id=producer.producer_id,
            producer_epoch=self.epoch_near(producer),
            verify_only=self.rng.random() < 0.6,
            topics=[kind.AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        self.ask(kind(transactions=[one]), 5)

    def end_it(self, producer: RawProducer, partition: int) -> None:
        producer.end(commit=self.rng.random() < 0.5)

    def end_something_else(self, producer: RawProducer, partition: int) -> None:
        version, epoch = self.rng.choice((1, 3, 4, 5)), self.epoch_near(producer)
        producer.end(commit=self.rng.random() < 0.5, version=version, producer_epoch=epoch)

    def commit_offset(self, producer: RawProducer, partition: int) -> None:
        place = {(self.topic, partition): self.rng.randrange(100)}
        producer.commit_offsets(self.group, place, version=self.rng.choice((None, None, 3, 4, 5)))

    def add_offsets(self, producer: RawProducer, partition: int) -> None:
        producer.add_offsets(self.group, version=self.rng.choice((1, 3)))

    def start_a_rival(self, producer: RawProducer, partition: int) -> None:
        self._start(producer.transactional_id, transaction_timeout_ms=self.rng.choice((0, 60_000, 900_000, 900_001)))

    def come_back(self, producer: RawProducer, partition: int) -> None:
        producer.init(
            producer_id=producer.producer_id,
            producer_epoch=self.epoch_near(producer),
            version=self.rng.choice((3, 4, 5)),
        )

    def mark_it(self, producer: RawProducer, partition: int) -> None:
        # With a later epoch of producer or coordinator, markers of the real coordinator would be refused indefinitely.
        version = self.rng.choice((0, 1, 2))
        producer.mark((self.topic, partition), commit=self.rng.random() < 0.5, transaction_version=version)

    def delete_records(self, producer: RawProducer, partition: int) -> None:
        kind = DeleteRecordsRequest
        one = kind.DeleteRecordsPartition(partition_index=partition, offset=self.rng.choice((-1, 1, 2, 3, 5, 8)))
        self.ask(kind(topics=[kind.DeleteRecordsTopic(name=self.topic, partitions=[one])], timeout_ms=10_000), 2)

    def delete_group(self, producer: RawProducer, partition: int) -> None:
        self.ask(DeleteGroupsRequest(groups_names=[self.group]), 2)

    def delete_offset(self, producer: RawProducer, partition: int) -> None:
        kind = OffsetDeleteRequest
        one = kind.OffsetDeleteRequestPartition(partition_index=partition)
        topic = kind.OffsetDeleteRequestTopic(name=self.topic, partitions=[one])
        self.ask(kind(group_id=self.group, topics=[topic]), 0)

    def commit_offset_of_no_transaction(self, producer: RawProducer, partition: int) -> None:
        kind = OffsetCommitRequest
        one = kind.OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.rng.randrange(100))
        topic = kind.OffsetCommitRequestTopic(name=self.topic, partitions=[one])
        self.ask(kind(group_id=self.group, generation_id_or_member_epoch=-1, topics=[topic]), 8)

    def read_somewhere(self, producer: RawProducer, partition: int) -> None:
        self.read(committed=self.rng.random() < 0.8, offset=self.rng.randrange(12), partition=partition)

    def look_up(self, producer: RawProducer, partition: int) -> None:
        """An offset by one of the times that have a meaning; it is compared without that of a marker."""
        kind = ListOffsetsRequest
        one = kind.ListOffsetsPartition(partition_index=partition, timestamp=self.rng.choice(SPECIAL_TIMES))
        wanted = kind.ListOffsetsTopic(name=self.topic, partitions=[one])
        request = kind(replica_id=-1, isolation_level=self.rng.randrange(2), topics=[wanted])
        [found] = self._main.ask(request, 9).topics[0].partitions
        self.answers.append(f"at {one.timestamp}: {found.error_code}, {found.offset}")

    def list_ids(self, producer: RawProducer, partition: int) -> None:
        request = ListTransactionsRequest(
            state_filters=self.rng.choice(([], ["Ongoing"], ["Empty", "Unknown"])),
            transactional_id_pattern=f"{self.ids[0][:-3]}.*",
            duration_filter=self.rng.choice((-1, 0, 100_000_000)),
        )
        self.ask(request, 2)


STEPS_BY_WEIGHT: dict[Callable[[ChancePlay, RawProducer, int], None], int] = {
    ChancePlay.send: 10,
    ChancePlay.send_something_else: 3,
    ChancePlay.add: 5,
    ChancePlay.ask_as_a_broker: 2,
    ChancePlay.end_it: 6,
    ChancePlay.end_something_else: 2,
    ChancePlay.commit_offset: 5,
    ChancePlay.add_offsets: 2,
    ChancePlay.start_a_rival: 2,
    ChancePlay.come_back: 2,
    ChancePlay.mark_it: 1,
    ChancePlay.delete_records: 2,
    ChancePlay.delete_group: 1,
    ChancePlay.delete_offset: 1,
    ChancePlay.commit_offset_of_no_transaction: 2,
    ChancePlay.read_somewhere: 3,
    ChancePlay.look_up: 2,
    ChancePlay.list_ids: 1,
}


@pytest.fixture(scope="module")
def both(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with two_coordinators(tmp_path_factory.mktemp("chances")) as pair:
        yield pair


def _play(seed: int, at: TransactionPlay) -> None:
    assert isinstance(at, ChancePlay)
    at.play(seed)


@pytest.mark.timeout(GUARD + 10 * PLAYS)
def test_chance_finds_no_difference(both: tuple[str, str], rng: random.Random) -> None:
    for _ in range(PLAYS):
        seed = rng.randrange(2**32)
        different = differences(both, f"s{seed}", partial(_play, seed), ChancePlay)
        assert not different, f"seed {seed}\n" + "\n".join(different[:3])
