"""What the tasks of a batch read, against what the consumer itself reads; on a broker, and without Spark."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kclient.errors import UnknownTopicOrPartitionError
from kclient.spark import tasks
from kclient.spark.consumers import borrow, close_idle
from kclient.spark.errors import DataLossError, OptionError, SourceError
from kclient.spark.options import ReadOptions
from kclient.spark.planning import Task, plan
from kclient.spark.ranges import batch_ranges
from kclient.spark.schema import COLUMNS, arrow_schema
from kclient.spark.tasks import read_task
from tests.spark.conftest import fill
from tests.support.logs import spark_messages
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

pytest.importorskip("pyarrow")

Consume = Callable[..., list[Any]]
MakeTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_idle_consumers() -> Iterator[None]:
    yield
    close_idle()


class Reader:
    """Reads batches in this process, as a driver and its executors would."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def options(self, dotted: dict[str, str] | None = None, **options: object) -> ReadOptions:
        every = {"kafka.bootstrap.servers": self._servers, **(dotted or {}), **options}
        return ReadOptions.parse({name: str(value) for name, value in every.items()}).for_batch()

    def plan(self, options: ReadOptions) -> list[Task]:
        with borrow(options) as consumer:
            return plan(batch_ranges(consumer, options), options.min_partitions, options.max_records_per_partition)

    def rows(self, dotted: dict[str, str] | None = None, **options: object) -> list[dict[str, Any]]:
        """All rows, ordered by partition and offset where these are columns."""
        parsed = self.options(dotted, **options)
        found: list[dict[str, Any]] = []
        for task in self.plan(parsed):
            for batch in read_task(parsed, task):
                assert batch.schema.equals(arrow_schema(parsed.columns), check_metadata=True)
                assert batch.num_rows
                found += batch.to_pylist()
        return sorted(found, key=lambda row: (row.get("partition", 0), row.get("offset", 0)))

    def offsets(self, dotted: dict[str, str] | None = None, **options: object) -> dict[int, list[int]]:
        """By partition, the offsets of the rows."""
        found: dict[int, list[int]] = {}
        for row in self.rows(dotted, columns="partition,offset", **options):
            found.setdefault(row["partition"], []).append(row["offset"])
        return found


@pytest.fixture
def reader(bootstrap_servers: str) -> Reader:
    return Reader(bootstrap_servers)


def expected(records: list[Any]) -> list[dict[str, Any]]:
    """The rows that stand for what the consumer read."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": 0,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for record in records
    ]


def in_microseconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose timestamps are numbers, since Arrow may make objects of pandas of them."""
    return [{**row, "timestamp": round(row["timestamp"].timestamp() * 1_000_000)} for row in rows]


def test_rows_are_what_the_consumer_reads(
    reader: Reader, producer: Producer, make_topic: MakeTopic, consumed: Consume
) -> None:
    topic = make_topic(partitions=3)
    fill(producer, topic, 1000, partitions=3)
    rows = reader.rows(subscribe=topic, includeHeaders=True)
    assert in_microseconds(rows) == expected(consumed(topic))
    assert len(rows) == 1000


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_alone_is_as_among_all(reader: Reader, producer: Producer, make_topic: MakeTopic, column: str) -> None:
    topic = make_topic()
    fill(producer, topic, 20)
    every = reader.rows(subscribe=topic, includeHeaders=True)
    assert reader.rows(subscribe=topic, columns=column) == [{column: row[column]} for row in every]


def test_columns_come_in_the_requested_order(reader: Reader, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(producer, topic, 5)
    rows = reader.rows(subscribe=topic, columns="topic, OFFSET,key")
    assert [list(row.items()) for row in rows[:2]] == [
        [("topic", topic), ("offset", 0), ("key", None)],
        [("topic", topic), ("offset", 1), ("key", b"key 1")],
    ]


def test_from_and_to_offsets_by_partition(reader: Reader, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    fill(producer, topic, 30, partitions=3)
    start = json.dumps({topic: {"0": 4, "1": -2, "2": 10}})
    end = json.dumps({topic: {"0": 6, "1": -1, "2": -1}})
    found = reader.offsets(subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert found == {0: [4, 5], 1: list(range(10))}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"0": 1}, "it lacks {}-1"),
        ({"0": 1, "1": 1, "7": 1}, "not read: {}-7"),
        ({"7": 1, "8": 1}, "it lacks {0}-0, {0}-1, and names {0}-7, {0}-8, which are not read"),
    ],
)
def test_offsets_by_partition_must_be_of_all_partitions(
    reader: Reader, make_topic: MakeTopic, numbers: dict[str, int], said: str
) -> None:
    topic = make_topic(partitions=2)
    with pytest.raises(OptionError) as caught:
        reader.rows(subscribe=topic, startingOffsets=json.dumps({topic: numbers}))
    assert said.format(topic) in str(caught.value)


