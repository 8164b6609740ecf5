"""The Kafka clients of Python behind two functions, produce and consume, so that any can write what any other reads.

Nothing here uses consumer groups: every consumer is assigned its partition.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from tests.support.patience import ANSWER


class Message(NamedTuple):
    """What must survive the way from one client to another."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Client(NamedTuple):
    """One client: how it writes to, and how it reads from, partition 0 of a topic."""

    produce: Callable[[str, str, list[Message], str], None]
    consume: Callable[[str, str, int], list[Message]]


def _kclient_produce(bootstrap_servers: str, topic: str, messages: list[Message], codec: str) -> None:
    from kclient import Producer

    with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec) as producer:
        for key, value, headers, timestamp in messages:
            producer.send(topic, value, key=key, headers=headers, partition=0, timestamp=timestamp)


def _kclient_consume(bootstrap_servers: str, topic: str, count: int) -> list[Message]:
    from kclient import Consumer, TopicPartition

    found: list[Message] = []
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count and (records := consumer.poll(timeout=ANSWER)):
            found.extend(Message(r.key, r.value, tuple(r.headers), r.timestamp) for r in records)
    return found


def _confluent_produce(bootstrap_servers: str, topic: str, messages: list[Message], codec: str) -> None:
    from confluent_kafka import Producer

    failures: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error:
            failures.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
    )
    for key, value, headers, timestamp in messages:
        producer.produce(
            topic, value, key, partition=0, timestamp=timestamp, headers=list(headers), on_delivery=delivered
        )
    assert producer.flush(ANSWER) == 0
    assert not failures, failures


def _confluent_consume(bootstrap_servers: str, topic: str, count: int) -> list[Message]:
    from confluent_kafka import Consumer, TopicPartition

    found: list[Message] = []
    # librdkafka wants a group's name even where it is never joined.
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": f"unused-{topic}", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(found) < count and (batch := consumer.consume(count - len(found), timeout=ANSWER)):
            for message in batch:
                assert message.error() is None, message.error()
                headers = tuple((name, value) for name, value in message.headers() or ())
                found.append(Message(message.key(), message.value(), headers, message.timestamp()[1]))
    finally:
        consumer.close()
    return found


def _kafka_python_produce(bootstrap_servers: str, topic: str, messages: list[Message], codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers.split(","),
        compression_type=None if codec == "none" else codec,
        acks="all",
    )
    try:
        futures = [
            producer.send(topic, value, key=key, headers=list(headers), partition=0, timestamp_ms=timestamp)
            for key, value, headers, timestamp in messages
        ]
        for future in futures:
            future.get(ANSWER)
    finally:
        producer.close(ANSWER)


def _kafka_python_consume(bootstrap_servers: str, topic: str, count: int) -> list[Message]:
    from kafka import KafkaConsumer, TopicPartition

    found: list[Message] = []
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=ANSWER * 1000,
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        for record in consumer:
            found.append(Message(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp))
            if len(found) == count:
                break
    finally:
        consumer.close()
    return found


def _aiokafka_produce(bootstrap_servers: str, topic: str, messages: list[Message], codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, value, key, partition=0, timestamp_ms=timestamp, headers=list(headers))
                for key, value, headers, timestamp in messages
            ]
            await asyncio.wait_for(asyncio.gather(*sent), ANSWER)
        finally:
            await producer.stop()

    asyncio.run(produce())


def _aiokafka_consume(bootstrap_servers: str, topic: str, count: int) -> list[Message]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def consume() -> list[Message]:
        found: list[Message] = []
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            async with asyncio.timeout(ANSWER):
                async for record in consumer:
                    headers = tuple(map(tuple, record.headers))
                    found.append(Message(record.key, record.value, headers, record.timestamp))
                    if len(found) == count:
                        break
        finally:
            await consumer.stop()
        return found

    return asyncio.run(consume())


CLIENTS = {
    "kclient": Client(_kclient_produce, _kclient_consume),
    "confluent": Client(_confluent_produce, _confluent_consume),
    "kafka_python": Client(_kafka_python_produce, _kafka_python_consume),
    "aiokafka": Client(_aiokafka_produce, _aiokafka_consume),
}
_MODULES = {"confluent": "confluent_kafka", "kafka_python": "kafka", "aiokafka": "aiokafka", "kclient": "kclient"}


def client(name: str) -> Client:
    """A client by name; skips the test where it is not installed."""
    if importlib.util.find_spec(_MODULES[name]) is None:
        pytest.skip(f"{_MODULES[name]} is not installed")
    return CLIENTS[name]


def pairs(others: Iterable[str] = ("confluent", "kafka_python", "aiokafka")) -> list[tuple[str, str]]:
    """Writer and reader: each other client on its own, to kclient, and from kclient."""
    return [pair for other in others for pair in ((other, other), (other, "kclient"), ("kclient", other))]
