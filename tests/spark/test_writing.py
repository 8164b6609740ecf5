"""`df.write` and `df.writeStream` into a broker, as a notebook has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kclient import Admin, NewTopic
from refbroker.testing import RefBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kclient.types import ConsumerRecord

pytestmark = pytest.mark.spark


@pytest.fixture
def save(bootstrap_servers: str) -> Callable[..., None]:
    """Writes a batch to the broker under test."""

    def save(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("kclient").mode("append").option("kafka.bootstrap.servers", bootstrap_servers)
        writer.options(**options).save()

    return save


def test_every_part_of_a_record_is_written(
    spark: SparkSession,
    save: Callable[..., None],
    make_topic: Callable[..., str],
    consumed: Callable[..., list[ConsumerRecord]],
) -> None:
    topic = make_topic(3)
    save(
        spark.sql(
            f"""
            SELECT * FROM VALUES
                ('{topic}', binary('k'), 'one', array(named_struct('key', 'h', 'value', binary('1'))), 2),
                ('{topic}', null, 'two', null, 0),
                ('{topic}', binary(''), null, array(named_struct('key', 'n', 'value', cast(null AS binary))), 1)
            AS t(topic, key, value, headers, partition)
            """
        )
    )
    assert [(r.key, r.value, r.headers) for r in consumed(topic)] == [
        (None, b"two", ()),
        (b"", None, (("n", None),)),
        (b"k", b"one", (("h", b"1"),)),
    ]


def test_many_rows_of_many_tasks_are_there_once(
    spark: SparkSession,
    save: Callable[..., None],
    make_topic: Callable[..., str],
    consumed: Callable[..., list[ConsumerRecord]],
) -> None:
    topic = make_topic(2)
    save(
        spark.range(50_000, numPartitions=4).selectExpr("cast(id AS string) AS key", "binary(string(id)) AS value"),
        topic=topic,
    )
    keys = sorted(int(record.key or b"") for record in consumed(topic))
    assert keys == list(range(50_000))


def test_what_was_read_is_written_as_it_is(
    spark: SparkSession,
    save: Callable[..., None],
    load: Callable[..., DataFrame],
    admin: Admin,
    make_topic: Callable[..., str],
    consumed: Callable[..., list[ConsumerRecord]],
) -> None:
    topic = make_topic(2)
    copy = f"{topic}-copy"
    admin.create_topics([NewTopic(copy, num_partitions=2)])
    save(spark.range(100).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value"), topic=topic)
    save(load(subscribe=topic), topic=copy)

    def plain(name: str) -> list[Any]:
        return [(record.partition, record.key, record.value) for record in consumed(name)]

    assert plain(copy) == plain(topic)


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("SELECT 1 AS value", {"topic": "t"}, "column value is int and must be string or binary: cast or encode it"),
        ("SELECT 'k' AS key", {"topic": "t"}, "the rows have no column value"),
        ("SELECT 'v' AS value", {}, "no topic: set the option topic, or add a column topic"),
        ("SELECT 'v' AS value", {"topik": "t"}, "there is no option 'topik'; did you mean topic?"),
        ("SELECT 'v' AS value, 't' AS topic", {"delivery": "exactly_once"}, "needs a topic for that: the option topic"),
        ("SELECT 'v' AS value, cast(null AS string) AS topic", {}, "the topic of a row is null"),
    ],
)
def test_an_error_says_in_one_line_what_to_do(
    spark: SparkSession, save: Callable[..., None], query: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=r"SourceError|OptionError") as raised:
        save(spark.sql(query), **options)
    assert message in str(raised.value)
    assert "During handling of the above exception" not in str(raised.value)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("overwrite", "a topic is appended to, not overwritten: mode('append')"),
        ("errorifexists", 'use either the "Append"'),
    ],
)
def test_a_batch_can_only_be_appended(
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: Callable[..., str],
    consumed: Callable[..., list[ConsumerRecord]],
    mode: str,
    message: str,
) -> None:
    topic = make_topic()
    writer = spark.sql("SELECT 'v' AS value").write.format("kclient").mode(mode)
    with pytest.raises(Exception, match=r"OptionError|UNSUPPORTED_DATA_SOURCE_SAVE_MODE") as raised:
        writer.option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic).save()
    assert message in str(raised.value)
    assert not consumed(topic)


def test_a_topic_that_does_not_exist_is_reported_before_there_are_tasks(spark: SparkSession) -> None:
    with RefBroker(auto_create_topics_enable=False) as kafka:
        writer = spark.range(1).selectExpr("string(id) AS value").write.format("kclient").mode("append")
        writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).option("topic", "orders")
        with pytest.raises(Exception, match="Failed to initialize") as raised:
            writer.save()
    assert f"SourceError: there is no topic 'orders' on {kafka.bootstrap_servers}" in str(raised.value)


def test_a_stream_is_written_batch_by_batch(
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: Callable[..., str],
    consumed: Callable[..., list[ConsumerRecord]],
    tmp_path: Path,
) -> None:
    topic = make_topic(2)
    source = tmp_path / "in"
    for number in range(3):
        part = spark.range(number * 100, number * 100 + 100).selectExpr("cast(id AS string) AS value")
        part.coalesce(1).write.mode("append").text(str(source))
    query = (
        spark.readStream.schema("value string")
        .option("maxFilesPerTrigger", "1")
        .text(str(source))
        .writeStream.format("kclient")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert query.exception() is None
    assert len(query.recentProgress) >= 3
    assert sorted(int(record.value or b"") for record in consumed(topic)) == list(range(300))
