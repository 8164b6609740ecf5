"""What the broker counts: after known requests, known numbers; bounded in size; readable by Prometheus's own parser."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kclient import errors
from kclient.protocol import Message
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.metadata import MetadataResponse
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from refbroker.metrics import table
from refbroker.metrics.counters import BUSY_SECONDS, IDLE_SECONDS, EventLoopLag
from refbroker.metrics.exposition import as_dict, as_text
from refbroker.metrics.histogram import BOUNDS_MS, Histogram
from refbroker.metrics.requests import error_finder
from refbroker.metrics.samples import Samples
from refbroker.metrics.topics import TopicMetrics
from refbroker.server.metrics import process
from tests.support.broker_harness import Harness, batch


def fetch(topic: str, offset: int = 0, *, wait_ms: int = 0) -> FetchRequest:
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[one])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)


# Records


async def test_stored_and_fetched_records_are_counted_by_topic_and_in_all(harness: Harness) -> None:
    harness.create("a")
    harness.create("b")
    one, two = batch(b"1", b"2", b"3"), batch(b"4")
    harness.produce_bytes("a", one)
    harness.produce_bytes("b", two)
    harness.send(fetch("a"), 11)
    harness.send(fetch("a"), 11)

    topics = harness.broker.metrics.topics
    assert topics.of("a").records_in == 3
    assert topics.of("a").bytes_in == len(one)
    assert topics.of("a").bytes_out == 2 * len(one)
    assert topics.of("b").records_in == 1
    assert topics.of("b").bytes_out == 0
    assert topics.total().records_in == 4
    assert topics.total().bytes_in == len(one) + len(two)
    assert topics.total().bytes_out == 2 * len(one)


async def test_a_fetch_by_topic_id_counts_under_the_name(harness: Harness) -> None:
    topic_id = harness.create("a")
    records = batch(b"1")
    harness.produce_bytes("a", records)
    request = fetch("")
    request.topics[0].topic_id = topic_id
    harness.send(request, 13)

    assert harness.broker.metrics.topics.of("a").bytes_out == len(records)
    assert set(harness.broker.metrics.topics.all()) == {"a"}


async def test_a_fetch_that_waits_counts_its_bytes_once(harness: Harness) -> None:
    harness.create("a")
    waiting = harness.send(fetch("a", wait_ms=60_000), 11)
    records = batch(b"1")
    harness.produce_bytes("a", records)
    await waiting

    assert harness.broker.metrics.topics.of("a").bytes_out == len(records)


async def test_failures_that_clients_bring_about_are_not_counted(harness: Harness) -> None:
    harness.create("a", max_message_bytes="100")
    too_large = batch(b"x" * 200)
    assert harness.produce_bytes("a", too_large).error_code == errors.RecordTooLargeError.code
    assert harness.produce_bytes("a", batch(b"1")[:-1] + b"x").error_code == errors.CorruptRecordError.code
    assert harness.produce_bytes("a", None).error_code == errors.InvalidRecordError.code
    harness.produce("a", b"1", partition=9)
    harness.produce("nowhere", b"1")
    for topic, partition, offset in (("a", 0, 7), ("a", 9, 0), ("nowhere", 0, 0)):
        request = fetch(topic, offset)
        request.topics[0].partitions[0].partition = partition
        (answer,) = harness.send(request, 11).responses[0].partitions
        assert answer.error_code

    topics = harness.broker.metrics.topics
    assert set(topics.all()) == {"a"}
    assert topics.of("a").failed_produce == 0
    assert topics.of("a").failed_fetch == 0
    assert topics.of("a").bytes_rejected == len(too_large)
    assert topics.of("a").bytes_in == 0


async def test_failures_that_nobody_expects_are_counted_by_topic(harness: Harness) -> None:
    harness.create("a")
    for sequence, error in ((0, 0), (7, errors.OutOfOrderSequenceError.code)):
        records = batch(b"1", producer_id=5, producer_epoch=0, base_sequence=sequence)
        assert harness.produce_bytes("a", records).error_code == error
    segment = harness.directory / "a-0" / f"{0:020d}.log"
    segment.write_bytes(bytes(segment.stat().st_size))
    (answer,) = harness.send(fetch("a"), 11).responses[0].partitions
    assert answer.error_code == errors.CorruptRecordError.code

    topics = harness.broker.metrics.topics
    assert topics.of("a").failed_produce == topics.total().failed_produce == 1
    assert topics.of("a").failed_fetch == topics.total().failed_fetch == 1


async def test_a_deleted_topic_vanishes_but_stays_in_the_sum(harness: Harness) -> None:
    for number in range(50):
        harness.create(f"t{number}", 2)
        harness.produce(f"t{number}", b"1", partition=1)
        harness.send(DeleteTopicsRequest(topic_names=[f"t{number}"]), 4)

    assert harness.broker.metrics.topics.all() == {}
    assert harness.broker.metrics.topics.total().records_in == 50


# Requests


async def test_error_codes_of_partitions_are_counted_by_api(harness: Harness) -> None:
    harness.create("a")
    harness.produce("a", b"1")
    harness.produce("nowhere", b"1")
    partitions = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3)]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=partitions)]
    harness.send(ListOffsetsRequest(topics=topics), 5)

    requests = harness.broker.metrics.requests
    assert requests[ProduceRequest.api_key].errors == {3: 1}
    assert requests[ListOffsetsRequest.api_key].errors == {3: 2}
    assert {"Produce", "ListOffsets"} <= {stats.name for stats in requests.values()}


async def test_an_error_of_a_fetch_that_waited_is_counted(harness: Harness) -> None:
    harness.create("a")
    waiting = harness.send(fetch("a", wait_ms=60_000), 11)
    harness.send(DeleteTopicsRequest(topic_names=["a"]), 4)
    await waiting

    assert harness.broker.metrics.requests[FetchRequest.api_key].errors == {3: 1}
    assert harness.broker.metrics.topics.all() == {}


@pytest.mark.parametrize(
    ("answer", "errors"),
    [
        (FetchResponse(error_code=70), {70: 1}),
        (ProduceResponse(), {}),
        (
            MetadataResponse(
                topics=[
                    MetadataResponse.MetadataResponseTopic(
                        error_code=3,
                        partitions=[
                            MetadataResponse.MetadataResponsePartition(error_code=5),
                            MetadataResponse.MetadataResponsePartition(error_code=0),
                            MetadataResponse.MetadataResponsePartition(error_code=5),
                        ],
                    )
                ]
            ),
            {3: 1, 5: 2},
        ),
    ],
    ids=["top", "none", "topics and partitions"],
)
def test_errors_are_found_at_every_level_of_an_answer(answer: Message, errors: dict[int, int]) -> None:
    found: dict[int, int] = {}
    find = error_finder(type(answer))
    assert find is not None
    find(answer, found)
    assert found == errors


# Distributions


@pytest.mark.parametrize(
    ("nanoseconds", "bound_ms"),
    [(0, 0.008), (7_999, 0.008), (8_000, 0.016), (1_000_000, 1.024), (16_777_215_999, 16777.216)],
)
def test_a_duration_is_below_the_bound_of_its_bucket(nanoseconds: int, bound_ms: float) -> None:
    histogram = Histogram()
    histogram.observe(nanoseconds)
    taken = histogram.snapshot()

    below = dict(zip(BOUNDS_MS, taken.cumulative, strict=True))
    assert [bound for bound, number in below.items() if number] == [bound for bound in BOUNDS_MS if bound >= bound_ms]
    assert (taken.count, taken.total_ms) == (1, nanoseconds / 1_000_000)


@pytest.mark.parametrize("nanoseconds", [16_777_216_000, 3600 * 10**9, 2**63 - 1])
def test_what_took_longer_than_every_bound_is_counted_nevertheless(nanoseconds: int) -> None:
    histogram = Histogram()
    histogram.observe(nanoseconds)
    taken = histogram.snapshot()

    assert taken.count == 1
    assert taken.cumulative[-1] == 0


class SlowLoop:
    """A loop whose time a test moves; it runs due callbacks on request."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any, *args: Any, **keywords: Any) -> asyncio.TimerHandle:
        self.due.append((when, lambda: callback(*args)))
        return asyncio.TimerHandle(when, callback, args, self.as_loop())

    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop as what has all the other methods of a loop, none of which is called."""
        return cast(asyncio.AbstractEventLoop, self)

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.due.clear()


def test_the_lag_of_the_loop_is_by_how_much_it_came_late() -> None:
    busy = iter([False, True, False])
    loop, measure = SlowLoop(), EventLoopLag(lambda: next(busy))
    measure.start(loop.as_loop())
    for late, seconds in ((0.25, IDLE_SECONDS), (0.0, BUSY_SECONDS)):
        when, run = loop.due.pop()
        assert when == loop.now + seconds
        loop.now = when + late
        run()
    measure.stop()

    assert loop.due == []
    taken = measure.lag.snapshot()
    assert (taken.count, round(taken.total_ms)) == (2, 250)


# Page and dict


def every_metric() -> Samples:
    samples = Samples()
    histogram = Histogram()
    histogram.observe(3_000_000)
    for metric in table.METRICS:
        value = histogram.snapshot() if metric.kind == table.HISTOGRAM else 7
        samples.add(metric, value, *(f"some-{label}" for label in metric.labels))
    return samples


def test_prometheus_reads_every_metric_with_its_kind_and_text() -> None:
    families = {family.name: family for family in text_string_to_metric_families(as_text(every_metric()))}

    for metric in table.METRICS:
        family = families[metric.name.removesuffix("_total") if metric.kind == table.COUNTER else metric.name]
        assert family.type == metric.kind
        assert family.documentation == metric.text
        labels = {label: f"some-{label}" for label in metric.labels}
        if metric.kind == table.HISTOGRAM:
            by_name = {sample.name: sample for sample in family.samples if "le" not in sample.labels}
            assert by_name[f"{metric.name}_count"].value == 1
            assert by_name[f"{metric.name}_sum"].value == 3
            assert by_name[f"{metric.name}_sum"].labels == labels
            buckets = {sample.labels["le"]: sample.value for sample in family.samples if "le" in sample.labels}
            assert (buckets["2.048"], buckets["4.096"], buckets["+Inf"]) == (0, 1, 1)
        else:
            assert [(sample.labels, sample.value) for sample in family.samples] == [(labels, 7)]


def test_labels_with_quotes_backslashes_and_lines_come_back_as_they_were() -> None:
    path = 'C:\\logs\\"new"\nline'
    samples = Samples()
    samples.add(table.DIRECTORY_OFFLINE, 1, path)

    (family,) = text_string_to_metric_families(as_text(samples))
    assert family.samples[0].labels == {"logDirectory": path}


def test_the_number_over_all_topics_has_no_label_on_the_page() -> None:
    samples = Samples()
    samples.add(table.RECORDS_IN, 5, "")
    samples.add(table.RECORDS_IN, 3, "a")

    assert f"\n{table.RECORDS_IN.name} 5\n" in as_text(samples)
    assert as_dict(samples)[table.RECORDS_IN.name] == {"": 5, "a": 3}


def test_the_dict_has_the_numbers_of_the_page() -> None:
    samples = every_metric()
    values = as_dict(samples)

    assert values.keys() == {metric.name for metric in table.METRICS}
    assert values[table.LOG_SIZE.name] == {"some-topic": {"some-partition": 7}}
    assert values[table.PARTITIONS.name] == 7
    lag = values[table.LOOP_LAG.name]
    assert (lag["count"], lag["sum"], lag["buckets"][2.048], lag["buckets"][4.096]) == (1, 3.0, 0, 1)


def test_names_follow_the_convention() -> None:
    names = [metric.name for metric in table.METRICS]
    assert len(set(names)) == len(names)
    for metric in table.METRICS:
        assert metric.name.endswith("_total") == (metric.kind == table.COUNTER)
        assert metric.name.startswith("kafka_") == (metric.mbean is not None)
        assert metric.text.endswith(".")


def test_numbers_of_a_topic_that_never_was_do_not_change_the_sum() -> None:
    topics = TopicMetrics()
    topics.of("a").bytes_in += 10
    topics.remove("b")
    topics.remove("a")
    topics.remove("a")

    assert topics.total().bytes_in == 10


# The process


def test_the_process_says_what_it_uses() -> None:
    samples = Samples()
    process.collect(samples)
    values = as_dict(samples)

    assert values["process_cpu_seconds_total"] > 0
    if process.STATUS.exists():
        assert 1 << 20 < values["process_resident_memory_bytes"] < 1 << 40
        assert 1_500_000_000 < values["process_start_time_seconds"] < 5_000_000_000
        assert values["process_open_fds"] > 0


def test_where_the_system_does_not_say_the_numbers_are_omitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(process, "STATUS", tmp_path / "nothing")
    samples = Samples()
    process.collect(samples)

    assert set(as_dict(samples)) & {"process_cpu_seconds_total", "process_open_fds"} == {"process_cpu_seconds_total"}
    assert process.usable_bytes(tmp_path / "nothing") is None
    assert process.usable_bytes(tmp_path) is not None
