"""Transactional producers of the clients there are, behind one interface, each call waited for.

Each has its transactional id once it is made. What tells a program that another producer has that id becomes `Fenced`,
and that its record is of an old epoch, which may also be for another reason, `Refused`.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from kclient import ConsumerGroupMetadata, Producer, TopicPartition
from kclient.errors import InvalidProducerEpochError, ProducerFencedError
from tests.support.kafka.jars import TOOL_FLAGS, classpath
from tests.support.patience import ANSWER

PROGRAM = Path(__file__).with_name("java") / "TransactionalProducer.java"


class Refused(Exception):
    """A record is of an epoch that is over."""


class Fenced(Refused):
    """Another producer has the id."""


class Transactional(Protocol):
    """What a test asks of a producer."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: str) -> None:
        """Send a record and wait until it is written."""

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def _kclient_errors() -> Iterator[None]:
    try:
        yield
    except ProducerFencedError as error:
        raise Fenced from error
    except InvalidProducerEpochError as error:
        raise Refused from error


class Kclient:
    """kclient's."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap_servers, transactional_id=name, linger_ms=0)
        self._producer.init_transactions(ANSWER)

    def begin(self) -> None:
        with _kclient_errors():
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        with _kclient_errors():
            self._producer.send(topic, value.encode(), partition=partition).result(ANSWER)

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        with _kclient_errors():
            self._producer.send_offsets_to_transaction(
                {TopicPartition(topic, partition): offset}, ConsumerGroupMetadata(group), ANSWER
            )

    def commit(self) -> None:
        with _kclient_errors():
            self._producer.commit_transaction(ANSWER)

    def abort(self) -> None:
        with _kclient_errors():
            self._producer.abort_transaction(ANSWER)

    def close(self) -> None:
        self._producer.close(ANSWER)


@contextmanager
def _confluent_errors() -> Iterator[None]:
    from confluent_kafka import KafkaError, KafkaException

    try:
        try:
            yield
        except SystemError as error:
            # A fatal error that comes between two callbacks of one call breaks out of the second of them.
            if isinstance(error.__cause__, KafkaException):
                raise error.__cause__ from None
            raise
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED):
            raise Fenced from error
        if error.args[0].code() == KafkaError.INVALID_PRODUCER_EPOCH:
            raise Refused from error
        raise


class Confluent:
    """confluent-kafka's; by default librdkafka logs errors to standard error."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        import confluent_kafka

        self._kafka = confluent_kafka
        options = {"bootstrap.servers": bootstrap_servers, "transactional.id": name, "linger.ms": 0, "log_level": 0}
        self._producer = confluent_kafka.Producer(options)
        self._producer.init_transactions(ANSWER)

    def begin(self) -> None:
        with _confluent_errors():
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        failed: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)

        with _confluent_errors():
            self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
            assert self._producer.flush(ANSWER) == 0
            if failed:
                raise self._kafka.KafkaException(failed[0])

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = self._kafka.Consumer({"bootstrap.servers": "localhost:1", "group.id": group, "log_level": 0})
        wanted = [self._kafka.TopicPartition(topic, partition, offset)]
        with _confluent_errors():
            self._producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), ANSWER)
        consumer.close()

    def commit(self) -> None:
        with _confluent_errors():
            self._producer.commit_transaction(ANSWER)

    def abort(self) -> None:
        with _confluent_errors():
            self._producer.abort_transaction(ANSWER)

    def close(self) -> None:
        """It is closed with its last reference."""
        del self._producer


class Aiokafka:
    """aiokafka's, in an event loop of its own."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        from aiokafka import AIOKafkaProducer

        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=name)
            await producer.start()
            return producer

        self._producer = self._loop.run_until_complete(start())

    def _run(self, call: Callable[[], Awaitable[object]]) -> None:
        from aiokafka.errors import ProducerFenced

        try:
            self._loop.run_until_complete(asyncio.wait_for(call(), ANSWER))
        except ProducerFenced as error:
            raise Fenced from error

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._run(lambda: self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        wanted = {TopicPartition(topic, partition): offset}
        self._run(lambda: self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def close(self) -> None:
        try:
            self._run(self._producer.stop)
        except Fenced:
            """It says so again."""
        self._loop.close()


class Java:
    """That of Kafka's own client, which receives its calls line by line."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._process = subprocess.Popen(
            ["java", *TOOL_FLAGS, "-cp", classpath(), str(PROGRAM), bootstrap_servers, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._await_answer()

    def _await_answer(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("> "):
                break
        else:
            raise AssertionError(f"it ended with {self._process.wait()}")
        answer = line.removeprefix("> ").strip()
        if answer == "ProducerFencedException":
            raise Fenced
        if answer == "InvalidProducerEpochException":
            raise Refused
        assert answer == "ok", answer

    def _call(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._await_answer()

    def begin(self) -> None:
        self._call("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._call("send", topic, str(partition), value)

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._call("offsets", group, topic, str(partition), str(offset))

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


CLIENTS: dict[str, Callable[[str, str], Transactional]] = {
    "kclient": Kclient,
    "confluent": Confluent,
    "java": Java,
    "aiokafka": Aiokafka,
}
