"""One measurement in a process of its own: `workers.py WHAT CLIENT BOOTSTRAP TOPIC COUNT SIZE MODE`.

Each client does the same work in the loop that its own users would write, with settings that are fair to it: MODE is
`default` (what a user gets who sets nothing but what the work itself demands) or `tuned`; `tuned-zstd` and the like
also say how to compress. Prints one JSON object; leaves topics, brokers and comparison to `__main__`.

Two variables of the environment add what the TLS part needs: KCLIENT_BENCH_CA is the file of the authority to trust,
and turns TLS on; KCLIENT_BENCH_BUSY=1 runs a thread of pure Python beside the measurement.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

WARM_UP = 50
MEBIBYTE = 1 << 20
BURST = 500
"""The records that one of many producers sends before the next one; one by one, all batches would be tiny."""

CA = os.environ.get("KCLIENT_BENCH_CA", "")
BUSY = os.environ.get("KCLIENT_BENCH_BUSY", "") == "1"
KCLIENT_SECURITY: dict[str, Any] = {"security_protocol": "SSL", "ssl_truststore_location": CA} if CA else {}
CONFLUENT_SECURITY: dict[str, Any] = {"security.protocol": "ssl", "ssl.ca.location": CA} if CA else {}


def values(size: int) -> list[bytes]:
    """Return a thousand different values, so that no codec or cache has an advantage."""
    return [os.urandom((size + 1) // 2).hex().encode()[:size] for _ in range(1000)]


def throughput(started: float, cpu: float, count: int, **extra: Any) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    return {
        "rate": count / seconds,
        "cpu_per_million": (time.process_time() - cpu) / count * 1e6,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **extra,
    }


def latencies(samples: list[float]) -> dict[str, Any]:
    ordered = sorted(samples[WARM_UP:])
    return {"p50_us": ordered[len(ordered) // 2] * 1e6, "p99_us": ordered[int(len(ordered) * 0.99)] * 1e6}


# --- kclient ---------------------------------------------------------------------------------------------------------


def network_waits(metrics: Mapping[Any, float]) -> dict[str, Any]:
    """Return the network thread's waits for the GIL, as the client counts them."""
    return {name: value for name, value in metrics.items() if "gil" in name}


def kclient_produce(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from kclient import Producer

    data = values(size)
    options: Any = {"buffer_memory": 256 * MEBIBYTE} if mode == "tuned" else {}
    with Producer(bootstrap_servers=bootstrap, **KCLIENT_SECURITY, **options) as producer:
        producer.partitions_for(topic)
        send = producer.send
        started, cpu = time.perf_counter(), time.process_time()
        for number in range(count):
            send(topic, data[number % 1000])
        producer.flush()
        return throughput(started, cpu, count, **network_waits(producer.metrics()))


def kclient_consumer(bootstrap: str, topic: str, mode: str) -> Any:
    from kclient import Consumer, TopicPartition

    tuned: Any = {"fetch_max_bytes": 64 * MEBIBYTE, "max_partition_fetch_bytes": 10 * MEBIBYTE}
    options = KCLIENT_SECURITY | (tuned if mode == "tuned" else {})
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options)
    consumer.assign([TopicPartition(topic, partition) for partition in range(len(consumer.partitions_for(topic)))])
    return consumer


