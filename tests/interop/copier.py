"""A program to be killed, that copies `in` to `out` once: `python -m tests.interop.copier KIND ADDRESS INSTANCE SEED`.

Transactions have from one record to thirty, of all partitions that the process has; some are given up on purpose. Each
line of what it says begins with `ready`, `committed` or `aborted`. When another process has taken its place it ends by
itself, with the status `FENCED`; what else ends it is a mistake. KIND says with whose calls it is written.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

SOURCE, TARGET, GROUP, TRANSACTIONAL_ID = "in", "out", "copiers", "copier"
LARGEST = 30
GIVEN_UP = 0.1
FENCED = 3
MEMBER = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500, "auto.offset.reset": "earliest"}
TRANSACTION_TIMEOUT_MS = 30_000


class GivenUp(Exception):
    """A transaction that shall not be committed."""


def say(word: str) -> None:
    os.write(1, word.encode() + b"\n")


def fenced(error: Exception) -> None:
    say(f"fenced {error!r}")
    os._exit(FENCED)


def plain(address: str, instance: str, rng: random.Random) -> None:
    """kclient's calls, one by one."""
    from kclient import Consumer, Producer
    from kclient.errors import FencedInstanceIdError, KafkaError, ProducerFencedError

    consumer = Consumer.from_properties(
        {
            **MEMBER,
            "bootstrap.servers": address,
            "group.id": GROUP,
            "group.instance.id": instance,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    producer = Producer(
        bootstrap_servers=address, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )

    def go_back() -> None:
        for partition, committed in consumer.committed(consumer.assignment()).items():
            consumer.seek(partition, committed or 0)

    def copy() -> None:
        if not (records := consumer.poll(timeout=0.2, max_records=rng.randint(1, LARGEST))):
            return
        try:
            with producer.transaction():
                for record in records:
                    producer.send(TARGET, record.value, partition=record.partition)
                producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
                if rng.random() < GIVEN_UP:
                    producer.flush()
                    raise GivenUp
        except (GivenUp, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.abortable:
                raise
            say(f"aborted {error!r}")
            go_back()
        else:
            say("committed")

    consumer.subscribe([SOURCE])
    try:
        producer.init_transactions()
        say("ready")
        while True:
            copy()
    except (ProducerFencedError, FencedInstanceIdError) as error:
        fenced(error)


def confluent(address: str, instance: str, rng: random.Random) -> None:
    """confluent-kafka's."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

    def raise_fatal(error: Any) -> None:
        if error.fatal():
            raise KafkaException(error)

    consumer = Consumer(
        {
            **MEMBER,
            "bootstrap.servers": address,
            "group.id": GROUP,
            "group.instance.id": instance,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "error_cb": raise_fatal,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": TRANSACTIONAL_ID,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )

    def again(call: Callable[[], object]) -> None:
        """librdkafka leaves it to the application to repeat what it calls retriable."""
        while True:
            try:
                call()
                return
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise

    def go_back() -> None:
        for committed in consumer.committed(consumer.assignment(), 60):
            consumer.seek(TopicPartition(SOURCE, committed.partition, max(committed.offset, 0)))

    def copy() -> None:
        messages = consumer.consume(rng.randint(1, LARGEST), 0.05)
        offsets: dict[Any, int] = {}
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            offsets[message.partition()] = (message.offset() or 0) + 1
        if not messages:
            return
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(TARGET, message.value(), partition=message.partition() or 0)
            wanted = [TopicPartition(SOURCE, partition, offset) for partition, offset in offsets.items()]
            again(lambda: producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), 60))
            if rng.random() < GIVEN_UP:
                producer.flush(60)
                raise GivenUp
            again(lambda: producer.commit_transaction(60))
        except (GivenUp, KafkaException) as error:
            if isinstance(error, KafkaException) and not error.args[0].txn_requires_abort():
                raise
            again(lambda: producer.abort_transaction(60))
            say(f"aborted {error!r}")
            go_back()
        else:
            say("committed")

    consumer.subscribe([SOURCE])
    try:
        again(lambda: producer.init_transactions(60))
        say("ready")
        while True:
            copy()
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL):
            raise
        fenced(error)


KINDS: dict[str, Callable[[str, str, random.Random], None]] = {"plain": plain, "confluent": confluent}


def main() -> None:
    kind, address, instance, seed = sys.argv[1:]
    KINDS[kind](address, instance, random.Random(int(seed)))


if __name__ == "__main__":
    main()
