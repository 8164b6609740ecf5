"""The copier that is written with confluent-kafka's calls; see `copier`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as Kinds

from tests.interop.copies import (
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

FENCING = (Kinds._FENCED, Kinds.FENCED_INSTANCE_ID, Kinds._FATAL)


class ConfluentCopier:
    """A copier of confluent-kafka's calls.

    Parameters:
        address: of the brokers.
        instance: the member's group.instance.id.
    """

    def __init__(self, address: str, instance: str, rng: random.Random) -> None:
        self._rng = rng
        self._fatal: list[Any] = []
        common: dict[str, Any] = {
            "bootstrap.servers": address,
            "reconnect.backoff.max.ms": 500,
            # When it starts over from the bootstrap servers, librdkafka 2.16 continues to wait for the group's
            # coordinator at the connection that it has given up, and never commits offsets again.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._consumer = Consumer(
            {
                **common,
                **MEMBER,
                "group.id": GROUP,
                "group.instance.id": instance,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "error_cb": self._note_fatal,
            }
        )
        self._producer = Producer(
            {
                **common,
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )

    def _note_fatal(self, error: Any) -> None:
        # What is raised here does not come out of `consume`.
        if error.fatal():
            self._fatal.append(error)

    def run(self) -> None:
        """Copy until another process takes its place."""
        self._consumer.subscribe([SOURCE])
        try:
            again(lambda: self._producer.init_transactions(60))
            say("ready")
            while True:
                self._copy()
        except KafkaException as error:
            if error.args[0].code() not in FENCING:
                raise
            fenced(error)

    def _copy(self) -> None:
        messages = self._read()
        if not messages:
            return
        try:
            self._producer.begin_transaction()
            self._send(messages)
            if self._rng.random() < GIVEN_UP:
                self._producer.flush(60)
                raise GivenUp
            again(lambda: self._producer.commit_transaction(60))
        except (GivenUp, KafkaException) as error:
            if isinstance(error, KafkaException) and not error.args[0].txn_requires_abort():
                raise
            again(lambda: self._producer.abort_transaction(60))
            say(f"aborted {error!r}")
            self._go_back()
        else:
            say("committed")

    def _read(self) -> list[Any]:
        messages: list[Any] = self._consumer.consume(self._rng.randint(1, LARGEST), 0.05)
        for error in (*self._fatal, *(message.error() for message in messages)):
            if error is not None:
                raise KafkaException(error)
        return messages

    def _send(self, messages: list[Any]) -> None:
        offsets: dict[int, int] = {}
        for message in messages:
            offsets[message.partition()] = message.offset() + 1
            self._producer.produce(TARGET, message.value(), partition=message.partition())
        wanted = [TopicPartition(SOURCE, partition, offset) for partition, offset in offsets.items()]
        metadata = self._consumer.consumer_group_metadata
        again(lambda: self._producer.send_offsets_to_transaction(wanted, metadata(), 60))

    def _go_back(self) -> None:
        for committed in self._consumer.committed(self._consumer.assignment(), 60):
            self._seek(TopicPartition(SOURCE, committed.partition, max(committed.offset, 0)))

    def _seek(self, place: Any) -> None:
        while True:
            try:
                self._consumer.seek(place)
                return
            except KafkaException as failed:
                # It has been assigned, but librdkafka does not fetch from it yet.
                if failed.args[0].code() != Kinds._STATE:
                    raise
                time.sleep(0.01)


def again(call: Callable[[], object]) -> None:
    """Repeat what librdkafka calls retriable, which it leaves to the application."""
    while True:
        try:
            call()
            return
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