def kclient_consume(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    with kclient_consumer(bootstrap, topic, mode) as consumer:
        records = iter(consumer)
        total = len(next(records).value)
        seen = 1
        started, cpu = time.perf_counter(), time.process_time()
        for record in records:
            total += len(record.value)
            seen += 1
            if seen == count:
                break
        return throughput(started, cpu, count)


def kclient_poll(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    with kclient_consumer(bootstrap, topic, mode) as consumer:
        total = seen = 0
        for record in consumer.poll(timeout=10, max_records=1):
            total, seen = len(record.value), 1
        started, cpu = time.perf_counter(), time.process_time()
        while seen < count:
            records = consumer.poll(timeout=1.0, max_records=10_000)
            seen += len(records)
            for record in records:
                total += len(record.value)
        return throughput(started, cpu, count, **network_waits(consumer.metrics()))


def kclient_arrow(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    with kclient_consumer(bootstrap, topic, mode) as consumer:
        seen = consumer.poll(timeout=10, max_records=1).to_arrow().num_rows
        started, cpu = time.perf_counter(), time.process_time()
        while seen < count:
            seen += consumer.poll(timeout=1.0, max_records=1_000_000).to_arrow().num_rows
        return throughput(started, cpu, count)


def kclient_latency(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from kclient import Producer

    value, samples = values(size)[0], []
    with Producer(bootstrap_servers=bootstrap, linger_ms=0, **KCLIENT_SECURITY) as producer:
        producer.partitions_for(topic)
        for _ in range(count + WARM_UP):
            started = time.perf_counter()
            producer.send(topic, value).result()
            samples.append(time.perf_counter() - started)
    return latencies(samples)


# --- confluent-kafka -------------------------------------------------------------------------------------------------


def confluent_produce(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    import confluent_kafka

    data = values(size)
    mode, _, codec = mode.partition("-")
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
    settings |= CONFLUENT_SECURITY
    settings["compression.type"] = codec or "none"
    if mode == "tuned":
        settings |= {
            "linger.ms": 5,
            # With 1,000,000 its batches exceed the broker's limit, and most records are lost silently.
            "batch.size": 900_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    producer = confluent_kafka.Producer(settings)
    producer.list_topics(topic)
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, data[number % 1000])
                break
            except BufferError:
                producer.poll(0.01)
        if number & 0xFFF == 0:
            producer.poll(0)
    producer.flush()
    return throughput(started, cpu, count)


def confluent_consume(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    import confluent_kafka

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **CONFLUENT_SECURITY,
    }
    if mode.startswith("tuned"):
        settings |= {
            "fetch.max.bytes": 64 * MEBIBYTE,
            "max.partition.fetch.bytes": 10 * MEBIBYTE,
            "queued.min.messages": 2_000_000,
            "queued.max.messages.kbytes": 1_048_576,
        }
    consumer = confluent_kafka.Consumer(settings)
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in partitions])
    seen, total = len(consumer.consume(1, 10)), 0
    started, cpu = time.perf_counter(), time.process_time()
    while seen < count:
        # If more is requested than remains, it waits for its whole timeout at the end.
        messages = consumer.consume(min(10_000, count - seen), 1.0)
        seen += len(messages)
        for message in messages:
            total += len(message.value())
    return throughput(started, cpu, count)


def confluent_produce_together(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    """Produce with as many producers as MODE says, each with its own connection, which share the work."""
    import confluent_kafka

    data, clients = values(size), int(mode)
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "enable.idempotence": True}
    producers = [confluent_kafka.Producer(settings) for _ in range(clients)]
    for producer in producers:
        producer.list_topics(topic)
    started, cpu = time.perf_counter(), time.process_time()
    each = count // clients
    for first in range(0, each, BURST):
        for producer in producers:
            for number in range(first, min(first + BURST, each)):
                producer.produce(topic, data[number % 1000])
    for producer in producers:
        producer.flush()
    return throughput(started, cpu, count // clients * clients)


def confluent_consume_from(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    """Read `count` records of partition 0 from the offset that MODE gives."""
    import confluent_kafka

    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    # With a short queue, only its pauses between fetches would be measured.
    queue = {"queued.min.messages": 2_000_000, "queued.max.messages.kbytes": 1_048_576}
    consumer = confluent_kafka.Consumer({**settings, **queue})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, int(mode))])
    seen = len(consumer.consume(1, 10))
    started, cpu = time.perf_counter(), time.process_time()
    while seen < count:
        seen += len(consumer.consume(min(10_000, count - seen), 1.0))
    return throughput(started, cpu, count)


def confluent_latency(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    import confluent_kafka

    value, samples = values(size)[0], []
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "enable.idempotence": True}
    producer = confluent_kafka.Producer(settings | CONFLUENT_SECURITY)
    producer.list_topics(topic)
    for _ in range(count + WARM_UP):
        started = time.perf_counter()
        producer.produce(topic, value)
        producer.flush()
        samples.append(time.perf_counter() - started)
    return latencies(samples)


# --- kafka-python and aiokafka ---------------------------------------------------------------------------------------


def kafka_python_produce(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from kafka import KafkaProducer

    data = values(size)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, acks="all", batch_size=1_000_000)
    producer.partitions_for(topic)
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        producer.send(topic, data[number % 1000])
    producer.flush()
    return throughput(started, cpu, count)


def kafka_python_consume(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=64 * MEBIBYTE,
        max_partition_fetch_bytes=10 * MEBIBYTE,
        max_poll_records=10_000,
    )
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    seen = total = 0
    while not seen:
        seen = sum(map(len, consumer.poll(1000).values()))
    started, cpu = time.perf_counter(), time.process_time()
    while seen < count:
        for messages in consumer.poll(1000).values():
            seen += len(messages)
            for message in messages:
                total += len(message.value)
    return throughput(started, cpu, count)


def aiokafka_produce(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from aiokafka import AIOKafkaProducer

    async def main() -> dict[str, Any]:
        data = values(size)
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, linger_ms=5, acks="all", enable_idempotence=True, max_batch_size=1_000_000
        )
        await producer.start()
        await producer.partitions_for(topic)
        started, cpu = time.perf_counter(), time.process_time()
        for number in range(count):
            await producer.send(topic, data[number % 1000])
        await producer.flush()
        result = throughput(started, cpu, count)
        await producer.stop()
        return result

    return asyncio.run(main())


def aiokafka_consume(bootstrap: str, topic: str, count: int, size: int, mode: str) -> dict[str, Any]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def main() -> dict[str, Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_bytes=64 * MEBIBYTE,
            max_partition_fetch_bytes=10 * MEBIBYTE,
        )
        await consumer.start()
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        seen = total = 0
        while not seen:
            seen = sum(map(len, (await consumer.getmany(timeout_ms=1000, max_records=1)).values()))
        started, cpu = time.perf_counter(), time.process_time()
        while seen < count:
            for messages in (await consumer.getmany(timeout_ms=1000, max_records=10_000)).values():
                seen += len(messages)
                for message in messages:
                    total += len(message.value)
        result = throughput(started, cpu, count)
        await consumer.stop()
        return result

    return asyncio.run(main())


WORKERS: dict[tuple[str, str], Callable[[str, str, int, int, str], dict[str, Any]]] = {
    ("produce", "kclient"): kclient_produce,
    ("produce", "confluent-kafka"): confluent_produce,
    ("produce", "kafka-python"): kafka_python_produce,
    ("produce", "aiokafka"): aiokafka_produce,
    ("consume", "kclient"): kclient_consume,
    ("consume", "confluent-kafka"): confluent_consume,
    ("consume", "kafka-python"): kafka_python_consume,
    ("consume", "aiokafka"): aiokafka_consume,
    ("poll", "kclient"): kclient_poll,
    ("arrow", "kclient"): kclient_arrow,
    ("together", "confluent-kafka"): confluent_produce_together,
    ("consume-from", "confluent-kafka"): confluent_consume_from,
    ("latency", "kclient"): kclient_latency,
    ("latency", "confluent-kafka"): confluent_latency,
}


def spin() -> None:
    """Compute in pure Python, like an application that does something else besides."""
    number = 0
    while True:
        number = (number * 31 + 7) & 0xFFFF


def main() -> None:
    if BUSY:
        threading.Thread(target=spin, daemon=True).start()
    what, client, bootstrap, topic, count, size, mode = sys.argv[1:]
    print(json.dumps(WORKERS[what, client](bootstrap, topic, int(count), int(size), mode)), flush=True)


if __name__ == "__main__":
    main()
