"""A program to be killed, that copies `in` to `out` once: `python -m tests.interop.copier KIND ADDRESS INSTANCE SEED`.

Transactions have from one record to thirty, of all partitions that the process has; some are given up on purpose. Each
line of what it says begins with `ready`, `committed` or `aborted`. When another process has taken its place it ends by
itself, with the status `FENCED`, or `BROKER_FAILED` where it does not hear why; what else ends it is a mistake. KIND
says with whose calls it is written.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

from kclient import Consumer, ConsumerRecord, Producer, ProducerRecord
from kclient.errors import (
    FencedInstanceIdError,
    KafkaError,
    ProducerFencedError,
    TransformError,
    UnknownServerError,
)
from kclient.transform import Transform
from tests.interop.copies import (
    BROKER_FAILED,
    GIVEN_UP,
    GROUP,
    LARGEST,
    MEMBER,
    SOURCE,
    TARGET,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTIONAL_ID,
    GivenUp,
    fenced,
    say,
)


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
    from tests.interop.confluent_copier import ConfluentCopier

    ConfluentCopier(address, instance, rng).run()


KINDS: dict[str, Callable[[str, str, random.Random], None]] = {
    "transform": transform,
    "plain": plain,
    "confluent": confluent,
}


def main() -> None:
    kind, address, instance, seed = sys.argv[1:]
    try:
        KINDS[kind](address, instance, random.Random(int(seed)))
    except UnknownServerError as error:
        say(f"failed {error!r}")
        os._exit(BROKER_FAILED)


if __name__ == "__main__":
    main()
