"""A data directory whose broker was killed in the middle of transactions, opened by the other: Apache Kafka, refbroker.

What is open continues or is aborted when its time is over, what is decided is completed, and meanwhile the last stable
offset stays where it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kclient import Admin, Consumer, ConsumerGroupMetadata, NewTopic, Producer, TopicPartition
from kclient.admin import OffsetSpec, TransactionState
from kclient.errors import KafkaError
from kclient.protocol.log_records import decode_versioned
from kclient.protocol.messages.records.transaction_state import TransactionLogValue
from kclient.records import RecordBatch, read_batches
from refbroker.coordinators.transactions.states import TransactionState as Stored
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.reading import read_up_to
from tests.support.waiting import wait_until

PLACE, GROUP = TopicPartition("paid", 0), "group"
SHORT_MS = 10_000
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
ORDERS = [("kafka", "refbroker"), ("refbroker", "kafka")]


pytestmark = pytest.mark.usefixtures("needs_kafka")


class Directory:
    """A data directory, and one address for the broker that uses it."""

    def __init__(self, folder: Path) -> None:
        self._kafka = KafkaCluster(directory=folder, config=SETTINGS)
        self.path = self._kafka.data_directory()
        self.path.parent.mkdir(parents=True)
        self.address = self._kafka.address(1)

    @contextmanager
    def owned_by(self, name: str) -> Iterator[Admin]:
        """Run one of the two, and kill it at the end."""
        with ExitStack() as stack:
            if name == "kafka":
                self._kafka.start(1)
                stack.callback(self._kafka.close)
                stack.callback(self._kafka.stop, 1, kill=True)
            else:
                port = int(self.address.rpartition(":")[2])
                process = BrokerProcess(self.path, port=port, settings=SETTINGS)
                process.__enter__()
                stack.callback(process.stop, kill=True)
            yield stack.enter_context(Admin(bootstrap_servers=self.address))

    def producer(self, name: str, timeout_ms: int = 600_000) -> Producer:
        """One that can wait for the next owner."""
        made = Producer(bootstrap_servers=self.address, transactional_id=name, transaction_timeout_ms=timeout_ms)
        made.init_transactions(CHANGE)
        return made

    def committed(self) -> list[bytes]:
        """What a reader of committed records gets, to the end of the partition."""
        with Consumer(
            bootstrap_servers=self.address, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([PLACE])
            return [record.value or b"" for record in read_up_to(consumer, consumer.end_offsets([PLACE]))]

    def cut(self, topic: str, is_first: Callable[[RecordBatch], bool]) -> int:
        """Cut the logs of a topic in front of a batch, as a crash does that loses what was written last; how many."""
        count = 0
        for log in self.path.glob(f"{topic}-*/*.log"):
            for batch in read_batches(log.read_bytes()):
                if is_first(batch):
                    with open(log, "r+b") as file:
                        file.truncate(batch.position)
                    count += 1
                    break
        return count


def ends(admin: Admin) -> tuple[int, int]:
    """The last stable offset, and the end of the log."""
    stable, end = (
        admin.list_offsets({PLACE: OffsetSpec.LATEST}, isolation_level=level)[PLACE].offset
        for level in ("read_committed", "read_uncommitted")
    )
    return stable, end


def wait_for_markers(admin: Admin) -> None:
    """They are written after the end of a transaction was answered; a reader of committed records ends before them."""
    wait_until(lambda: len(set(ends(admin))) == 1)


def state(admin: Admin, name: str) -> TransactionState:
    return admin.describe_transactions(name)[name].state


def write(producer: Producer, value: bytes, offset: int | None = None) -> None:
    """Send a record and wait for it, and commit an offset of the group if there is one."""
    producer.send(PLACE.topic, value, partition=0).result(CHANGE)
    if offset is not None:
        producer.send_offsets_to_transaction({PLACE: offset}, ConsumerGroupMetadata(GROUP), CHANGE)


def group_offset(admin: Admin) -> int | None:
    stored = admin.list_group_offsets({GROUP: [PLACE]}, require_stable=True)[GROUP][PLACE]
    return None if stored is None else stored.offset


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_what_is_open_continues_or_is_aborted_in_time(tmp_path: Path, first: str, second: str) -> None:
    directory = Directory(tmp_path)
    with directory.owned_by(first) as admin:
        admin.create_topics([NewTopic(PLACE.topic, num_partitions=1)])
        finished, long = directory.producer("finished"), directory.producer("long")
        short = directory.producer("short", SHORT_MS)
        with finished.transaction():
            write(finished, b"committed", 1)
        finished.begin_transaction()
        write(finished, b"aborted", 2)
        finished.abort_transaction()
        long.begin_transaction()
        write(long, b"first half")
        stable = ends(admin)[0]
        short.begin_transaction()
        write(short, b"too late", 3)
        assert state(admin, "short") is TransactionState.ONGOING
    with directory.owned_by(second) as admin, finished, long, short:
        wait_until(lambda: state(admin, "short") is TransactionState.COMPLETE_ABORT, CHANGE)
        # The other one still holds it where its transaction began.
        assert ends(admin)[0] == stable
        assert group_offset(admin) == 1
        assert directory.committed() == [b"committed"]
        write(long, b"second half", 4)
        assert state(admin, "long") is TransactionState.ONGOING
        long.commit_transaction(CHANGE)
        wait_for_markers(admin)
        assert group_offset(admin) == 4
        with finished.transaction():
            write(finished, b"committed later")
        wait_for_markers(admin)
        assert directory.committed() == [b"committed", b"first half", b"second half", b"committed later"]
        with pytest.raises(KafkaError):
            short.commit_transaction(CHANGE)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_what_is_decided_is_completed(tmp_path: Path, first: str, second: str, commit: bool) -> None:
    """Its decision is in the log, and of markers and completion nothing is left."""
    directory = Directory(tmp_path)
    outcome = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    with ExitStack() as stack:
        with directory.owned_by(first) as admin:
            admin.create_topics([NewTopic(PLACE.topic, num_partitions=1)])
            producer = stack.enter_context(directory.producer("id"))
            producer.begin_transaction()
            write(producer, b"decided", 5)
            producer.commit_transaction(CHANGE) if commit else producer.abort_transaction(CHANGE)
            wait_until(lambda: state(admin, "id") is outcome)

        def is_complete(batch: RecordBatch) -> bool:
            values = [decode_versioned(TransactionLogValue, record.value) for record in batch.records()]
            return any(value.transaction_status in (Stored.COMPLETE_COMMIT, Stored.COMPLETE_ABORT) for value in values)

        assert directory.cut("__transaction_state", is_complete) == 1
        for topic in (PLACE.topic, "__consumer_offsets"):
            assert directory.cut(topic, lambda batch: batch.is_control) == 1
        with directory.owned_by(second) as admin:
            wait_until(lambda: state(admin, "id") is outcome, CHANGE)
            if second == "kafka" and ends(admin) == (0, 1):
                pytest.skip(
                    "Kafka wrote no markers: where it has elected no leader yet it takes a partition for deleted"
                )
            assert ends(admin) == (2, 2)
            assert group_offset(admin) == (5 if commit else None)
            assert directory.committed() == [b"decided"] * commit
            with producer.transaction(CHANGE):
                write(producer, b"next")
            wait_for_markers(admin)
            assert directory.committed() == [b"decided"] * commit + [b"next"]
