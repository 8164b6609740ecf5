"""The consumer against a broker: places, polling, iteration, and every record exactly once."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kclient.consumer import Consumer
from kclient.errors import (
    ClosedError,
    ConcurrentUseError,
    DeserializationError,
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from kclient.types import OffsetAndTimestamp, PartitionInfo, TopicPartition
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import GUARD
from tests.support.reading import read
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


class Opener:
    """Makes consumers on the broker under test, and closes them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.opened: list[Consumer] = []

    def __call__(self, *topics: str, **options: Any) -> Consumer:
        options = {"bootstrap_servers": self.bootstrap_servers, "auto_offset_reset": "earliest", **options}
        consumer = Consumer(*topics, **options)
        self.opened.append(consumer)
        return consumer


@pytest.fixture
def open_consumer(bootstrap_servers: str) -> Iterator[Opener]:
    opener = Opener(bootstrap_servers)
    yield opener
    for consumer in opener.opened:
        consumer.close(5.0)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_iteration_gives_every_record_with_all_its_fields(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, [b"v0", None], keys=[b"k0", None])
    records = iter(open_consumer(topic))
    first, second = next(records), next(records)
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (first.key, first.value, first.headers) == (b"k0", b"v0", ())
    assert (first.timestamp, first.timestamp_type, first.leader_epoch) == (1_600_000_000_000, 0, 0)
    assert (second.key, second.value, second.offset) == (None, None, 1)


def test_poll_returns_at_most_max_records_in_order(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    for start in range(0, 1_000, 100):
        seed.append(topic, numbers(start, start + 100))
    consumer = open_consumer(topic, max_poll_records=70)
    found: list[bytes | None] = []
    while len(found) < 1_000:
        records = consumer.poll(1.0)
        assert len(records) <= 70
        found += [record.value for record in records]
    assert found == numbers(0, 1_000)
    assert len(consumer.poll(0)) == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(open_consumer: Opener, seed: Seeder, topic: str, codec: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 500), compression_type=codec)
    assert [record.value for record in read(open_consumer(topic), 500)] == numbers(0, 500)


def test_all_partitions_of_all_topics_are_read(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    other = topic + "-other"
    seed.create(topic, 3)
    seed.create(other, 1)
    for partition in range(3):
        seed.append(topic, numbers(0, 20), partition=partition)
    seed.append(other, numbers(0, 20))
    consumer = open_consumer(topic, other)
    places: dict[TopicPartition, list[int]] = {}
    total = 0
    while total < 80:
        records = consumer.poll(1.0, max_records=13)
        total += len(records)
        for tp, own in records.by_partition().items():
            places.setdefault(tp, []).extend(record.offset for record in own)
    assert places == {
        tp: list(range(20)) for tp in [*(TopicPartition(topic, p) for p in range(3)), TopicPartition(other, 0)]
    }
    assert consumer.assignment() == set(places)
    assert consumer.subscription() == {topic, other}


def test_latest_reads_only_what_comes_later(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 5))
    consumer = open_consumer(topic, auto_offset_reset="latest")
    assert len(consumer.poll(0.2)) == 0
    assert consumer.position((topic, 0)) == 5
    seed.append(topic, numbers(5, 8))
    assert [record.value for record in read(consumer, 3)] == numbers(5, 8)


def test_seek_position_and_both_ends(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 50))
    consumer = open_consumer()
    tp = TopicPartition(topic, 0)
    consumer.assign([tp])
    consumer.seek(tp, 40)
    assert consumer.position(tp) == 40
    assert [record.offset for record in read(consumer, 10)] == list(range(40, 50))
    assert consumer.position(tp) == 50
    assert consumer.current_lag(tp) == 0
    consumer.seek_to_beginning(tp)
    assert consumer.position(tp) == 0
    assert read(consumer, 50)[0].offset == 0
    consumer.seek_to_end()
    assert consumer.position(tp) == 50


