"""A program to be killed, that copies `in` to `out` once: `python -m tests.interop.copier KIND ADDRESS INSTANCE SEED`.

Transactions have from one record to thirty, of all partitions that the process has; some are given up on purpose. Each
line of what it says begins with `ready`, `committed` or `aborted`. When another process has taken its place it ends by
itself, with the status `FENCED`; what else ends it is a mistake. KIND says with whose calls it is written.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from kclient import Consumer, ConsumerRecord, Producer, ProducerRecord
from kclient.errors import FencedInstanceIdError, KafkaError, ProducerFencedError, TransformError
from kclient.transform import Transform

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


def clients(address: str, instance: str) -> tuple[Consumer, Producer]:
    """Those of kclient."""
    options = {**MEMBER, "bootstrap.servers": address, "group.id": GROUP, "group.instance.id": instance}
    options |= {"isolation.level": "read_committed", "enable.auto.commit": False}
    timeout = TRANSACTION_TIMEOUT_MS
    producer = Producer(bootstrap_servers=address, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=timeout)
    return Consumer.from_properties(options, SOURCE), producer


def transform(address: str, instance: str, rng: random.Random) -> None:
    """kclient's loop, run again after each record that the function fails on."""
    consumer, producer = clients(address, instance)
    committed = 0

    def copied(record: ConsumerRecord) -> ProducerRecord:
        nonlocal committed
        before, committed = committed, int(loop.metrics()["transform_commit_total"])
        for _ in range(committed - before):
            say("committed")
        if rng.random() < GIVEN_UP / LARGEST:
            producer.flush()
            raise GivenUp
        return ProducerRecord(TARGET, record.value, partition=record.partition)

    loop = Transform(consumer, producer, copied, max_records=LARGEST, max_seconds=0.01)
    say("ready")
    while True:
        try:
            loop.run()
        except TransformError as error:
            say(f"aborted {error!r}")
        except (ProducerFencedError, FencedInstanceIdError) as error:
            fenced(error)


def plain(address: str, instance: str, rng: random.Random) -> None:
    """kclient's calls, one by one."""
    consumer, producer = clients(address, instance)

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

    try:
        producer.init_transactions()
        say("ready")
        while True:
            copy()
    except (ProducerFencedError, FencedInstanceIdError) as error:
        fenced(error)


def confluent(address: str, instance: str, rng: random.Random) -> None:
    """confluent-kafka's."""
    import confluent_kafka
    from confluent_kafka import KafkaException, TopicPartition

    kinds = confluent_kafka.KafkaError
    fencing = (kinds._FENCED, kinds.FENCED_INSTANCE_ID, kinds._FATAL)

    fatal: list[Any] = []

    def note_fatal(error: Any) -> None:
        # What is raised here does not come out of `consume`.
        if error.fatal():
            fatal.append(error)

    common: dict[str, Any] = {
        "bootstrap.servers": address,
        "reconnect.backoff.max.ms": 500,
        # When it starts over from the bootstrap servers, librdkafka 2.16 goes on waiting for the group's coordinator at
        # the connection that it has given up, and never commits offsets again.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(
        {
            **common,
            **MEMBER,
            "group.id": GROUP,
            "group.instance.id": instance,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "error_cb": note_fatal,
        }
    )
    producer = confluent_kafka.Producer(
        {
            **common,
            "transactional.id": TRANSACTIONAL_ID,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
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

    def seek(place: TopicPartition) -> None:
        while True:
            try:
                return consumer.seek(place)
            except KafkaException as failed:
                # It has been assigned, but librdkafka does not fetch from it yet.
                if failed.args[0].code() != kinds._STATE:
                    raise
                time.sleep(0.01)

    def go_back() -> None:
        for committed in consumer.committed(consumer.assignment(), 60):
            seek(TopicPartition(SOURCE, committed.partition, max(committed.offset, 0)))

    def copy() -> None:
        messages = consumer.consume(rng.randint(1, LARGEST), 0.05)
        if fatal:
            raise KafkaException(fatal[0])
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
        if error.args[0].code() not in fencing:
            raise
        fenced(error)


KINDS: dict[str, Callable[[str, str, random.Random], None]] = {
    "transform": transform,
    "plain": plain,
    "confluent": confluent,
}


def main() -> None:
    kind, address, instance, seed = sys.argv[1:]
    KINDS[kind](address, instance, random.Random(int(seed)))


if __name__ == "__main__":
    main()
