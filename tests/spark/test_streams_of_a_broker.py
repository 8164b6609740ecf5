"""Micro-batches of topics that are on a broker, without Spark: what comes, goes, and is held back by a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kclient import Admin, NewPartitions, NewTopic, Producer, TopicPartition
from kclient.spark import micro_batches, ranges, watermark
from kclient.spark.consumers import close_idle
from kclient.spark.errors import DataLossError
from kclient.spark.micro_batches import MicroBatches
from kclient.spark.offsets import from_json
from kclient.spark.options import ReadOptions
from kclient.spark.tasks import read_task
from refbroker.testing import RefBroker
from tests.support.waiting import wait_until

pytest.importorskip("pyarrow")


class Query:
    """Goes from one micro-batch to the next, as Spark does."""

    def __init__(
        self, servers: str, offsets: Any = None, isolation: str = "read_uncommitted", **options: object
    ) -> None:
        every = {"kafka.bootstrap.servers": servers, "kafka.isolation.level": isolation, **options}
        self._options = ReadOptions.parse({name: str(value) for name, value in every.items()}).for_stream()
        self.batches = MicroBatches(self._options)
        self.offsets = self.batches.initial() if offsets is None else offsets

    def next(self, most: int | None = None) -> list[bytes] | None:
        """The values of the next micro-batch, or None."""
        end = self.batches.latest(self.offsets, most)
        if end == self.offsets:
            return None
        start, self.offsets = self.offsets, end
        return list(self.values(start, end))

    def values(self, start: Any, end: Any) -> Iterator[bytes]:
        """Those of a micro-batch, planned at once and read with the first of them."""
        tasks = self.batches.tasks(start, end)
        return (
            value
            for task in tasks
            for batch in read_task(self._options, task)
            for value in batch.column("value").to_pylist()
        )

    def read(self, count: int) -> list[bytes]:
        """Until there are so many values."""
        values: list[bytes] = []

        def more() -> bool:
            values.extend(self.next() or [])
            return len(values) >= count

        wait_until(more)
        return values


@pytest.fixture
def open_query(bootstrap_servers: str) -> Iterator[Callable[..., Query]]:
    opened: list[Query] = []

    def make(offsets: Any = None, **options: Any) -> Query:
        opened.append(Query(bootstrap_servers, offsets, **options))
        return opened[-1]

    yield make
    for query in opened:
        query.batches.stop()
    close_idle()


def send(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    for value in values:
        producer.send(topic, value, partition=partition)
    producer.flush()


def test_records_partitions_and_topics_that_come_are_read(
    open_query: Callable[..., Query], make_topic: Callable[..., str], producer: Producer, admin: Admin
) -> None:
    topic = make_topic()
    query = open_query(subscribePattern=f"{topic}.*", startingOffsets="latest")
    assert query.next() == []
    send(producer, topic, b"a")
    assert query.read(1) == [b"a"]
    admin.create_partitions({topic: NewPartitions(2)})
    admin.create_topics([NewTopic(f"{topic}-2", num_partitions=1)])
    send(producer, topic, b"b", partition=1)
    send(producer, f"{topic}-2", b"c")
    assert sorted(query.read(2)) == [b"b", b"c"]


def test_a_deleted_topic_is_a_loss_and_one_of_its_name_is_read_from_its_start(
    open_query: Callable[..., Query],
    make_topic: Callable[..., str],
    producer: Producer,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "BETWEEN", 0.05)
    topic = make_topic()
    send(producer, topic, b"a", b"b")
    options = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest"}
    query = open_query(**options)
    assert query.next() == [b"a", b"b"]
    admin.delete_topics([topic])
    lenient = open_query(query.offsets, **options, failOnDataLoss=False)
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 2 and later ones"):
        wait_until(lambda: query.next() is not None)
    wait_until(lambda: lenient.next() == [])
    assert lenient.offsets == {}
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    send(producer, topic, b"c")
    assert lenient.read(1) == [b"c"]


def test_a_topic_that_was_created_again_meanwhile_and_is_shorter_is_a_loss(
    open_query: Callable[..., Query], make_topic: Callable[..., str], producer: Producer
) -> None:
    topic = make_topic()
    send(producer, topic, b"a")
    offsets = {topic: {"0": 3}}
    with pytest.raises(DataLossError, match=f"{topic}-0: offsets 1 to 2 .*now has offset 0"):
        open_query(offsets, subscribe=topic).next()
    lenient = open_query(offsets, subscribe=topic, failOnDataLoss=False)
    assert lenient.next() == []
    send(producer, topic, b"b")
    assert lenient.read(1) == [b"b"]


def test_an_open_transaction_holds_back_what_is_read_committed(
    open_query: Callable[..., Query], make_topic: Callable[..., str], producer: Producer, bootstrap_servers: str
) -> None:
    topic = make_topic()
    query = open_query(subscribe=topic, startingOffsets="earliest", isolation="read_committed")
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as transactional:
        transactional.init_transactions()
        transactional.begin_transaction()
        send(transactional, topic, b"a")
        send(producer, topic, b"b")
        assert query.next() is None
        transactional.abort_transaction()
    assert query.read(1) == [b"b"]


def test_a_topic_that_was_created_again_meanwhile_and_is_longer_is_a_loss(
    open_query: Callable[..., Query],
    make_topic: Callable[..., str],
    producer: Producer,
    admin: Admin,
    bootstrap_servers: str,
) -> None:
    topic = make_topic()
    send(producer, topic, b"a", b"b")
    query = open_query(subscribe=topic, startingOffsets="earliest")
    assert query.next() == [b"a", b"b"]
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics())
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    with Producer(bootstrap_servers=bootstrap_servers) as another:
        send(another, topic, b"c", b"d", b"e", b"f")
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 2 and later ones"):
        open_query(query.offsets, subscribe=topic).next()
    lenient = open_query(query.offsets, subscribe=topic, failOnDataLoss=False)
    assert lenient.read(4) == [b"c", b"d", b"e", b"f"]
    assert open_query(lenient.offsets, subscribe=topic).next() is None


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("what", [{"subscribe": "t"}, {"subscribePattern": "t.*"}, {"assign": '{"t": [0]}'}])
def test_a_topic_that_a_broker_does_not_know_of_for_a_moment_is_read_once(
    monkeypatch: pytest.MonkeyPatch, strict: bool, what: dict[str, str]
) -> None:
    monkeypatch.setattr(ranges, "BETWEEN", 0.05)
    monkeypatch.setattr(watermark, "DISCOVERY", 0.0)
    with RefBroker() as kafka, Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        send(producer, "t", b"a", b"b")
        query = Query(kafka.bootstrap_servers, startingOffsets="earliest", failOnDataLoss=strict, **what)
        assert query.next() == [b"a", b"b"]
        fault = kafka.faults.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="t", count=2)
        wait_until(lambda: query.next() is not None or fault.fired == 2)
        assert from_json(query.offsets) == {TopicPartition("t", 0): 2}
        send(producer, "t", b"c")
        assert query.read(1) == [b"c"]
        query.batches.stop()
        # Those that are left would look for this broker, and report it, during other tests.
        close_idle()


@pytest.mark.parametrize("strict", [True, False])
def test_a_query_that_read_uncommitted_waits_for_an_open_transaction(
    open_query: Callable[..., Query],
    make_topic: Callable[..., str],
    producer: Producer,
    bootstrap_servers: str,
    strict: bool,
) -> None:
    topic = make_topic()
    options: dict[str, Any] = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": strict}
    before = open_query(**options)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as transactional:
        transactional.init_transactions()
        transactional.begin_transaction()
        send(transactional, topic, b"a")
        send(producer, topic, b"b")
        assert before.next() == [b"a", b"b"]
        after = open_query(before.offsets, isolation="read_committed", **options)
        assert after.next() is None
        assert after.offsets == before.offsets
        transactional.abort_transaction()
    send(producer, topic, b"c")
    assert after.read(1) == [b"c"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_micro_batch_that_was_planned_beyond_an_open_transaction_waits_for_its_end(
    open_query: Callable[..., Query],
    make_topic: Callable[..., str],
    producer: Producer,
    bootstrap_servers: str,
    strict: bool,
) -> None:
    topic = make_topic()
    options: dict[str, Any] = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": strict}
    query = open_query(isolation="read_committed", **options)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as transactional:
        transactional.init_transactions()
        transactional.begin_transaction()
        send(transactional, topic, b"a")
        send(producer, topic, b"b", b"c")
        values = query.values({topic: {"0": 1}}, {topic: {"0": 3}})
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(lambda: list(values))
            send(producer, topic, b"d")
            assert not found.done()
            transactional.commit_transaction()
            assert found.result(20) == [b"b", b"c"]


def test_kafka_sees_how_far_a_query_is(
    open_query: Callable[..., Query],
    make_topic: Callable[..., str],
    producer: Producer,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first group of a broker may take it long.
    monkeypatch.setattr(micro_batches, "COMMIT_SECONDS", 30.0)
    topic = make_topic()
    send(producer, topic, b"a", b"b")
    query = open_query(subscribe=topic, startingOffsets="earliest", commitOffsetsToGroup=topic)
    assert query.next() == [b"a", b"b"]
    assert query.next() is None
    (committed,) = admin.list_group_offsets(topic)[topic].items()
    assert committed[0] == TopicPartition(topic, 0)
    assert committed[1] is not None
    assert committed[1].offset == 2
    again = open_query(subscribe=topic, startingOffsets="committed", commitOffsetsToGroup=topic)
    send(producer, topic, b"c")
    assert again.next() == []
    assert again.read(1) == [b"c"]
