"""Transactional producers at a broker, and what is in its partitions then; to compare Apache Kafka and refbroker.

Producer ids are compared by when they were given out, times not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from kclient.protocol import Message
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.describe_producers import DescribeProducersRequest
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.records import parse_control_record, read_batches
from tests.interop.plays import Play, two_brokers
from tests.support.patience import CHANGE
from tests.support.raw_producer import NOTHING, RawProducer
from tests.support.typed import must
from tests.support.waiting import wait_until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TIMES = {"last_timestamp", "transaction_start_time_ms", "log_append_time_ms"}
CONCURRENT_TRANSACTIONS = 51
TRANSACTION = 1
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD = 53, 87
EXPLAINED = {TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD}
UNDECIDED = {"PrepareCommit", "PrepareAbort"}


class TransactionPlay(Play):
    """Producers at one broker, with a topic of two partitions of their own."""

    def __init__(self, bootstrap_servers: str, name: str, stack: ExitStack) -> None:
        super().__init__(bootstrap_servers, f"group-{name}", stack)
        self.topic = f"topic-{name}"
        self._name = name
        self._producers: dict[int, str] = {NOTHING: "none"}
        made = CreateTopicsRequest.CreatableTopic(name=self.topic, num_partitions=2, replication_factor=1)
        answer = self._main.ask(CreateTopicsRequest(topics=[made], timeout_ms=30_000), 7)
        assert answer.topics[0].error_code == 0
        wait_until(lambda: all(self.ends(number)[0].error_code == 0 for number in (0, 1)))

    def reported(self, answer: Any) -> str:
        return f"{type(answer).__qualname__} {self._plain(answer)}"

    def _plain(self, message: Any) -> str:
        def simplify(key: str, value: Any) -> Any:
            if isinstance(value, dict):
                if value.get("error_code") in EXPLAINED:
                    value = {**value, "error_message": None, "log_start_offset": -1}
                return {name: simplify(name, each) for name, each in value.items()}
            if isinstance(value, list | tuple):
                return sorted((simplify(key, each) for each in value), key=repr)
            if key in TIMES:
                return 0
            return self.producer(value) if key == "producer_id" else value

        return self.named(repr(simplify("", msgspec.to_builtins(message, builtin_types=(bytes,)))))

    def producer(self, producer_id: int) -> str:
        """A producer by when its id was given out."""
        return self._producers.setdefault(producer_id, f"producer {len(self._producers)}")

    def ask(self, request: Message, version: int) -> Any:
        """Ask again while the transaction before is being completed."""
        answers: list[Any] = []

        def decided() -> bool:
            answers.append(self._main.ask(request, version))
            return f"error_code={CONCURRENT_TRANSACTIONS}" not in repr(answers[-1])

        wait_until(decided)
        return self.note(answers[-1])

    def ask_quietly(self, request: Message, version: int) -> Any:
        """What is answered need not be the same."""
        return self._main.ask(request, version)

    def new(self, name: str = "", *, transactions: int = 2, idempotent: bool = False) -> RawProducer:
        """A producer with its identity."""
        transactional_id = None if idempotent else f"{self._name}{name}"
        made = RawProducer(self.ask, transactional_id, transactions=transactions)
        assert made.init().error_code == 0
        return made

    def settle(self, producer: RawProducer) -> None:
        """Wait until the last transaction of a producer is complete."""
        wait_until(lambda: self.state(producer) not in UNDECIDED)

    def state(self, producer: RawProducer) -> str:
        """Of its last transaction."""
        request = DescribeTransactionsRequest(transactional_ids=[must(producer.transactional_id)])
        [transaction] = self._main.ask(request, 0).transaction_states
        return str(transaction.transaction_state)

    def end_transaction(self, producer: RawProducer, **fields: Any) -> Any:
        answer = producer.end(**fields)
        self.settle(producer)
        return answer

    # What there is then

    def offsets(self, partition: int = 0) -> None:
        """Where the partition ends, for readers of both kinds."""
        for end in self.ends(partition):
            self.note(end)

    def ends(self, partition: int) -> list[Any]:
        """The answers for readers of both kinds."""
        one = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)
        wanted = ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[one])
        requests = [
            ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted]) for isolation in (0, 1)
        ]
        return [self._main.ask(request, 7).topics[0].partitions[0] for request in requests]

    def producers(self) -> None:
        wanted = DescribeProducersRequest.TopicRequest(name=self.topic, partition_indexes=[0, 1])
        self.ask(DescribeProducersRequest(topics=[wanted]), 0)

    def read(self, *, committed: bool, offset: int = 0, partition: int = 0) -> None:
        """Return the batches that a reader gets, and the aborted transactions in the response."""
        one = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        wanted = FetchRequest.FetchTopic(topic=self.topic, partitions=[one])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, isolation_level=int(committed), topics=[wanted])
        [part] = self._main.ask(request, 11).responses[0].partitions
        aborted = sorted((self.producer(one.producer_id), one.first_offset) for one in part.aborted_transactions or ())
        self.answers.append(
            f"read {part.error_code} up to {part.last_stable_offset} of {part.high_watermark}, {aborted}"
        )
        for batch in read_batches(bytes(part.records)):
            what = [record.value for record in batch.records()]
            if batch.is_control:
                what = [parse_control_record(record) for record in batch.records()]
            self.answers.append(
                f"{batch.base_offset}: {self.producer(batch.producer_id)} epoch {batch.producer_epoch} from "
                f"{batch.base_sequence}, {batch.is_transactional} {batch.is_control} {what}"
            )

    def committed(self) -> None:
        """The offsets of the group, for those who wait for transactions and those who do not."""
        one = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=None)
        for stable in (False, True):
            self.ask(OffsetFetchRequest(groups=[one], require_stable=stable), 8)
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1])
        one = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        self.ask(OffsetFetchRequest(groups=[one], require_stable=True), 8)


@contextmanager
def two_coordinators(folder: Path) -> Iterator[tuple[str, str]]:
    """Apache Kafka and refbroker, ready for transactions."""
    with two_brokers(folder, SETTINGS) as pair:
        for bootstrap_servers in pair:
            with ExitStack() as stack:
                play = Play(bootstrap_servers, "g", stack)

                def ready(play: Play = play) -> bool:
                    found = play.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["t"]), 4)
                    return found.coordinators[0].error_code == 0 and not RawProducer(play.ask, "t").init().error_code

                wait_until(ready, CHANGE)
        yield pair


def differences(
    pair: tuple[str, str],
    name: str,
    play: Callable[[TransactionPlay], None],
    kind: type[TransactionPlay] = TransactionPlay,
) -> list[str]:
    """What the two have answered that is not the same, as texts."""
    heard = []
    for bootstrap_servers in pair:
        with ExitStack() as stack:
            one = kind(bootstrap_servers, name, stack)
            play(one)
            heard.append(one.answers)
    return [
        f"step {number}\n  kafka     {kafka}\n  refbroker {refbroker}"
        for number, (kafka, refbroker) in enumerate(zip_longest(*heard))
        if kafka != refbroker
    ]
