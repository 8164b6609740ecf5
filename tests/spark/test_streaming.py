"""`spark.readStream` from a broker, as a notebook has it: triggers, limits, restarts, and what comes on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kclient import Admin, NewPartitions, NewTopic, Producer, TopicPartition
from kclient.spark.offsets import from_json
from kclient.spark.progress import lag
from refbroker.testing import RefBroker
from tests.support.patience import NEVER_MS, PROCESS
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from kclient.types import ConsumerRecord

pytestmark = pytest.mark.spark


class Stream:
    """Queries that read a stream, and collect in order what their micro-batches have."""

    def __init__(self, spark: SparkSession, servers: str, checkpoint: Path) -> None:
        self._spark = spark
        self._servers = servers
        self.checkpoint = checkpoint
        self.batches: list[list[tuple[int, int, bytes]]] = []
        self._queries: list[StreamingQuery] = []

    def load(self, dotted: dict[str, str] | None = None, **options: object) -> DataFrame:
        every = {"kafka.bootstrap.servers": self._servers, **(dotted or {}), **options}
        reader = self._spark.readStream.format("kclient")
        return reader.options(**{name: str(value) for name, value in every.items()}).load()

    def start(self, trigger: dict[str, Any], dotted: dict[str, str] | None = None, **options: object) -> StreamingQuery:
        def collect(frame: DataFrame, number: int) -> None:
            rows = frame.select("partition", "offset", "value").collect()
            self.batches.append(sorted((row[0], row[1], bytes(row[2])) for row in rows))

        writer = self.load(dotted, **options).writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
        self._queries.append(query)
        return query

    def run(self, dotted: dict[str, str] | None = None, **options: object) -> list[list[tuple[int, int, bytes]]]:
        """To the end of what is there; returns the micro-batches that had rows."""
        before = len(self.batches)
        query = self.start({"availableNow": True}, dotted, **options)
        assert query.awaitTermination(PROCESS)
        return [batch for batch in self.batches[before:] if batch]

    @property
    def values(self) -> list[bytes]:
        """All that was read, in the order of the micro-batches."""
        return [value for batch in self.batches for _, _, value in batch]

    @property
    def progress(self) -> list[StreamingQueryProgress]:
        """Of the last query."""
        return list(self._queries[-1].recentProgress)

    def stop(self) -> None:
        for query in self._queries:
            query.stop()


@pytest.fixture
def stream(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> Iterator[Stream]:
    stream = Stream(spark, bootstrap_servers, tmp_path / "checkpoint")
    yield stream
    stream.stop()


@pytest.fixture
def send(bootstrap_servers: str) -> Iterator[Callable[..., None]]:
    """Sends numbers as values, in turn over so many partitions."""
    with Producer(bootstrap_servers=bootstrap_servers) as producer:

        def send(topic: str, numbers: range, partitions: int = 1) -> None:
            for number in numbers:
                producer.send(topic, b"%d" % number, partition=number % partitions)
            producer.flush()

        yield send


def values(numbers: range) -> list[bytes]:
    return sorted(b"%d" % number for number in numbers)


def wait_for(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    """Until it holds, or the query fails."""

    def done() -> bool:
        if not query.isActive:
            raise AssertionError(query.exception())
        return condition()

    wait_until(done, PROCESS)


def test_a_query_continues_where_its_checkpoint_is(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic(2)
    send(topic, range(100), 2)
    assert len(stream.run(subscribe=topic, startingOffsets="earliest")) == 1
    assert sorted(stream.values) == values(range(100))
    assert stream.run(subscribe=topic, startingOffsets="earliest") == []
    send(topic, range(100, 150), 2)
    stream.run(subscribe=topic, startingOffsets="earliest")
    assert sorted(stream.values) == values(range(150))


def test_a_checkpoint_has_the_offsets_as_the_connector_reads_them(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic(2)
    send(topic, range(5), 2)
    stream.run(subscribe=topic, startingOffsets="earliest")
    last = max((stream.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    written = json.loads(last.read_text().splitlines()[-1])
    assert {name: places for name, places in written.items() if places} == {topic: {"0": 3, "1": 2}}
    assert [name.partition("/")[0] for name, places in written.items() if not places] == [topic]


def test_micro_batches_keep_to_the_limit_and_share_it_in_proportion(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic(2)
    send(topic, range(60), 1)
    send(topic, range(61, 121, 2), 2)
    batches = stream.run(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    assert [len(batch) for batch in batches] == [30, 30, 30]
    behind = [sum(lag(progress).values()) for progress in stream.progress if progress.numInputRows]
    assert behind == [60, 30, 0]
    assert [sum(partition == 0 for partition, _, _ in batch) for batch in batches] == [20, 20, 20]
    assert len(set(stream.values)) == 90


@pytest.mark.parametrize("most", [{}, {"maxOffsetsPerTrigger": 100}])
def test_a_micro_batch_waits_for_as_many_offsets_as_it_is_to_have(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None], most: dict[str, int]
) -> None:
    topic = make_topic()
    send(topic, range(3))
    options: dict[str, Any] = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 10, **most}
    query = stream.start({"processingTime": "0 seconds"}, **options)
    wait_for(query, lambda: len(stream.values) == 3)
    send(topic, range(3, 7))
    wait_for(query, lambda: "Waiting" in query.status["message"])
    send(topic, range(7, 13))
    wait_for(query, lambda: len(stream.values) == 13)
    assert [len(batch) for batch in stream.batches] == [3, 10]


def test_from_the_latest_offset_on_a_query_that_runs_now_and_then_misses_nothing(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic()
    send(topic, range(10))
    assert stream.run(subscribe=topic) == []
    send(topic, range(10, 20))
    stream.run(subscribe=topic)
    assert stream.values == values(range(10, 20))


def test_a_single_trigger_reads_all_and_applies_no_limit(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic()
    send(topic, range(50))
    query = stream.start({"once": True}, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    assert query.awaitTermination(PROCESS)
    assert [len(batch) for batch in stream.batches] == [50]


def test_what_comes_while_a_query_runs_is_read_also_from_new_partitions_and_topics(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None], admin: Admin
) -> None:
    topic = make_topic()
    query = stream.start({"processingTime": "0 seconds"}, subscribePattern=f"{topic}.*", startingOffsets="earliest")
    send(topic, range(10))
    wait_for(query, lambda: len(stream.values) == 10)
    admin.create_partitions({topic: NewPartitions(3)})
    send(topic, range(10, 40), 3)
    other = f"{topic}-more"
    admin.create_topics([NewTopic(other, num_partitions=1)])
    send(other, range(40, 50))
    wait_for(query, lambda: len(stream.values) == 50)
    assert sorted(stream.values) == values(range(50))


def test_a_waiting_query_can_be_stopped_and_reports_the_end_offsets(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    topic = make_topic()
    send(topic, range(7))
    query = stream.start({"processingTime": "0 seconds"}, subscribe=topic, startingOffsets="earliest")
    wait_for(query, lambda: len(stream.values) == 7 and bool(query.recentProgress))
    source = query.recentProgress[-1]["sources"][0]
    assert json.loads(source["latestOffset"]) == json.loads(source["endOffset"])
    assert from_json(json.loads(source["endOffset"])) == {TopicPartition(topic, 0): 7}
    assert lag(query.recentProgress[-1]) == {TopicPartition(topic, 0): 0}
    wait_for(query, lambda: "Waiting" in query.status["message"])
    query.stop()
    assert not query.isActive
    assert query.exception() is None


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", 10), ("read_uncommitted", 20)])
def test_aborted_transactions_are_read_as_the_isolation_level_says(
    stream: Stream, make_topic: Callable[..., str], bootstrap_servers: str, isolation: str, expected: int
) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for _ in range(10 if end == producer.commit_transaction else 5):
                producer.send(topic, b"x")
            producer.flush()
            end()
    stream.run({"kafka.isolation.level": isolation}, subscribe=topic, startingOffsets="earliest")
    assert len(stream.values) == expected


def test_kafkas_tools_see_how_far_a_query_is(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None], admin: Admin
) -> None:
    topic = make_topic(2)
    send(topic, range(9), 2)
    # The first group of a broker may take it longer than the query waits for its commit.
    admin.list_group_offsets(topic)
    stream.run(subscribe=topic, startingOffsets="earliest", commitOffsetsToGroup=topic)
    committed = admin.list_group_offsets(topic)[topic]
    assert {part: place.offset for part, place in committed.items() if place is not None} == {
        TopicPartition(topic, 0): 5,
        TopicPartition(topic, 1): 4,
    }


def test_lost_records_are_named_and_skipped_if_the_option_allows(
    stream: Stream, make_topic: Callable[..., str], send: Callable[..., None], admin: Admin
) -> None:
    from pyspark.errors import StreamingQueryException

    topic = make_topic()
    send(topic, range(10))
    stream.run(subscribe=topic, startingOffsets="earliest")
    send(topic, range(10, 20))
    admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(StreamingQueryException, match=f"{topic}-0: offsets 10 to 14 .*failOnDataLoss=false"):
        stream.run(subscribe=topic, startingOffsets="earliest")
    stream.run(subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    assert stream.values == values(range(10)) + values(range(15, 20))


def test_a_stream_is_written_to_another_topic(
    stream: Stream,
    make_topic: Callable[..., str],
    send: Callable[..., None],
    bootstrap_servers: str,
    consumed: Callable[..., list[ConsumerRecord]],
    admin: Admin,
) -> None:
    topic = make_topic(2)
    copy = f"{topic}-copy"
    admin.create_topics([NewTopic(copy, num_partitions=2)])
    send(topic, range(2000), 2)
    frame = stream.load(subscribe=topic, startingOffsets="earliest").select("key", "value", "partition")
    writer = frame.writeStream.format("kclient").option("kafka.bootstrap.servers", bootstrap_servers)
    writer = writer.option("topic", copy).option("checkpointLocation", str(stream.checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(PROCESS)
    assert [(one.partition, one.value) for one in consumed(copy)] == [
        (one.partition, one.value) for one in consumed(topic)
    ]


# -- Kafka goes down


class Outage:
    """A query on a broker of its own, whose checkpoint is at the end of what was sent when the broker went down."""

    def __init__(self, kafka: RefBroker, stream: Stream, **dotted: str) -> None:
        self.kafka = kafka
        self.stream = stream
        self._dotted = dotted
        self.send(range(10))
        self.query = self.start()
        wait_for(self.query, lambda: len(stream.values) == 10 and "Waiting" in self.query.status["message"])
        kafka.stop()

    def start(self) -> StreamingQuery:
        dotted = {name.replace("_", "."): value for name, value in self._dotted.items()}
        return self.stream.start({"processingTime": "0 seconds"}, dotted, subscribe="t", startingOffsets="earliest")

    def send(self, numbers: range) -> None:
        with Producer(bootstrap_servers=self.kafka.bootstrap_servers) as producer:
            for number in numbers:
                producer.send("t", b"%d" % number, partition=0)

    def wait_until_noticed(self) -> None:
        """Until the query has waited for an answer longer than it does in good times."""
        seen: list[float] = []

        def stuck() -> bool:
            if "Getting offsets" not in self.query.status["message"]:
                seen.clear()
            seen.append(time.monotonic())
            return seen[-1] - seen[0] > 2

        wait_for(self.query, stuck)

    def read_rest(self) -> None:
        """The broker is back, and the query reads on: everything once."""
        self.send(range(10, 20))
        wait_for(self.query, lambda: len(self.stream.values) >= 20)
        assert sorted(self.stream.values) == values(range(20))


@pytest.fixture
def go_down(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Outage]]:
    with RefBroker(data_dir=tmp_path / "broker") as kafka:
        stream = Stream(spark, kafka.bootstrap_servers, tmp_path / "checkpoint-of-outage")
        yield lambda **dotted: Outage(kafka, stream, **dotted)
        stream.stop()


def test_a_query_continues_when_kafka_comes_back(go_down: Callable[..., Outage]) -> None:
    outage = go_down()
    outage.wait_until_noticed()
    outage.kafka.start()
    outage.read_rest()


def test_a_query_stops_at_once_while_kafka_is_down(go_down: Callable[..., Outage]) -> None:
    outage = go_down(kafka_default_api_timeout_ms=str(NEVER_MS))
    outage.wait_until_noticed()
    outage.query.stop()
    assert not outage.query.isActive
    assert outage.query.exception() is None
    outage.kafka.start()
    outage.query = outage.start()
    outage.read_rest()


def test_a_query_fails_when_kafka_stays_away(go_down: Callable[..., Outage]) -> None:
    from pyspark.errors import StreamingQueryException

    outage = go_down(kafka_default_api_timeout_ms="4000")
    with pytest.raises(StreamingQueryException, match=f"Kafka on {outage.kafka.bootstrap_servers} did not answer: "):
        outage.query.awaitTermination(PROCESS)
    outage.kafka.start()
    outage.query = outage.start()
    outage.read_rest()
