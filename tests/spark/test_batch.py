"""Batches read by Spark, against what the consumer itself reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kclient import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kclient.spark.schema import COLUMNS, arrow_schema, ddl, default_columns
from tests.spark.conftest import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Load = Callable[..., "DataFrame"]
MakeTopic = Callable[..., str]
Consume = Callable[..., list[Any]]


def offsets(frame: DataFrame) -> dict[int, list[int]]:
    """By partition, the offsets of the rows."""
    found: dict[int, list[int]] = {}
    for row in sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect()):
        found.setdefault(row[0], []).append(row[1])
    return found


def last_line(error: BaseException) -> str:
    """What Spark shows last, before the state of SQL."""
    return str(error).partition(" SQLSTATE")[0].strip().splitlines()[-1]


@pytest.mark.parametrize("columns", [tuple(COLUMNS), default_columns(False), ("headers", "timestamp"), ("topic",)])
def test_the_arrow_schema_is_what_spark_derives_from_the_declared_one(
    spark: SparkSession, columns: tuple[str, ...]
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    declared = spark.createDataFrame([], ddl(columns)).schema
    assert to_arrow_schema(declared, timezone="UTC").equals(arrow_schema(columns), check_metadata=True)


def test_the_schema_is_that_of_sparks_own_connector(load: Load, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert load(subscribe=topic).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert load(subscribe=topic, includeHeaders=True).schema["headers"].dataType.simpleString() == (
        "array<struct<key:string,value:binary>>"
    )


def test_rows_are_what_the_consumer_reads(
    load: Load, producer: Producer, make_topic: MakeTopic, consumed: Consume
) -> None:
    topic = make_topic(partitions=3)
    fill(producer, topic, 3000, partitions=3)
    frame = load(subscribe=topic, includeHeaders=True).selectExpr("*", "unix_millis(timestamp) as ms")
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert len(rows) == 3000
    for row, record in zip(rows, consumed(topic), strict=True):
        assert (row.key, row.value, row.topic) == (record.key, record.value, record.topic)
        assert (row.partition, row.offset, row.ms, row.timestampType) == (
            record.partition,
            record.offset,
            record.timestamp,
            0,
        )
        assert [tuple(header) for header in row.headers or ()] == list(record.headers)
        assert row.headers != []


def test_spark_counts_filters_and_joins_as_usual(load: Load, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 100, partitions=2)
    frame = load(subscribe=topic)
    assert frame.count() == 100
    assert frame.filter("offset >= 40 and partition = 1").count() == 10
    assert frame.filter("key is null").count() == 34
    assert frame.join(frame.withColumnRenamed("value", "v"), ["partition", "offset"]).count() == 100
    assert len(frame.limit(7).collect()) == 7


def test_columns_are_read_alone_and_in_order(load: Load, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(producer, topic, 10)
    frame = load(subscribe=topic, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert [tuple(row) for row in frame.orderBy("offset").limit(2).collect()] == [(0, b"value 0"), (1, b"value 1")]
    assert load(subscribe=topic, columns="topic").distinct().collect() == [(topic,)]


def test_from_and_to_offsets_times_and_what_a_group_committed(
    load: Load, producer: Producer, make_topic: MakeTopic, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 20, partitions=2)
    start, end = json.dumps({topic: {"0": 4, "1": -2}}), json.dumps({topic: {"0": 6, "1": -1}})
    assert offsets(load(subscribe=topic, startingOffsets=start, endingOffsets=end)) == {0: [4, 5], 1: list(range(10))}
    by_time = load(subscribe=topic, startingTimestamp=3500, endingTimestamp=7000)
    assert offsets(by_time) == {0: [2, 3], 1: [2]}
    times = json.dumps({topic: {"0": 18_000, "1": 16_000}})
    assert offsets(load(subscribe=topic, startingOffsetsByTimestamp=times)) == {0: [9], 1: [8, 9]}
    with Consumer(bootstrap_servers=bootstrap_servers, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(8)})
    committed = load({"kafka.group.id": topic}, subscribe=topic, startingOffsets="committed")
    assert offsets(committed) == {0: [8, 9], 1: list(range(10))}


def test_pattern_and_assignment(load: Load, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    fill(producer, topic, 6, partitions=3)
    assert offsets(load(subscribePattern=topic[:-2] + ".*")) == {0: [0, 1], 1: [0, 1], 2: [0, 1]}
    assert offsets(load(assign=json.dumps({topic: [2, 0]}))) == {0: [0, 1], 2: [0, 1]}


@pytest.mark.parametrize(("wish", "tasks"), [({}, 2), ({"minPartitions": 7}, 7), ({"maxRecordsPerPartition": 13}, 8)])
def test_tasks_are_as_many_as_asked_for(
    load: Load, producer: Producer, make_topic: MakeTopic, wish: dict[str, int], tasks: int
) -> None:
    topic = make_topic(partitions=2)
    fill(producer, topic, 100, partitions=2)
    frame = load(subscribe=topic, **wish)
    assert frame.rdd.getNumPartitions() == tasks
    assert offsets(frame) == {0: list(range(50)), 1: list(range(50))}


def test_nothing_to_read_is_an_empty_frame(load: Load, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    assert load(subscribe=topic).collect() == []
    assert load(subscribePattern=f"{topic}-none").count() == 0


def test_isolation_decides_what_of_transactions_is_read(
    load: Load, make_topic: MakeTopic, bootstrap_servers: str
) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for _ in range(10):
                producer.send(topic, b"%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = load({"kafka.isolation.level": "read_committed"}, subscribe=topic, minPartitions=11)
    assert {row.value for row in committed.collect()} == {b"0", b"2", b"4"}
    assert committed.count() == 30
    assert load(subscribe=topic).count() == 60


def test_loss_of_data_fails_the_read_and_names_the_offsets(
    load: Load, producer: Producer, make_topic: MakeTopic, admin: Admin
) -> None:
    from pyspark.errors import PySparkException

    topic = make_topic()
    fill(producer, topic, 20)
    planned = load(subscribe=topic)
    assert planned.count() == 20
    admin.delete_records({TopicPartition(topic, 0): 12})
    start = json.dumps({topic: {"0": 5}})
    with pytest.raises(PySparkException) as caught:
        load(subscribe=topic, startingOffsets=start).count()
    assert f"{topic}-0: offsets 5 to 11 (the log now has offsets 12 to 19)" in last_line(caught.value)
    lenient = load(subscribe=topic, startingOffsets=start, failOnDataLoss=False)
    assert offsets(lenient) == {0: list(range(12, 20))}
    # Planned before the records went, and read after.
    with pytest.raises(PySparkException, match="offsets 0 to 11"):
        planned.count()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribee": "t"}, "there is no option 'subscribee'; did you mean subscribe?"),
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic' on "),
        ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"subscribe": "t", "kafka.fetch.min.byte": "1"}, "did you mean 'fetch.min.bytes'?"),
        (
            {"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"},
            "Kafka on 127.0.0.1:1 did not answer",
        ),
    ],
)
def test_the_last_line_of_an_error_says_what_is_wrong(load: Load, options: dict[str, str], said: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        load(options).count()
    assert said in last_line(caught.value)
    # No chain of causes, and none of the frames that an option came through.
    assert len(str(caught.value).splitlines()) <= 11
    if "Kafka" not in said and "there is no topic" not in said:
        assert "/kclient/" not in str(caught.value)


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, bootstrap_servers: str) -> None:
    from pyspark.errors import PySparkException

    reading = spark.read.format("kclient").schema("value string").option("subscribe", "t")
    with pytest.raises(PySparkException) as caught:
        reading.option("kafka.bootstrap.servers", bootstrap_servers).load().count()
    assert "this source has its own schema" in last_line(caught.value)
