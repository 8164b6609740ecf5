"""Sending Arrow data, both faces, against a broker: every row arrives once, in order, and failures name their rows."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kclient import Admin, AsyncProducer, Consumer, NewTopic, Producer
from kclient.errors import (
    BufferExhaustedError,
    DeliveryError,
    IllegalStateError,
    RecordNotAcceptedError,
    RecordTooLargeError,
    RowsDeliveryError,
    UnknownTopicOrPartitionError,
)
from kclient.producer import RoundRobinPartitioner, partition_for_key
from kclient.types import TopicPartition
from tests.support.patience import ANSWER
from tests.support.reading import read

pyarrow = pytest.importorskip("pyarrow")


def create(admin: Admin, topic: str, partitions: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1, configs=settings)])


def numbered(count: int, start: int = 0) -> Any:
    return pyarrow.table({"value": pyarrow.array([b"%d" % number for number in range(start, start + count)])})


def read_topic(bootstrap_servers: str, topic: str, count: int, **options: Any) -> list[Any]:
    """So many records of a topic, in the order of each partition."""
    options = {"bootstrap_servers": bootstrap_servers, "auto_offset_reset": "earliest", **options}
    with Consumer(topic, **options) as consumer:
        return read(consumer, count)


def test_rows_come_back_as_records(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 3)
    headers = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    table = pyarrow.table(
        {
            "body": pyarrow.array(["one", None, "three"]),
            "id": pyarrow.array([b"a", b"b", None], pyarrow.binary()),
            "tags": pyarrow.array([[("h", b"1"), ("n", None)], None, []], headers),
            "to": pyarrow.array([None, 2, 1], pyarrow.int32()),
            "at": pyarrow.array([1, 2, 3], pyarrow.timestamp("ms")),
        }
    )
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        future = producer.send_arrow(
            topic, table, value="body", key="id", headers="tags", partition="to", timestamp="at"
        )
        future.result(ANSWER)
        assert len(future) == 3
    found = {record.timestamp: record for record in read_topic(bootstrap_servers, topic, 3)}
    assert [(r.value, r.key, r.headers, r.partition) for _, r in sorted(found.items())] == [
        (b"one", b"a", (("h", b"1"), ("n", None)), partition_for_key(b"a", 3)),
        (None, b"b", (), 2),
        (b"three", None, (), 1),
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_more_than_the_buffer_holds_arrives_in_order(
    bootstrap_servers: str, topic: str, admin: Admin, codec: str
) -> None:
    create(admin, topic)
    count = 20_000
    with Producer(
        bootstrap_servers=bootstrap_servers, buffer_memory=100_000, batch_size=20_000, compression_type=codec
    ) as producer:
        producer.send_arrow(topic, numbered(count)).result(ANSWER)
        assert producer.metrics()["buffer_available_bytes"] == 100_000
    records = read_topic(bootstrap_servers, topic, count)
    assert [record.value for record in records] == [b"%d" % number for number in range(count)]


def test_what_was_read_as_columns_can_be_sent_again(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 2)
    create(admin, f"{topic}-copy", 2)
    with (
        Producer(bootstrap_servers=bootstrap_servers) as producer,
        Consumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        producer.send_arrow(topic, numbered(1000), key="value").result(ANSWER)
        taken = 0
        while taken < 1000:
            batch = consumer.poll(timeout=ANSWER).to_arrow()
            taken += len(batch)
            producer.send_arrow(
                f"{topic}-copy", batch, key="key", headers="headers", partition="partition", timestamp="timestamp"
            ).result(ANSWER)

    def sorted_records(name: str) -> list[Any]:
        return sorted((r.partition, r.offset, r.key, r.timestamp) for r in read_topic(bootstrap_servers, name, 1000))

    assert sorted_records(f"{topic}-copy") == sorted_records(topic)


def test_a_column_says_which_topic(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    for name in names:
        create(admin, name)
    table = numbered(300).append_column("where", pyarrow.array([names[number % 3] for number in range(300)]))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send_arrow(None, table, topic_column="where").result(ANSWER)
        with pytest.raises(TypeError, match="takes a topic, or the name of a column"):
            producer.send_arrow(topic, table, topic_column="where")
        with pytest.raises(TypeError, match="takes a topic, or the name of a column"):
            producer.send_arrow(None, table)
    for start, name in enumerate(names):
        values = [record.value for record in read_topic(bootstrap_servers, name, 100)]
        assert values == [b"%d" % number for number in range(start, 300, 3)]


def test_threads_share_batches_and_lose_nothing(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 2)
    with Producer(bootstrap_servers=bootstrap_servers, buffer_memory=200_000, batch_size=10_000) as producer:

        def run(thread: int) -> None:
            producer.send_arrow(topic, numbered(5000, thread * 5000)).result(ANSWER)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for number in range(5000):
            producer.send(topic, b"%d" % (15_000 + number))
        for thread in threads:
            thread.join()
    values = [int(record.value) for record in read_topic(bootstrap_servers, topic, 20_000)]
    assert sorted(values) == list(range(20_000))


def test_failed_rows_are_named_and_the_others_arrive(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    """Too large for the broker: the batch is split, and those that are too large alone fail alone."""
    create(admin, topic, max_message_bytes="2000")
    sizes = [3000 if number in (2, 7) else 10 for number in range(10)]
    table = pyarrow.table({"value": pyarrow.array([bytes([65 + n]) * size for n, size in enumerate(sizes)])})
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=50) as producer:
        future = producer.send_arrow(topic, table)
        with pytest.raises(
            RowsDeliveryError, match="2 of 10 rows could not be delivered; the first is row 2: "
        ) as raised:
            future.result(ANSWER)
        assert list(raised.value.failures) == [2, 7]
        assert all(isinstance(error, RecordTooLargeError) for error in raised.value.failures.values())
        assert list(future.failures()) == [2, 7]
        assert future.done()
    records = read_topic(bootstrap_servers, topic, 8)
    assert [record.value[:1] for record in records] == [b"A", b"B", b"D", b"E", b"F", b"G", b"I", b"J"]


def test_failures_that_nobody_looked_at_are_raised_by_flush(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, max_message_bytes="1000")
    table = pyarrow.table({"value": pyarrow.array([b"x" * 2000] * 3)})
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send_arrow(topic, table)
        with pytest.raises(DeliveryError, match="3 records could not be delivered"):
            producer.flush(ANSWER)
        producer.send_arrow(topic, numbered(1)).result(ANSWER)


@pytest.mark.parametrize("option", ["max_request_size", "buffer_memory"])
def test_a_row_that_can_never_be_sent_is_named_and_nothing_is_sent(
    bootstrap_servers: str, topic: str, option: str
) -> None:
    table = pyarrow.table({"value": pyarrow.array([b"x", b"x" * 5000, b"x" * 4000])})
    options: Any = {option: 2000}
    with Producer(bootstrap_servers=bootstrap_servers, **options) as producer:
        with pytest.raises(RecordTooLargeError, match=f"row 1 takes 5097 bytes, .* more than {option}"):
            producer.send_arrow(topic, table)
        assert producer.metrics()["buffer_available_bytes"] == producer.metrics()["buffer_total_bytes"]


def test_a_row_for_an_unknown_partition_is_named(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    table = numbered(3).append_column("p", pyarrow.array([0, 0, 5]))
    with Producer(bootstrap_servers=bootstrap_servers, max_block_ms=5000) as producer:
        with pytest.raises(UnknownTopicOrPartitionError) as raised:
            producer.send_arrow(topic, table, partition="p")
        assert raised.value.__notes__ == ["this was row 2 of 3; those before it are sent"]
    assert [record.value for record in read_topic(bootstrap_servers, topic, 2)] == [b"0", b"1"]


@pytest.mark.refbroker_only
def test_a_buffer_that_stays_full_is_an_error_in_time(broker: Any, topic: str, admin: Admin) -> None:
    create(admin, topic)
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, buffer_memory=20_000, batch_size=5000, max_block_ms=300
    ) as producer:
        producer.send_arrow(topic, numbered(1)).result(ANSWER)
        with broker.faults.delay("Produce", seconds=1.5), pytest.raises(BufferExhaustedError) as raised:
            producer.send_arrow(topic, numbered(5000))
        (note,) = raised.value.__notes__
        assert "of 5000; those before it are sent" in note


def test_a_topic_that_does_not_come_is_an_error_in_time() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=100) as producer:
        with pytest.raises(RecordNotAcceptedError) as raised:
            producer.send_arrow("t", numbered(2))
        assert raised.value.__notes__ == ["this was row 0 of 2; those before it are sent"]


def test_rows_belong_to_the_transaction_they_were_sent_in(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        with pytest.raises(IllegalStateError):
            producer.send_arrow(topic, numbered(1))
        producer.init_transactions(ANSWER)
        with pytest.raises(IllegalStateError):
            producer.send_arrow(topic, numbered(1))
        with producer.transaction():
            producer.send_arrow(topic, numbered(100))
        producer.begin_transaction()
        producer.send_arrow(topic, numbered(100, 100)).result(ANSWER)
        producer.abort_transaction(ANSWER)
        with producer.transaction():
            producer.send_arrow(topic, numbered(100, 200))
    records = read_topic(bootstrap_servers, topic, 200, isolation_level="read_committed")
    assert [int(record.value) for record in records] == [*range(100), *range(200, 300)]


def test_a_custom_partitioner_is_called_for_each_row(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 3)
    with Producer(bootstrap_servers=bootstrap_servers, partitioner=RoundRobinPartitioner()) as producer:
        producer.send_arrow(topic, numbered(30)).result(ANSWER)
    found: dict[int, list[int]] = {}
    for record in read_topic(bootstrap_servers, topic, 30):
        found.setdefault(record.partition, []).append(int(record.value))
    assert found == {partition: list(range(partition, 30, 3)) for partition in range(3)}


def test_arrow_tables_are_refused_with_interceptors(bootstrap_servers: str, topic: str) -> None:
    class Interceptor:
        def on_send(self, record: Any) -> Any:
            return record

    with (
        Producer(bootstrap_servers=bootstrap_servers, interceptors=[Interceptor()]) as producer,
        pytest.raises(IllegalStateError, match="interceptors see records one by one"),
    ):
        producer.send_arrow(topic, numbered(1))


def test_no_rows_and_what_is_no_data(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send_arrow(topic, numbered(0)).result(ANSWER)
        data: Any = [b"x"]
        with pytest.raises(TypeError, match="Arrow data, not list"):
            producer.send_arrow(topic, data)
        with pytest.raises(TypeError, match="a topic is a str"):
            producer.send_arrow(data, numbered(1))


@pytest.mark.anyio
async def test_rows_are_sent_and_awaited(bootstrap_servers: str, topic: str) -> None:
    count = 20_000
    async with AsyncProducer(bootstrap_servers=bootstrap_servers, buffer_memory=100_000, batch_size=20_000) as producer:
        future = await producer.send_arrow(topic, numbered(count), key="value")
        await future
        assert future.failures() == {}
    async with AsyncProducer(bootstrap_servers=bootstrap_servers, linger_ms=10_000) as producer:
        future = await producer.send_arrow(topic, numbered(10))
        assert not future.done()
        await producer.flush()
        assert future.done()
    assert len({record.value for record in read_topic(bootstrap_servers, topic, count + 10)}) == count


def test_offsets_follow_each_other(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send_arrow(topic, numbered(1000)).result(ANSWER)
        assert producer.send(topic, b"next").result(ANSWER).offset == 1000
    with Consumer(bootstrap_servers=bootstrap_servers) as consumer:
        partition = TopicPartition(topic, 0)
        assert consumer.end_offsets([partition]) == {partition: 1001}