def test_position_follows_iteration_record_by_record(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 50))
    consumer = open_consumer(topic)
    for record in consumer:
        assert consumer.position((topic, 0)) == record.offset + 1
        if record.offset == 20:
            break
    assert [record.offset for record in read(consumer, 29)] == list(range(21, 50))


def test_seek_inside_iteration_counts_for_the_next_record(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 50))
    consumer = open_consumer(topic)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 10 and len(seen) == 11:
            consumer.seek((topic, 0), 5)
        if record.offset == 49:
            break
    assert seen == [*range(11), *range(5, 50)]


def test_pause_and_resume_skip_and_repeat_nothing(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic, 2)
    for partition in range(2):
        seed.append(topic, numbers(0, 100), partition=partition)
    consumer = open_consumer(topic)
    seen: list[tuple[int, int]] = []
    first = TopicPartition(topic, 0)
    read_first = read(consumer, 7)
    seen += [(record.partition, record.offset) for record in read_first]
    paused = TopicPartition(topic, read_first[0].partition)
    consumer.pause(paused)
    assert consumer.paused() == {paused}
    others = read(consumer, 100)
    assert {record.partition for record in others} == {1 - paused.partition}
    seen += [(record.partition, record.offset) for record in others]
    consumer.resume(paused)
    seen += [(record.partition, record.offset) for record in read(consumer, 93)]
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(100)]
    assert first in consumer.assignment()


def test_offsets_are_looked_up_by_end_and_by_time(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic, 2)
    seed.append(topic, numbers(0, 10), timestamp=1_000_000)
    seed.append(topic, numbers(0, 10), timestamp=2_000_000)
    consumer = open_consumer()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 20, second: 0}
    assert consumer.offsets_for_times({first: 1_000_003, second: 0}) == {
        first: OffsetAndTimestamp(3, 1_000_003, 0),
        second: None,
    }
    assert consumer.offsets_for_times({first: 2_000_000})[first] == OffsetAndTimestamp(10, 2_000_000, 0)
    assert consumer.offsets_for_times({first: 3_000_000})[first] is None
    assert consumer.end_offsets([]) == {}


def test_reset_by_duration_starts_with_what_is_young_enough(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    now = clock.time_ms()
    seed.append(topic, [b"old"], timestamp=now - 3_600_000)
    seed.append(topic, [b"young"], timestamp=now - 60_000)
    consumer = open_consumer(topic, auto_offset_reset="by_duration:PT10M")
    assert next(iter(consumer)).value == b"young"


def test_no_policy_is_an_error_that_names_the_partition(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(auto_offset_reset="none")
    consumer.assign([(topic, 0)])
    with pytest.raises(NoOffsetForPartitionError, match=topic):
        consumer.poll(1.0)
    consumer.seek((topic, 0), 1_000)
    with pytest.raises(OffsetOutOfRangeError) as raised:
        read(consumer, 1)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (topic, 0, 1_000)


def test_out_of_range_resets_by_policy(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 3))
    consumer = open_consumer()
    consumer.assign([(topic, 0)])
    consumer.seek((topic, 0), 1_000)
    assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]


