"""Members of groups by the clients there are, behind one interface: most are polled by the test, in its thread.

`partitions` is what a member has, `received` how many records it was given. Elsewhere: producers, and consumers
without a group (`clients`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import confluent_kafka

from kclient.consumer import Consumer
from tests.support.kafka.jars import TOOL_FLAGS, classpath
from tests.support.kafka.tools import TOOLS
from tests.support.patience import CHANGE

JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class GroupMember(Protocol):
    """What a test asks of a member."""

    received: int

    @property
    def partitions(self) -> set[int]: ...

    def poll(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    """A member of confluent-kafka.

    Attributes:
        assignments: each one it was given, in order.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **settings: Any) -> None:
        self.assignments: list[set[int]] = []
        self.received = 0
        # With the consumer protocol, the broker sets the session timeout, and the client refuses the option.
        sessions = {} if "group.protocol" in settings else {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 500}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "client.id": "confluent",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **sessions,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_assign)

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self.assignments.append({each.partition for each in partitions})

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.received += 1

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class Kclient:
    """A member of kclient."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **options: Any) -> None:
        self.received = 0
        if options.get("group_protocol") != "consumer":
            options = {"heartbeat_interval_ms": 500, "session_timeout_ms": 30_000, **options}
        self._consumer = Consumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            client_id="kclient",
            auto_offset_reset="earliest",
            **options,
        )

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        self.received += len(list(self._consumer.poll(0.05)))

    def close(self) -> None:
        self._consumer.close(10.0)


class KafkaPython:
    """A member of kafka-python, polled by a thread of its own.

    It drops a join that completes between two polls and joins again, so a member that takes turns with others may
    rejoin indefinitely. A poll that is too short also gives up the commit before a rebalance, whose late answer makes
    the member forget who it is, while the group waits for the one it was.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **options: Any) -> None:
        # It warns when it is imported, which only the tests here look over.
        import kafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self.received = 0
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
            # As long as a group waits for a member that has forgotten who it was.
            session_timeout_ms=10_000,
            **{"partition_assignment_strategy": [RangePartitionAssignor], **options},
        )
        self._closing = threading.Event()
        self._executor = ThreadPoolExecutor(1)
        self._polling = self._executor.submit(self._poll_until_closed)

    def _poll_until_closed(self) -> None:
        while not self._closing.is_set():
            for records in self._consumer.poll(timeout_ms=1000).values():
                self.received += len(records)

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        """Raise the error that its polling has ended with, if it has."""
        if self._polling.done():
            self._polling.result()

    def close(self) -> None:
        self._closing.set()
        with self._executor:
            self._polling.result(CHANGE)
            self._consumer.close()


class Aiokafka:
    """A member of aiokafka, in an event loop of its own that runs as long as the test polls."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **options: Any) -> None:
        from aiokafka import AIOKafkaConsumer

        self.received = 0
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=500,
                session_timeout_ms=30_000,
                **options,
            )
            # It waits for its first assignment, and the others take part only when they are polled.
            self._starting = asyncio.ensure_future(consumer.start())
            return consumer

        self._consumer = self._loop.run_until_complete(start())

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()} if self._starting.done() else set()

    def poll(self) -> None:
        async def poll() -> None:
            if not self._starting.done():
                await asyncio.wait([self._starting], timeout=0.05)
                return
            for records in (await self._consumer.getmany(timeout_ms=50)).values():
                self.received += len(records)

        self._loop.run_until_complete(poll())

    def close(self) -> None:
        async def close() -> None:
            await asyncio.wait_for(self._starting, CHANGE)
            await self._consumer.stop()

        self._loop.run_until_complete(close())
        self._loop.close()


class Java:
    """A member of Kafka's own client: the verifiable consumer, which says in JSON what happens to it.

    Parameters:
        strategy: how a leader assigns; None for the consumer protocol.
        security: its options for a broker with security.

    Attributes:
        events: what it has said, in order.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        *,
        strategy: str | None = "range",
        instance_id: str | None = None,
        security: Sequence[str] = (),
    ) -> None:
        protocol = ["--group-protocol", "consumer"]
        if strategy is not None:
            assignor = f"org.apache.kafka.clients.consumer.{JAVA_ASSIGNORS[strategy]}"
            protocol = ["--session-timeout", "30000", "--assignment-strategy", assignor]
        self.received = 0
        self.partitions: set[int] = set()
        self.events: list[str] = []
        self._process = subprocess.Popen(
            [
                *("java", *TOOL_FLAGS, "-cp", classpath(), f"{TOOLS}.VerifiableConsumer"),
                *("--bootstrap-server", bootstrap_servers, *security, "--topic", topic, "--group-id", group),
                *("--reset-policy", "earliest", *protocol),
                *(() if instance_id is None else ("--group-instance-id", instance_id)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            self.events.append(event["name"])
            named = {each["partition"] for each in event.get("partitions", ()) if isinstance(each, dict)}
            if event["name"] == "partitions_assigned":
                self.partitions = self.partitions | named
            elif event["name"] == "partitions_revoked":
                self.partitions = self.partitions - named
            elif event["name"] == "records_consumed":
                self.received += event["count"]

    def poll(self) -> None:
        """It polls by itself."""

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(CHANGE)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join(5.0)
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextmanager
def closing(*members: Any) -> Iterator[None]:
    """Close the members at the end."""
    with ExitStack() as stack:
        for member in members:
            stack.callback(member.close)
        yield


def poll_until(condition: Callable[[], object], *members: GroupMember, seconds: float = CHANGE) -> None:
    """Have the members poll in turns until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, [(type(member).__name__, member.partitions) for member in members]
        for member in members:
            member.poll()
        # Kafka's own poll by themselves, and need the processor.
        time.sleep(0.01)


def share(members: list[Any], partitions: int) -> bool:
    """Whether the members have all partitions, each once, and everybody as many as anybody, or one less."""
    held = [member.partitions for member in members]
    sizes = [len(each) for each in held]
    return max(sizes) - min(sizes) <= 1 and sorted(n for each in held for n in each) == list(range(partitions))


def produce(bootstrap_servers: str, topic: str, count: int, partitions: int) -> None:
    """Append so many records, evenly."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(CHANGE) == 0