def test_from_and_to_points_in_time(reader: Reader, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 20, partitions=2)
    assert reader.offsets(subscribe=topic, startingTimestamp=3500, endingTimestamp=7000) == {0: [2, 3], 1: [2]}
    times = json.dumps({topic: {"0": 0, "1": 16_000}})
    ends = json.dumps({topic: {"0": 1, "1": 10**9}})
    found = reader.offsets(subscribe=topic, startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=ends)
    assert found == {0: [0], 1: [8, 9]}


def test_a_start_after_the_last_record_is_an_error_unless_asked_for(
    reader: Reader, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 4, partitions=2)
    with pytest.raises(SourceError, match=f"no record has that timestamp or a later one in {topic}-0; "):
        reader.rows(subscribe=topic, startingTimestamp=3000)
    assert reader.offsets(subscribe=topic, startingTimestamp=3000, startingOffsetsByTimestampStrategy="latest") == {
        1: [1]
    }


def test_from_the_offsets_that_a_group_has_committed(
    reader: Reader,
    producer: Producer,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 10, partitions=2)
    group = {"kafka.group.id": topic}
    # A name that is misspelt would read everything again.
    with pytest.raises(OptionError, match=rf"the group '{topic}' has no committed offsets for .*=earliest"):
        reader.rows(group, subscribe=topic, startingOffsets="committed")
    with Consumer(bootstrap_servers=bootstrap_servers, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3)})
    # Where the group has committed nothing, it has processed nothing.
    assert reader.offsets(group, subscribe=topic, startingOffsets="committed") == {0: [3, 4], 1: [0, 1, 2, 3, 4]}
    assert f"the group '{topic}' has no committed offset for {topic}-1: reading from the earliest offset" in caplog.text
    with pytest.raises(OptionError, match=r"needs the group that committed the offsets: set kafka\.group\.id"):
        reader.rows(subscribe=topic, startingOffsets="committed")


def test_topics_by_pattern_and_partitions_by_number(
    reader: Reader, producer: Producer, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(partitions=3)
    fill(producer, topic, 6, partitions=3)
    assert reader.offsets(subscribePattern=topic[:-1] + ".") == {0: [0, 1], 1: [0, 1], 2: [0, 1]}
    assert not spark_messages(caplog)
    assert reader.offsets(subscribePattern=topic[:-1]) == {}
    assert f"subscribePattern '{topic[:-1]}' matches no topic on " in caplog.text
    assert reader.offsets(assign=json.dumps({topic: [2, 0]})) == {0: [0, 1], 2: [0, 1]}
    assert reader.offsets(subscribe=f"{topic}, {topic}") == {0: [0, 1], 1: [0, 1], 2: [0, 1]}


def test_what_does_not_exist_is_named_and_not_made(reader: Reader, make_topic: MakeTopic, admin: Admin) -> None:
    topic = make_topic()
    with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-missing"):
        reader.rows(subscribe=f"{topic},{topic}-missing")
    with pytest.raises(UnknownTopicOrPartitionError, match="partition 4"):
        reader.rows(assign=json.dumps({topic: [0, 4]}))
    assert f"{topic}-missing" not in admin.list_topics()


@pytest.mark.parametrize("wish", [{"minPartitions": 7}, {"maxRecordsPerPartition": 13}])
def test_divided_among_more_tasks_nothing_is_lost_or_doubled(
    reader: Reader, producer: Producer, make_topic: MakeTopic, wish: dict[str, Any]
) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 90, partitions=2)
    assert len(reader.plan(reader.options(subscribe=topic, **wish))) in (7, 8)
    assert reader.offsets(subscribe=topic, **wish) == {0: list(range(45)), 1: list(range(45))}


