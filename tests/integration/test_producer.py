"""The producer, both faces, against a broker: what was sent is there once, in order; what cannot be is said."""

from __future__ import annotations

import asyncio
import gc
import os
import runpy
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kclient import Admin, AsyncProducer, NewTopic, Producer, RecordMetadata
from kclient.config import ClientConfig
from kclient.errors import (
    BufferExhaustedError,
    ClosedError,
    ConfigError,
    DeliveryError,
    ForkError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaTimeoutError,
    RecordNotAcceptedError,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from kclient.metrics import MetricValues
from kclient.net.engine import Engine
from kclient.producer import ProducerRecord, RoundRobinPartitioner, partition_for_key
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.records import ConsumerRecord, read_batches
from tests.support import clock
from tests.support.patience import ANSWER, NEVER_MS
from tests.support.waiting import result_of, wait_until

pytestmark = pytest.mark.kafka


def create(admin: Admin, topic: str, partitions: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1, configs=settings)])


def leader_of(engine: Engine, topic: str, partition: int) -> tuple[int, Any]:
    """Return the leader of a partition, and the id of its topic, which the broker may not know yet."""
    asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
    found: list[tuple[int, Any]] = []

    def is_known() -> bool:
        answer = result_of(engine.call(-1, MetadataRequest, lambda version: MetadataRequest(topics=asked)))
        (info,) = answer.topics
        found[:] = [(each.leader_id, info.topic_id) for each in info.partitions if each.partition_index == partition]
        return bool(found) and found[0][0] in engine.metadata.cluster.brokers

    engine.metadata.add_topic(topic)
    wait_until(is_known)
    return found[0]


def read_all(bootstrap_servers: str, topic: str, count: int, partition: int = 0) -> list[ConsumerRecord]:
    """The first records of a partition, by bare Fetch requests to its leader."""
    engine = Engine(ClientConfig.from_options({"bootstrap_servers": bootstrap_servers}), name="reader")
    engine.start()
    try:
        found: list[ConsumerRecord] = []
        leader, topic_id = leader_of(engine, topic, partition)
        deadline = clock.monotonic() + ANSWER
        while len(found) < count:
            assert clock.monotonic() < deadline, f"{len(found)} of {count} records came"
            wanted = FetchRequest.FetchPartition(
                partition=partition, fetch_offset=len(found), partition_max_bytes=1 << 24
            )

            def build(version: int, wanted: Any = wanted) -> FetchRequest:
                named = {"topic": topic} if version < 13 else {"topic_id": topic_id}
                topics = [FetchRequest.FetchTopic(partitions=[wanted], **named)]
                return FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)

            response = result_of(engine.call(leader, FetchRequest, build))
            (data,) = (p for t in response.responses for p in t.partitions)
            assert data.error_code == 0
            for batch in read_batches(data.records or b""):
                found.extend(record for record in batch.records() if record.offset >= len(found))
        return found
    finally:
        engine.close(ANSWER)


def test_a_record_comes_back_as_it_was_sent(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        future = producer.send(topic, b"value", key=b"key", headers=[("h", b"1"), ("n", None)], timestamp=1234567)
        assert future.result(ANSWER) == RecordMetadata(topic, future.partition, 0, 1234567, 3, 5)
    (record,) = read_all(bootstrap_servers, topic, 1, future.partition)
    assert (record.key, record.value, record.timestamp) == (b"key", b"value", 1234567)
    assert record.headers == (("h", b"1"), ("n", None))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_records_arrive_in_order(bootstrap_servers: str, topic: str, admin: Admin, codec: str) -> None:
    create(admin, topic)
    count = 20_000
    with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec, batch_size=50_000) as producer:
        futures = [producer.send(topic, b"%d" % number) for number in range(count)]
        producer.flush(ANSWER)
        assert [future.result(0).offset for future in futures] == list(range(count))
    records = read_all(bootstrap_servers, topic, count)
    assert [record.value for record in records] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(bootstrap_servers: str, topic: str, admin: Admin, acks: Any) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=bootstrap_servers, acks=acks) as producer:
        offset = producer.send(topic, b"v").result(ANSWER).offset
    assert offset == (-1 if acks == 0 else 0)
    assert read_all(bootstrap_servers, topic, 1)[0].value == b"v"


