"""The loop that transforms topics in transactions, with a broker: each record counts once, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import pytest

from kclient import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kclient.admin import TransactionState
from kclient.errors import ConfigError, ProducerFencedError, RecordTooLargeError, TransformError
from kclient.transform import AsyncTransform, Transform, transform
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.reading import committed_records
from tests.support.waiting import wait_until

PARTITIONS = 3


class Pipe:
    """A topic to read, one to write, and what is in them."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.source, self.target, self.group = f"{topic}-in", f"{topic}-out", f"group-{topic}"
        self.reads: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "group_id": self.group,
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 200,
        }
        with Admin(bootstrap_servers=bootstrap_servers) as admin:
            topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in self.both]
            admin.create_topics(topics)

    @property
    def both(self) -> tuple[str, str]:
        return self.source, self.target

    def writes(self, number: int = 0, **options: Any) -> dict[str, Any]:
        """The options of the producer of this process."""
        return {"bootstrap_servers": self.bootstrap_servers, "transactional_id": f"{self.group}-{number}", **options}

    def fill(self, first: int, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for number in range(first, first + count):
                producer.send(self.source, b"%d" % number, partition=number % PARTITIONS)

    def move(self, record: ConsumerRecord) -> ProducerRecord:
        """What the tests do with each record: the target's partitions have the same records in the same order."""
        return ProducerRecord(self.target, record.value, partition=record.partition)

    def out(self) -> list[int]:
        """Return the committed records, in the order of each partition, once no transaction is open."""
        return [int(record.value or b"-1") for record in committed_records(self.bootstrap_servers, self.target)]

    def expected(self, count: int) -> list[int]:
        return [number for partition in range(PARTITIONS) for number in range(partition, count, PARTITIONS)]

    def committed(self) -> dict[TopicPartition, int]:
        with Consumer(bootstrap_servers=self.bootstrap_servers, group_id=self.group) as consumer:
            found = consumer.committed([TopicPartition(self.source, number) for number in range(PARTITIONS)])
        return {tp: 0 if place is None else place.offset for tp, place in found.items()}

    def done(self, count: int) -> bool:
        return sum(self.committed().values()) >= count

    @contextmanager
    def running(
        self, number: int = 0, function: Any = None, *, reads: dict[str, Any] | None = None, **options: Any
    ) -> Iterator[Running]:
        """A loop in a thread of its own, as in a process of its own."""
        reads = {**self.reads, **(reads or {})}
        with Consumer(self.source, **reads) as consumer, Producer(**self.writes(number)) as producer:
            running = Running(Transform(consumer, producer, function or self.move, **options))
            try:
                yield running
            finally:
                running.end()


class Running:
    """A loop that runs, and how it ended."""

    def __init__(self, loop: Transform) -> None:
        self.loop = loop
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def end(self) -> None:
        self.loop.stop()
        self.thread.join(ANSWER)
        assert not self.thread.is_alive()


@pytest.fixture
def pipe(bootstrap_servers: str, topic: str) -> Pipe:
    """Two topics."""
    return Pipe(bootstrap_servers, topic)


def test_each_record_is_transformed_once(pipe: Pipe) -> None:
    pipe.fill(0, 3_000)
    with pipe.running(max_records=500) as running:
        wait_until(lambda: running.loop.metrics()["transform_records_in_total"] >= 3_000, ANSWER)
        pipe.fill(3_000, 300)
        wait_until(lambda: running.loop.metrics()["transform_records_in_total"] >= 3_300, ANSWER)
    assert running.error is None
    assert pipe.out() == pipe.expected(3_300)
    assert sum(pipe.committed().values()) == 3_300
    # Nothing is open; but only a while after its end was answered has a transaction all its markers.
    with Admin(bootstrap_servers=pipe.bootstrap_servers) as admin:
        name = f"{pipe.group}-0"
        wait_until(lambda: not admin.describe_transactions(name)[name].partitions, ANSWER)


@pytest.mark.anyio
async def test_the_async_twin_does_the_same(pipe: Pipe) -> None:
    pipe.fill(0, 500)
    async with AsyncConsumer(pipe.source, **pipe.reads) as consumer, AsyncProducer(**pipe.writes()) as producer:
        left = 500

        async def move(record: ConsumerRecord) -> list[ProducerRecord]:
            nonlocal left
            await anyio.lowlevel.checkpoint()
            left -= 1
            if not left:
                loop.stop()
            return [pipe.move(record)]

        loop = AsyncTransform(consumer, producer, move, max_records=120)
        await loop.run()
    assert pipe.out() == pipe.expected(500)
    assert loop.metrics()["transform_commit_total"] >= 5


@pytest.mark.anyio
async def test_a_cancelled_task_leaves_nothing_and_the_next_one_continues(pipe: Pipe) -> None:
    pipe.fill(0, 300)
    seen = 0

    async def cancel(record: ConsumerRecord) -> ProducerRecord:
        nonlocal seen
        seen += 1
        if seen == 150:
            tasks.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()
        return pipe.move(record)

    async with AsyncConsumer(pipe.source, **pipe.reads) as consumer, AsyncProducer(**pipe.writes()) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(AsyncTransform(consumer, producer, cancel, max_records=100).run)
        # Nothing is open, though the producer is; the markers are written after the abort was answered.
        with Admin(bootstrap_servers=pipe.bootstrap_servers) as admin:
            name = f"{pipe.group}-0"
            await anyio.to_thread.run_sync(
                wait_until, lambda: not admin.describe_transactions(name)[name].partitions, ANSWER
            )
        assert 0 < sum(pipe.committed().values()) == len(pipe.out()) < 150
    with pipe.running(0):
        await anyio.to_thread.run_sync(wait_until, lambda: pipe.done(300), ANSWER)
    assert pipe.out() == pipe.expected(300)


def test_two_processes_share_the_input_and_rebalances_cost_no_record(pipe: Pipe, group_protocol: str) -> None:
    if group_protocol == "consumer":
        del pipe.reads["session_timeout_ms"], pipe.reads["heartbeat_interval_ms"]
        pipe.reads["group_protocol"] = "consumer"
    limits: dict[str, Any] = {"max_records": 50, "max_seconds": 0.05}
    total = 0
    with pipe.running(0, **limits) as first:
        for number in range(1, 4):  # a second one comes and goes in the middle of batches
            with pipe.running(number, **limits) as second:
                until = clock.monotonic() + ANSWER
                while not second.loop.metrics()["transform_records_in_total"]:
                    assert clock.monotonic() < until, (first.error, second.error)
                    # No faster than they transform: what has piled up has to be done in time as well.
                    if pipe.done(total - 300):
                        pipe.fill(total, 60)
                        total += 60
            assert second.error is None
        wait_until(lambda: pipe.done(total), ANSWER)
    assert first.error is None
    assert pipe.out() == pipe.expected(total)


def test_a_member_that_was_slow_commits_nothing_that_another_one_has_read(pipe: Pipe) -> None:
    pipe.fill(0, 30)
    stuck, proceed = threading.Event(), threading.Event()

    def slow(record: ConsumerRecord) -> ProducerRecord:
        if not proceed.is_set() and record.offset == 5:
            stuck.set()
            assert proceed.wait(ANSWER)
        return pipe.move(record)

    with pipe.running(0, slow, reads={"max_poll_interval_ms": 2_000, "session_timeout_ms": 6_000}) as first:
        assert stuck.wait(ANSWER)
        # It is removed for lack of progress, and another member does the work.
        with pipe.running(1):
            wait_until(lambda: pipe.done(30), ANSWER)
        proceed.set()
        wait_until(lambda: first.loop.metrics()["transform_abort_total"] >= 1, ANSWER)
        pipe.fill(30, 30)
        wait_until(lambda: pipe.done(60), ANSWER)
    assert first.error is None
    assert pipe.out() == pipe.expected(60)


def test_a_rival_with_the_same_id_ends_the_loop_and_takes_over(pipe: Pipe) -> None:
    pipe.fill(0, 300)
    halfway, fenced = threading.Event(), threading.Event()

    def wait_for_the_rival(record: ConsumerRecord) -> ProducerRecord:
        if record.offset == 70:
            halfway.set()
            assert fenced.wait(ANSWER)
        return pipe.move(record)

    with pipe.running(0, wait_for_the_rival, max_records=20) as older:
        assert halfway.wait(ANSWER)
        with Producer(**pipe.writes(0)) as rival:
            rival.init_transactions()
        fenced.set()
        older.thread.join(ANSWER)
        assert isinstance(older.error, ProducerFencedError)
    with pipe.running(0):
        wait_until(lambda: pipe.done(300), ANSWER)
    assert pipe.out() == pipe.expected(300)


def poison(pipe: Pipe) -> Callable[[ConsumerRecord], ProducerRecord]:
    def move(record: ConsumerRecord) -> ProducerRecord:
        if record.value == b"17":
            raise ValueError("seventeen")
        return pipe.move(record)

    return move


def test_a_poison_record_ends_the_loop_before_it(pipe: Pipe) -> None:
    pipe.fill(0, 60)
    with (
        Consumer(pipe.source, **pipe.reads) as consumer,
        Producer(**pipe.writes()) as producer,
    ):
        with pytest.raises(TransformError, match="seventeen") as raised:
            transform(consumer, producer, poison(pipe), max_records=4)
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == (pipe.source, 17 % 3, 17 // 3)
        assert {tp: consumer.position(tp) for tp in consumer.assignment()} == pipe.committed()
        assert 17 not in pipe.out()
        # After the function is corrected, the same clients continue.
        seen = 60 - sum(pipe.committed().values())

        def repaired(record: ConsumerRecord) -> ProducerRecord:
            nonlocal seen
            seen -= 1
            if not seen:
                loop.stop()
            return pipe.move(record)

        loop = Transform(consumer, producer, repaired)
        loop.run()
    assert pipe.out() == pipe.expected(60)


def test_dead_letters_count_with_the_transaction(pipe: Pipe) -> None:
    pipe.fill(0, 60)

    def bury(record: ConsumerRecord, error: Exception) -> ProducerRecord:
        headers = [("error", str(error).encode())]
        return ProducerRecord(pipe.target, b"1700", partition=record.partition, headers=headers)

    with pipe.running(0, poison(pipe), on_error=bury) as running:
        wait_until(lambda: pipe.done(60), ANSWER)
    assert running.error is None
    assert pipe.out() == [1700 if number == 17 else number for number in pipe.expected(60)]


def test_a_result_that_is_too_large_to_be_sent_names_its_record(pipe: Pipe) -> None:
    pipe.fill(0, 3)
    with pipe.running(0, lambda record: ProducerRecord(pipe.target, bytes(1_100_000))) as running:
        running.thread.join(ANSWER)
    assert isinstance(running.error, TransformError)
    assert "max_request_size" in str(running.error)
    assert (pipe.out(), sum(pipe.committed().values())) == ([], 0)


def test_results_that_no_broker_takes_end_the_loop(pipe: Pipe) -> None:
    pipe.fill(0, 3)
    with Admin(bootstrap_servers=pipe.bootstrap_servers) as admin:
        small = NewTopic(
            f"{pipe.target}-small", num_partitions=1, replication_factor=1, configs={"max.message.bytes": "1000"}
        )
        admin.create_topics([small])
    with pipe.running(0, lambda record: ProducerRecord(small.name, bytes(2_000))) as running:
        running.thread.join(ANSWER)
    assert isinstance(running.error, RecordTooLargeError)
    assert running.error.abortable
    assert sum(pipe.committed().values()) == 0


def test_a_transaction_that_the_broker_aborted_is_repeated(pipe: Pipe) -> None:
    pipe.fill(0, 30)
    aborted = threading.Event()

    def move(record: ConsumerRecord) -> ProducerRecord:
        if not aborted.is_set() and record.offset == 5:
            wait_until(lambda: state() is TransactionState.COMPLETE_ABORT, ANSWER)
            aborted.set()
        return pipe.move(record)

    def state() -> TransactionState:
        return admin.describe_transactions(f"{pipe.group}-0")[f"{pipe.group}-0"].state

    with (
        Admin(bootstrap_servers=pipe.bootstrap_servers) as admin,
        Consumer(pipe.source, **pipe.reads) as consumer,
        Producer(**pipe.writes(transaction_timeout_ms=2_000)) as producer,
    ):
        running = Running(Transform(consumer, producer, move, max_records=100))
        wait_until(lambda: pipe.done(30) or running.error is not None, ANSWER)
        running.end()
    assert running.error is None
    assert running.loop.metrics()["transform_abort_total"] >= 1
    assert pipe.out() == pipe.expected(30)


@pytest.mark.refbroker_only
def test_it_survives_a_broker_that_is_killed_and_comes_back() -> None:
    with RefBroker() as broker:
        pipe = Pipe(broker.bootstrap_servers, "killed")
        pipe.fill(0, 900)
        with pipe.running(0, max_records=30) as running:
            for part in (1, 2):
                wait_until(lambda: running.loop.metrics()["transform_records_in_total"] >= 200 * part, ANSWER)  # noqa: B023
                broker.kill()
                broker.restart()
            wait_until(lambda: pipe.done(900), ANSWER)
        assert running.error is None
        assert pipe.out() == pipe.expected(900)


def test_partitions_that_are_assigned_by_hand_are_transformed_as_well(pipe: Pipe) -> None:
    pipe.fill(0, 30)
    with Consumer(**pipe.reads) as consumer, Producer(**pipe.writes()) as producer:
        consumer.assign([TopicPartition(pipe.source, 1)])
        running = Running(Transform(consumer, producer, pipe.move))
        wait_until(lambda: pipe.done(10), ANSWER)
        running.end()
    assert running.error is None
    assert pipe.out() == list(range(1, 30, 3))


def test_clients_that_do_not_fit_are_refused(pipe: Pipe) -> None:
    with ExitStack() as stack:
        fits = stack.enter_context(Consumer(pipe.source, **pipe.reads))
        for wrong in ({"group_id": None}, {"enable_auto_commit": True}, {"isolation_level": "read_uncommitted"}):
            options = {**pipe.reads, **wrong}
            if options["group_id"] is None:
                options = {"bootstrap_servers": pipe.bootstrap_servers}
            consumer = stack.enter_context(Consumer(pipe.source, **options))
            producer = stack.enter_context(Producer(**pipe.writes()))
            with pytest.raises(ConfigError, match="transform needs"):
                Transform(consumer, producer, pipe.move)
        with pytest.raises(ConfigError, match="transactional_id"):
            Transform(fits, stack.enter_context(Producer(bootstrap_servers=pipe.bootstrap_servers)), pipe.move)
        with pytest.raises(TypeError, match="AsyncTransform an AsyncConsumer"):
            AsyncTransform(fits, producer, pipe.move)  # type: ignore[arg-type]