def test_nothing_to_read_is_no_error(reader: Reader, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    assert reader.rows(subscribe=topic, minPartitions=3) == []
    fill(producer, topic, 3)
    end = json.dumps({topic: {"0": 2, "1": 0}})
    assert reader.rows(subscribe=topic, startingOffsets=end, endingOffsets=end) == []


def test_batches_are_limited_in_bytes(
    reader: Reader, producer: Producer, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    for _ in range(100):
        producer.send(topic, bytes(1000))
    producer.flush()
    monkeypatch.setattr(tasks, "BYTES", 10_000)
    monkeypatch.setattr(tasks, "FIRST_ROWS", 5)
    options = reader.options(subscribe=topic)
    sizes = [batch.num_rows for task in reader.plan(options) for batch in read_task(options, task)]
    assert sum(sizes) == 100
    assert sizes[0] == 5
    assert 5 < max(sizes) <= 10


def transact(bootstrap_servers: str, topic: str, *plans: str) -> None:
    """One transaction after the other, each of ten records, committed or aborted; `plain` is none."""
    for number, outcome in enumerate(plans):
        options = {} if outcome == "plain" else {"transactional_id": topic}
        with Producer(bootstrap_servers=bootstrap_servers, **options) as producer:  # type: ignore[arg-type]
            if outcome != "plain":
                producer.init_transactions()
                producer.begin_transaction()
            for record in range(10):
                producer.send(topic, b"%s %d %d" % (outcome.encode(), number, record))
            producer.flush()
            if outcome == "commit":
                producer.commit_transaction()
            elif outcome == "abort":
                producer.abort_transaction()


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("plans", [("commit", "abort", "plain", "abort"), ("abort", "abort"), ("plain", "commit")])
def test_gaps_of_transactions_are_no_loss(
    reader: Reader,
    make_topic: MakeTopic,
    consumed: Consume,
    bootstrap_servers: str,
    level: str,
    plans: tuple[str, ...],
) -> None:
    topic = make_topic()
    transact(bootstrap_servers, topic, *plans)
    isolation = {"kafka.isolation.level": level}
    records = consumed(topic, isolation_level=level)
    by_offset = {record.offset: record.value for record in records}
    found = reader.rows(isolation, subscribe=topic)
    assert {row["offset"]: row["value"] for row in found} == by_offset
    assert len(found) == len(records) == 10 * sum(level == "read_uncommitted" or one != "abort" for one in plans)
    # Every cut lies within some task: between records, within what was aborted, before and after a marker.
    split = reader.rows(isolation, subscribe=topic, maxRecordsPerPartition=3)
    assert split == found


def test_an_open_transaction_ends_what_is_read_committed(
    reader: Reader, make_topic: MakeTopic, bootstrap_servers: str
) -> None:
    topic = make_topic()
    transact(bootstrap_servers, topic, "plain")
    committed = {"kafka.isolation.level": "read_committed"}
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result(timeout=ANSWER)
        assert reader.offsets(committed, subscribe=topic) == {0: list(range(10))}
        assert reader.offsets(subscribe=topic) == {0: list(range(11))}
        producer.abort_transaction()


@pytest.mark.parametrize("strict", [True, False])
def test_a_batch_that_ends_beyond_an_open_transaction_waits_for_its_end(
    reader: Reader, make_topic: MakeTopic, bootstrap_servers: str, strict: bool
) -> None:
    topic = make_topic()
    transact(bootstrap_servers, topic, "plain")
    asked = {"subscribe": topic, "endingOffsets": json.dumps({topic: {"0": 11}}), "failOnDataLoss": strict}
    committed = {"kafka.isolation.level": "read_committed"}
    rest = {"startingOffsets": json.dumps({topic: {"0": 10}})}
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result(timeout=ANSWER)
        with pytest.raises(SourceError, match=r"no record of .*-0 from offset 10 .*the task reads up to 11"):
            # Nothing is to be read within that time: how fast the broker is does not matter.
            reader.rows({**committed, "kafkaConsumer.pollTimeoutMs": "200"}, **asked, **rest)
        producer.commit_transaction()
    assert reader.offsets(committed, **asked) == {0: list(range(11))}


def test_gaps_of_compaction_are_no_loss(
    reader: Reader, producer: Producer, make_topic: MakeTopic, consumed: Consume
) -> None:
    topic = make_topic(
        cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.001", delete_retention_ms="0"
    )

    def send(count: int) -> None:
        for number in range(count):
            producer.send(topic, b"value %d" % number, key=b"key %d" % (number % 5))
        producer.flush()

    def compacted() -> bool:
        # The active segment is left alone, and only an append makes another one of it.
        send(1)
        offsets = [record.offset for record in consumed(topic)]
        return bool(len(offsets) < offsets[-1] / 2)

    send(200)
    wait_until(compacted)
    end = consumed(topic)[-1].offset + 1
    bounds: dict[str, Any] = {
        "startingOffsets": json.dumps({topic: {"0": 0}}),
        "endingOffsets": json.dumps({topic: {"0": end}}),
    }
    before = reader.offsets(subscribe=topic, **bounds)[0]
    split = reader.offsets(subscribe=topic, maxRecordsPerPartition=7, **bounds)[0]
    # The cleaner may take more meanwhile, and never brings anything back.
    after = [record.offset for record in consumed(topic) if record.offset < end]
    assert set(after) <= set(split) <= set(before)
    assert len(before) == len(set(before)) < end / 2
    assert before[-1] == end - 1


def test_what_was_deleted_is_lost_and_named(
    reader: Reader, producer: Producer, make_topic: MakeTopic, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    fill(producer, topic, 20)
    admin.delete_records({TopicPartition(topic, 0): 12})
    start = json.dumps({topic: {"0": 5}})
    with pytest.raises(DataLossError, match=rf"{topic}-0: offsets 5 to 11 \(the log now has offsets 12 to 19\)"):
        reader.rows(subscribe=topic, startingOffsets=start)
    with caplog.at_level(logging.WARNING, logger="kclient.spark"):
        found = reader.offsets(subscribe=topic, startingOffsets=start, failOnDataLoss=False)
    assert found == {0: list(range(12, 20))}
    assert "offsets 5 to 11" in caplog.text
    assert reader.offsets(subscribe=topic) == {0: list(range(12, 20))}


def test_an_end_beyond_the_log_is_lost_and_named(reader: Reader, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(producer, topic, 5)
    end = json.dumps({topic: {"0": 9}})
    with pytest.raises(DataLossError, match=rf"{topic}-0: offsets 5 to 8 .* ends at 5, before 9\)"):
        reader.rows(subscribe=topic, endingOffsets=end)
    assert reader.offsets(subscribe=topic, endingOffsets=end, failOnDataLoss=False) == {0: [0, 1, 2, 3, 4]}


def test_what_is_deleted_before_a_task_reads_it_is_lost_and_named(
    reader: Reader, producer: Producer, make_topic: MakeTopic, admin: Admin
) -> None:
    topic = make_topic()
    fill(producer, topic, 20)
    strict, lenient = reader.options(subscribe=topic), reader.options(subscribe=topic, failOnDataLoss=False)
    (task,) = reader.plan(strict)
    admin.delete_records({TopicPartition(topic, 0): 12})
    with pytest.raises(DataLossError, match="offsets 0 to 11"):
        list(read_task(strict, task))
    offsets = [offset for batch in read_task(lenient, task) for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(12, 20))
    admin.delete_records({TopicPartition(topic, 0): -1})
    assert list(read_task(lenient, task)) == []


def test_a_log_that_has_become_shorter_has_lost_what_was_planned(
    reader: Reader, producer: Producer, make_topic: MakeTopic, admin: Admin
) -> None:
    topic = make_topic()
    fill(producer, topic, 20)
    options = reader.options(subscribe=topic)
    (task,) = reader.plan(options)
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics())
    make_topic()
    fill(producer, topic, 5)
    start = Task(topic, 0, 10, task.end)
    with pytest.raises(DataLossError, match=r"offsets 10 to 19 .* ends at 5, before 20\)"):
        list(read_task(options, start))


def test_what_never_comes_fails_the_task_after_a_while(
    reader: Reader, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(producer, topic, 5)
    # A consumer that is connected and has read them once has them again at once.
    assert reader.offsets(subscribe=topic) == {0: list(range(5))}
    options = reader.options({"kafkaConsumer.pollTimeoutMs": "1000"}, subscribe=topic)
    reading = read_task(options, Task(topic, 0, 0, 9))
    assert next(reading).num_rows == 5
    with pytest.raises(SourceError, match=f"no record of {topic}-0 from offset 5 on arrived within 1 s"):
        next(reading)


def test_a_task_that_continues_where_another_left_off_takes_its_consumer(
    reader: Reader, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(producer, topic, 10)
    options = reader.options(subscribe=topic)
    with borrow(options) as consumer:
        pass
    for start, end in ((0, 4), (4, 10), (2, 3)):
        (batch,) = read_task(options, Task(topic, 0, start, end))
        assert batch.column("offset").to_pylist() == list(range(start, end))
        with borrow(options) as same:
            assert same is consumer
            assert same.paused() == {TopicPartition(topic, 0)}


def test_a_reader_that_wants_no_more_leaves_its_consumer_usable(
    reader: Reader, producer: Producer, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "FIRST_ROWS", 3)
    topic = make_topic()
    fill(producer, topic, 10)
    options = reader.options(subscribe=topic)
    reading = read_task(options, Task(topic, 0, 0, 10))
    assert next(reading).column("offset").to_pylist() == [0, 1, 2]
    reading.close()  # type: ignore[attr-defined]
    assert reader.offsets(subscribe=topic) == {0: list(range(10))}


def test_without_a_broker_it_says_so_shortly() -> None:
    client = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300"}
    options = ReadOptions(client=client, subscribe=("t",), columns=("key",)).for_batch()
    with pytest.raises(SourceError) as caught:
        list(read_task(options, Task("t", 0, 0, 9)))
    assert str(caught.value).startswith("Kafka on 127.0.0.1:1 did not answer")
    assert caught.value.__cause__ is None