def test_keys_spread_over_partitions_as_java_does(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 5)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        futures = {b"%d" % number: producer.send(topic, b"v", key=b"%d" % number) for number in range(50)}
        for key, future in futures.items():
            assert future.result(ANSWER).partition == partition_for_key(key, 5)


def test_an_explicit_partition_is_used_and_one_that_does_not_exist_refused(
    bootstrap_servers: str, topic: str, admin: Admin
) -> None:
    create(admin, topic, 3)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        assert producer.send(topic, b"v", partition=2).result(ANSWER).partition == 2
        with pytest.raises(UnknownTopicOrPartitionError, match="3 partitions"):
            producer.send(topic, b"v", partition=3)
        with pytest.raises(ValueError, match="0 or more"):
            producer.send(topic, b"v", partition=-1)


def test_other_partitioners_choose(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 3)

    class LastPartition:
        def partition(self, topic: str, key: Any, value: Any, partitions: int, available: Any) -> int:
            return partitions - 1

    with Producer(bootstrap_servers=bootstrap_servers, partitioner=LastPartition()) as producer:
        assert producer.send(topic, b"v").result(ANSWER).partition == 2
    with Producer(bootstrap_servers=bootstrap_servers, partitioner=RoundRobinPartitioner()) as producer:
        assert sorted(producer.send(topic, b"v").result(ANSWER).partition for _ in range(3)) == [0, 1, 2]


@pytest.mark.parametrize("choice", [3, "1"])
def test_a_partition_that_cannot_be_is_the_partitioners_error(
    bootstrap_servers: str, topic: str, admin: Admin, choice: Any
) -> None:
    class Wrong:
        def partition(self, topic: str, key: Any, value: Any, partitions: int, available: Any) -> Any:
            return choice

    create(admin, topic, 3)
    with (
        Producer(bootstrap_servers=bootstrap_servers, partitioner=Wrong()) as producer,
        pytest.raises(ValueError, match=f"the partitioner chose {choice!r}, and {topic} has 3 partitions"),
    ):
        producer.send(topic, b"v")


def test_partitions_for_says_what_there_is(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, 4)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        infos = producer.partitions_for(topic)
        assert [info.partition for info in infos] == [0, 1, 2, 3]
        assert all(info.leader is not None for info in infos)


def test_serializers_make_bytes_and_a_failing_one_fails_its_own_send(bootstrap_servers: str, topic: str) -> None:
    options: Any = {"value_serializer": lambda value: value.encode(), "key_serializer": lambda key: b"%d" % key}
    with Producer(bootstrap_servers=bootstrap_servers, **options) as producer:
        future = producer.send(topic, "text", key=5)
        with pytest.raises(SerializationError, match="value"):
            producer.send(topic, 17, key=5)
        result = future.result(ANSWER)
    record = read_all(bootstrap_servers, topic, 1, result.partition)[0]
    assert (record.key, record.value) == (b"5", b"text")