def test_record_larger_than_the_fetch_size_arrives(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic, 2)
    for partition in range(2):
        seed.append(topic, [b"x" * 500_000], partition=partition)
        seed.append(topic, [b"y"], partition=partition)
    consumer = open_consumer(topic, max_partition_fetch_bytes=1_000, fetch_max_bytes=2_000)
    assert sorted((record.partition, record.offset) for record in read(consumer, 4)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_small_prefetch_still_reads_everything(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic, 3)
    for partition in range(3):
        for start in range(0, 300, 10):
            seed.append(topic, [b"%d" % n + b"." * 500 for n in range(start, start + 10)], partition=partition)
    consumer = open_consumer(topic, max_partition_fetch_bytes=10_000, prefetch_max_bytes=20_000)
    places: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for record in read(consumer, 900, max_records=50):
        places[record.partition].append(record.offset)
    assert places == {partition: list(range(300)) for partition in range(3)}


def test_records_become_arrow_columns(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    pytest.importorskip("pyarrow")
    seed.create(topic)
    seed.append(topic, numbers(0, 100))
    consumer = open_consumer(topic)
    records = consumer.poll(10.0, max_records=100)
    table = records.to_arrow(columns=["offset", "value"])
    assert table.column("value").to_pylist() == numbers(0, 100)
    assert table.column("offset").to_pylist() == list(range(100))


def test_a_failing_deserializer_names_the_record_and_a_seek_continues_iteration(
    open_consumer: Opener, seed: Seeder, topic: str
) -> None:
    seed.create(topic)
    seed.append(topic, [b"1", b"x", b"3"])
    consumer = open_consumer(topic, value_deserializer=int)
    records = iter(consumer)
    assert next(records).value == 1
    for _ in range(2):
        with pytest.raises(DeserializationError) as raised:
            next(records)
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == (topic, 0, 1)
    consumer.seek((topic, 0), 2)
    assert next(records).value == 3


def test_partitions_that_are_added_join_and_are_read_from_their_beginning(
    open_consumer: Opener, seed: Seeder, topic: str
) -> None:
    seed.create(topic)
    consumer = open_consumer(topic, auto_offset_reset="latest", metadata_max_age_ms=200)
    deadline = clock.monotonic() + 20
    while not consumer.assignment():
        assert clock.monotonic() < deadline, "the topic was not assigned"
        assert not consumer.poll(0.05)
    assert consumer.position(TopicPartition(topic, 0)) == 0
    seed.grow(topic, 2)
    seed.append(topic, [b"first"], partition=1)
    (record,) = read(consumer, 1)
    assert (record.partition, record.offset, record.value) == (1, 0, b"first")


def test_topics_and_partitions_are_listed(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic, 3)
    consumer = open_consumer(allow_auto_create_topics=False)
    assert [info.partition for info in consumer.partitions_for(topic)] == [0, 1, 2]
    assert len(consumer.list_topics()[topic]) == 3
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        consumer.partitions_for("nowhere-" + topic)


@pytest.mark.refbroker_only
def test_topics_are_requested_again_after_a_lost_response_or_without_a_leader() -> None:
    with (
        RefBroker() as kafka,
        Consumer(bootstrap_servers=kafka.bootstrap_servers, default_api_timeout_ms=20_000) as consumer,
    ):
        kafka.create_topic("t")
        apis: list[Callable[[], Sequence[PartitionInfo]]] = [
            lambda: consumer.partitions_for("t"),
            lambda: consumer.list_topics()["t"],
        ]
        for api in apis:
            lost = kafka.faults.cut("Metadata", when="after", count=2)
            assert [info.partition for info in api()] == [0]
            lost.wait(2)
        early = kafka.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="t", count=2)
        assert [info.partition for info in consumer.partitions_for("t")] == [0]
        early.wait(2)
        kafka.faults.cut("Metadata", count=None)
        with pytest.raises(KafkaTimeoutError, match=r"list_topics did not finish within 0.5 s; the last error was: "):
            consumer.list_topics(timeout=0.5)


def test_unknown_topic_is_an_error_and_not_a_silence(open_consumer: Opener, topic: str) -> None:
    consumer = open_consumer(topic, allow_auto_create_topics=False, default_api_timeout_ms=1_000)
    with pytest.raises(UnknownTopicOrPartitionError, match=topic):
        next(iter(consumer))
    with pytest.raises(UnknownTopicOrPartitionError, match=topic):
        consumer.end_offsets([(topic, 0)])


def test_partition_that_does_not_exist_is_an_error(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(default_api_timeout_ms=1_000)
    consumer.assign([(topic, 7)])
    with pytest.raises(UnknownTopicOrPartitionError) as raised:
        read(consumer, 1)
    assert (raised.value.topic, raised.value.partition) == (topic, 7)


def test_wakeup_interrupts_a_waiting_poll_once(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(topic)
    consumer.poll(0.0)
    timer = threading.Timer(0.1, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeupError):
        consumer.poll(10 * GUARD)
    timer.join()
    assert len(consumer.poll(0.0)) == 0
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(iter(consumer))


def test_wakeup_interrupts_iteration_before_the_next_record(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 50))
    consumer = open_consumer(topic)
    records = iter(consumer)
    assert [next(records).offset for _ in range(10)] == list(range(10))
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(records)
    assert consumer.position((topic, 0)) == 10
    assert [next(records).offset for _ in range(40)] == list(range(10, 50))


def test_ctrl_c_interrupts_a_waiting_poll_and_loses_nothing(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(topic)
    consumer.poll(0.0)

    def interrupt() -> None:
        # Before the poll it would interrupt the test, and all tests with it.
        wait_until(lambda: consumer._core.poll_tracker.within)
        clock.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(20.0)
    thread.join()
    seed.append(topic, numbers(0, 3))
    assert [record.value for record in read(consumer, 3)] == numbers(0, 3)


def test_second_thread_is_informed_that_the_consumer_is_in_use(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(topic)
    errors: list[BaseException] = []

    def wait_in_poll() -> None:
        try:
            consumer.poll(20.0)
        except WakeupError as error:
            errors.append(error)

    thread = threading.Thread(target=wait_in_poll)
    thread.start()
    # Trying it out would take the consumer away from the thread, if that comes late.
    wait_until(lambda: consumer._core.poll_tracker.within)
    with pytest.raises(ConcurrentUseError):
        consumer.poll(0.0)
    with pytest.raises(ConcurrentUseError):
        consumer.seek((topic, 0), 0)
    consumer.wakeup()
    thread.join()
    assert len(errors) == 1


def test_subscribe_and_assign_exclude_each_other(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer()
    with pytest.raises(IllegalStateError, match="subscribe"):
        consumer.poll(0.1)
    consumer.subscribe([topic])
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        consumer.assign([(topic, 0)])
    consumer.unsubscribe()
    consumer.assign([(topic, 0)])
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        consumer.subscribe([topic])
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.seek((topic, 1), 0)


def test_properties_make_a_consumer(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, [b"x"])
    properties = {"bootstrap.servers": bootstrap_servers, "auto.offset.reset": "earliest"}
    with Consumer.from_properties(properties, topic) as consumer:
        assert next(iter(consumer)).value == b"x"


def test_closed_consumer_says_so(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer(topic)
    consumer.poll(0.0)
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll(0.1)
    with pytest.raises(ClosedError):
        next(iter(consumer))


def test_a_position_that_is_not_known_says_why(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    consumer = open_consumer()
    consumer.assign([(topic, 0), (topic, 7)])
    assert consumer.position((topic, 0)) == 0
    with pytest.raises(UnknownTopicOrPartitionError, match="the topic has 1 partition, numbered from 0"):
        consumer.position(TopicPartition(topic, 7), timeout=0.2)


def test_a_position_that_nobody_tells_says_why() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with Consumer(bootstrap_servers=f"127.0.0.1:{unused.getsockname()[1]}") as consumer:
            consumer.assign([("t", 0)])
            with pytest.raises(KafkaTimeoutError, match="last error: could not connect to "):
                consumer.position(("t", 0), timeout=0.5)


def test_close_returns_by_its_deadline_with_no_broker_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        consumer = Consumer("t", bootstrap_servers=f"127.0.0.1:{unused.getsockname()[1]}", default_api_timeout_ms=200)
        assert len(consumer.poll(0.05)) == 0
        with pytest.raises(KafkaTimeoutError, match="last error: could not connect to "):
            consumer.end_offsets([("t", 0)])
        consumer.close(1.0)


def test_metrics_count_records_and_lag(open_consumer: Opener, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 30))
    consumer = open_consumer(topic)
    read(consumer, 10)
    metrics = consumer.metrics()
    assert metrics["records_consumed_total"] == 10
    assert metrics["bytes_consumed_total"] > 0
    assert metrics["records_lag_max"] == 20