def test_what_is_not_bytes_is_refused_at_once(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for wrong in ({"value": "text"}, {"value": 5}, {"key": 1.5}, {"headers": [("h", "text")]}, {"headers": [b"h"]}):
            arguments: dict[str, Any] = {"value": b"v", **wrong}
            with pytest.raises(TypeError):
                producer.send(topic, **arguments)
        assert producer.send(topic, bytearray(b"v"), key=memoryview(b"k")).result(ANSWER).offset == 0


@pytest.mark.not_simulated("asks for the name of the thread")
def test_callbacks_run_in_order_in_a_thread_of_their_own(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    seen: list[tuple[int, str]] = []

    def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
        assert error is None
        assert metadata is not None
        seen.append((metadata.offset, threading.current_thread().name))

    with Producer(bootstrap_servers=bootstrap_servers, batch_size=200) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, on_delivery=on_delivery)
        producer.flush(ANSWER)
        assert [offset for offset, _ in seen] == list(range(100))
    assert {name for _, name in seen} == {"kclient-producer-callbacks"}


def test_a_callback_that_cannot_be_called_is_refused_before_anything_is_sent(
    bootstrap_servers: str, topic: str, admin: Admin
) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(2):  # before the topic is known, and after
            with pytest.raises(TypeError, match=r"on_delivery must be a function, not 5"):
                producer.send(topic, b"v", on_delivery=5)  # type: ignore[arg-type]
            producer.partitions_for(topic, timeout=ANSWER)
        assert producer.send(topic, b"v").result(ANSWER).offset == 0


def test_interceptors_see_records_and_results(bootstrap_servers: str, topic: str) -> None:
    acknowledged: list[Any] = []

    class Stamp:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            record.headers = [*record.headers, ("seen", b"yes")]
            return record

        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            acknowledged.append((metadata, error, headers))

    class Broken(Stamp):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("not my day")

    with Producer(bootstrap_servers=bootstrap_servers, interceptors=[Broken(), Stamp()]) as producer:
        result = producer.send(topic, b"v").result(ANSWER)
        producer.flush(ANSWER)
    assert acknowledged == [(result, None, (("seen", b"yes"),))] * 2
    assert read_all(bootstrap_servers, topic, 1, result.partition)[0].headers == (("seen", b"yes"),)


def test_interceptors_learn_topic_and_partition_of_records_that_fail(
    bootstrap_servers: str, topic: str, admin: Admin
) -> None:
    create(admin, topic, partitions=1, cleanup_policy="compact")
    acknowledged: list[Any] = []

    class Audit:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            acknowledged.append((metadata, type(error), headers))

    with Producer(bootstrap_servers=bootstrap_servers, interceptors=[Audit()], max_request_size=1000) as producer:
        with pytest.raises(RecordTooLargeError):
            producer.send(topic, bytes(2000), headers=[("h", b"1")])
        future = producer.send(topic, b"a compacted topic needs a key", headers=[("h", b"2")])
        error = future.exception(ANSWER)
    assert acknowledged == [
        (RecordMetadata(topic, -1, -1, -1), RecordTooLargeError, (("h", b"1"),)),
        (RecordMetadata(topic, 0, -1, -1), type(error), (("h", b"2"),)),
    ]


def test_send_many_takes_values_and_records(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        futures = producer.send_many(topic, [b"a", b"b"])
        futures += producer.send_many(None, [ProducerRecord(topic, b"c", key=b"k")])
        assert [future.result(ANSWER).offset for future in futures] == [0, 1, 2]
        with pytest.raises(TypeError):
            producer.send_many(None, [b"where to?"])


def test_a_record_that_is_too_large_is_refused_at_once(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            producer.send(topic, b"x" * 2_000_000)
        assert producer.send(topic, b"small").result(ANSWER).offset == 0


def test_batches_too_large_for_the_topic_are_split(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=50) as producer:
        futures = [producer.send(topic, b"%04d" % number * 25) for number in range(200)]
        too_large = producer.send(topic, b"x" * 5000)
        futures.append(producer.send(topic, b"last"))
        with pytest.raises(RecordTooLargeError):
            too_large.result(ANSWER)
        assert [future.result(ANSWER).offset for future in futures] == list(range(201))
    values = [record.value for record in read_all(bootstrap_servers, topic, 201)]
    assert values == [b"%04d" % number * 25 for number in range(200)] + [b"last"]


def test_only_the_records_the_broker_refuses_fail(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, cleanup_policy="compact")
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=50) as producer:
        good = [producer.send(topic, b"a", key=b"1"), producer.send(topic, b"c", key=b"3")]
        bad = producer.send(topic, b"no key")
        good.append(producer.send(topic, b"d", key=b"4"))
        with pytest.raises(InvalidRecordError):
            bad.result(ANSWER)
        assert [future.result(ANSWER).offset for future in good] == [0, 1, 2]


def test_an_invalid_topic_name_is_an_error_at_once(bootstrap_servers: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap_servers, max_block_ms=NEVER_MS) as producer,
        pytest.raises(InvalidTopicError),
    ):
        producer.send("not a topic!", b"v")


def test_flush_raises_what_nobody_looked_at(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, max_message_bytes="1000")
    producer = Producer(bootstrap_servers=bootstrap_servers)
    producer.send(topic, b"x" * 5000)
    producer.send(topic, b"fits")
    with pytest.raises(DeliveryError, match="1 record could not be delivered") as raised:
        producer.flush(ANSWER)
    assert isinstance(raised.value.errors[0], RecordTooLargeError)
    producer.flush(ANSWER)
    seen = producer.send(topic, b"x" * 5000)
    assert isinstance(seen.exception(ANSWER), RecordTooLargeError)
    producer.send(topic, b"x" * 5000, on_delivery=lambda metadata, error: None)
    producer.flush(ANSWER)
    producer.send(topic, b"x" * 5000)
    with pytest.raises(DeliveryError):
        producer.close()


def test_a_closed_producer_says_so(bootstrap_servers: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap_servers)
    future = producer.send(topic, b"v")
    producer.close()
    producer.close()
    assert future.result(0).offset == 0
    for call in (lambda: producer.send(topic, b"v"), producer.flush, lambda: producer.partitions_for(topic)):
        with pytest.raises(ClosedError):
            call()


def test_many_threads_share_a_producer(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    count, threads = 3000, 4
    with Producer(bootstrap_servers=bootstrap_servers, batch_size=10_000, buffer_memory=100_000) as producer:

        def work(thread: int) -> None:
            for number in range(count):
                producer.send(topic, b"%d:%d" % (thread, number))

        workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        producer.flush(ANSWER)
    records = [record.value or b"" for record in read_all(bootstrap_servers, topic, count * threads)]
    for thread in range(threads):
        own = [int(value.partition(b":")[2]) for value in records if value.startswith(b"%d:" % thread)]
        assert own == list(range(count))


def test_a_metrics_hook_receives_the_values_until_the_end(bootstrap_servers: str, topic: str) -> None:
    values: list[MetricValues] = []
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.add_metrics_hook(values.append, interval=0.05)
        producer.send(topic, b"v").result(ANSWER)
        wait_until(lambda: values and values[-1]["record_send_total"] >= 1)
        producer.send(topic, b"v").result(ANSWER)
    assert values[-1]["record_send_total"] - values[-1]["record_retry_total"] == 2


def test_metrics_count_what_was_sent(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(10):
            producer.send(topic, b"v")
        producer.flush(ANSWER)
        metrics = producer.metrics()
    # A topic that was just made may be unknown to its leader at first.
    assert metrics["record_send_total"] - metrics["record_retry_total"] == 10
    assert metrics[f"record_send_total{{topic={topic}}}"] == metrics["record_send_total"]
    assert metrics["record_error_total"] == 0
    assert metrics["buffer_available_bytes"] == metrics["buffer_total_bytes"]


def test_from_properties_takes_dotted_names(bootstrap_servers: str, topic: str) -> None:
    properties = {"bootstrap.servers": bootstrap_servers, "compression.type": "zstd", "linger.ms": "0"}
    with Producer.from_properties(properties, client_id="mine") as producer:
        assert producer.send(topic, b"v").result(ANSWER).offset == 0
        assert "mine" in repr(producer)
    with pytest.raises(ConfigError, match="linger"):
        Producer(bootstrap_servers=bootstrap_servers, linger=5)  # type: ignore[call-arg]


def test_an_unclosed_producer_warns_and_delivers(bootstrap_servers: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap_servers)
    future = producer.send(topic, b"v")
    core = producer._core
    with pytest.warns(ResourceWarning, match="was not closed"):
        del producer
    assert future.result(ANSWER).offset == 0
    from kclient.producer.core import close_core

    close_core(core, ANSWER)


FORGETFUL = """
import sys
from kclient import Producer
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=30_000)
producer.send(sys.argv[2], b"sent at the end", partition=0)
"""


@pytest.mark.not_simulated("runs processes")
def test_the_end_of_the_interpreter_flushes_what_nobody_closed(bootstrap_servers: str, topic: str) -> None:
    command = [sys.executable, "-W", "always", "-c", FORGETFUL, bootstrap_servers, topic]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=ANSWER, check=True
    )
    assert "was not closed" in ended.stderr
    assert read_all(bootstrap_servers, topic, 1)[0].value == b"sent at the end"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_reported(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send(topic, b"v").result(ANSWER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                producer.send(topic, b"v")
            except ForkError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_drops_a_producer_is_not_notified_to_close_it(bootstrap_servers: str) -> None:
    made = [Producer(bootstrap_servers=bootstrap_servers)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made.clear()
            gc.collect()
            os._exit(len(told))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    made[0].close()


def test_the_example_of_a_partitioner_runs(
    bootstrap_servers: str,
    topic: str,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(admin, topic, 3)
    example = Path(__file__).parents[2] / "examples" / "custom_partitioner.py"
    monkeypatch.setattr(sys, "argv", [str(example), bootstrap_servers, topic])
    runpy.run_path(str(example))
    assert "partition 2: 10 orders" in capsys.readouterr().out


# -- nobody there


def test_without_a_broker_calls_end_in_time(unused_tcp_port_factory: Callable[[], int], topic: str) -> None:
    servers = f"127.0.0.1:{unused_tcp_port_factory()}"
    with Producer(bootstrap_servers=servers, max_block_ms=200) as producer:
        with pytest.raises(RecordNotAcceptedError, match=r"last error|could not connect") as raised:
            producer.send(topic, b"v")
        assert raised.value.topic == topic
        assert not isinstance(raised.value, TimeoutError)
        with pytest.raises(KafkaTimeoutError):
            producer.partitions_for(topic, timeout=0.1)
        producer.close(timeout=1)


# -- async


@pytest.mark.anyio
async def test_async_sends_and_awaits(bootstrap_servers: str, topic: str) -> None:
    async with AsyncProducer(bootstrap_servers=bootstrap_servers) as producer:
        future = await producer.send(topic, b"v", key=b"k")
        result = await future
        assert result == future.result(0)
        assert (result.topic, result.offset) == (topic, 0)
        futures = await producer.send_many(topic, [b"a", b"b"])
        await producer.flush(ANSWER)
        assert all(future.done() for future in futures)
        assert [info.partition for info in await producer.partitions_for(topic)]
        metrics = producer.metrics()
        assert metrics["record_send_total"] - metrics["record_retry_total"] == 3


@pytest.mark.anyio
async def test_async_waits_for_room_without_blocking_the_loop(bootstrap_servers: str, topic: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with AsyncProducer(bootstrap_servers=bootstrap_servers, buffer_memory=20_000, batch_size=5000) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            futures = [await producer.send(topic, b"x" * 500, partition=0) for _ in range(500)]
            tasks.cancel_scope.cancel()
        assert ticks > 2
        assert [(await future).offset for future in futures] == list(range(500))


@pytest.mark.anyio
async def test_async_callbacks_run_in_the_loop(bootstrap_servers: str, topic: str) -> None:
    seen: list[int] = []
    async with AsyncProducer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(10):
            await producer.send(topic, b"v", on_delivery=lambda metadata, error: seen.append(threading.get_ident()))
        await producer.flush(ANSWER)
        assert seen == [threading.get_ident()] * 10


async def test_async_cancelling_a_wait_leaves_the_producer_in_order(bootstrap_servers: str, topic: str) -> None:
    async with AsyncProducer(bootstrap_servers=bootstrap_servers, linger_ms=60_000) as producer:
        future = await producer.send(topic, b"v")
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.01):
                await future
        await producer.flush(ANSWER)
        assert (await future).offset == 0


@pytest.mark.anyio
async def test_async_failures_are_raised_by_close(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic, max_message_bytes="1000")
    producer = AsyncProducer(bootstrap_servers=bootstrap_servers)
    await producer.send(topic, b"x" * 5000)
    with pytest.raises(DeliveryError):
        await producer.close()
    with pytest.raises(ClosedError):
        await producer.send(topic, b"v")


@pytest.mark.not_simulated("holds up the network thread, which has no thread there")
def test_a_full_buffer_blocks_and_then_says_so(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    create(admin, topic)
    with Producer(
        bootstrap_servers=bootstrap_servers, buffer_memory=2000, batch_size=1000, max_block_ms=100
    ) as producer:
        producer.partitions_for(topic, timeout=ANSWER)
        core = producer._core
        stopped = threading.Event()
        held = threading.Event()

        def hold() -> None:
            held.set()
            stopped.wait(ANSWER)

        core.engine.submit(hold)
        assert held.wait(ANSWER)
        try:
            with pytest.raises(BufferExhaustedError, match="2000"):
                producer.send_many(topic, [b"x" * 500] * 10)
        finally:
            stopped.set()
        assert producer.send(topic, b"x").result(ANSWER).offset >= 0
