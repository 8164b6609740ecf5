"""Consumers of others as members of groups: Kafka's own, confluent-kafka and kafka-python, alone, together and over the
death of the broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import Target
from tests.interop.kafka.tools import TOOLS, JavaTools, keyed_lines

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 4
SECONDS = 30.0


def _produce(bootstrap_servers: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


class Confluent:
    """A member of confluent-kafka.

    Attributes:
        assignments: each one it was given, in order.
        received: how many records.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **settings: Any) -> None:
        self.assignments: list[set[int]] = []
        self.received = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
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


class KafkaPython:
    """A member of kafka-python."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
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
            session_timeout_ms=30_000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=50).values():
            self.received += len(records)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _closing(*members: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for member in members:
            stack.callback(member.close)
        yield


def _poll_until(condition: Callable[[], object], *members: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, [member.partitions for member in members]
        for member in members:
            member.poll()


def _share(members: list[Any]) -> bool:
    """Whether the members have all partitions, each once, and everybody some."""
    held = [member.partitions for member in members]
    return all(held) and sorted(number for each in held for number in each) == list(range(PARTITIONS))


def _make(target: Target, topic: str) -> None:
    JavaTools(target.bootstrap_servers).create_topic(topic, PARTITIONS)


def test_the_verifiable_consumer_of_kafka(target: Target, topic: str) -> None:
    _make(target, topic)
    _produce(target.bootstrap_servers, topic, 1000)
    output = JavaTools(target.bootstrap_servers).run(
        f"{TOOLS}.VerifiableConsumer", "--topic", topic, "--group-id", topic, "--max-messages", "1000",
        "--reset-policy", "earliest", "--group-protocol", "classic",
    )  # fmt: skip
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assigned = next(event for event in events if event["name"] == "partitions_assigned")
    assert len(assigned["partitions"]) == PARTITIONS
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert committed
    assert all(event["success"] for event in committed)


def test_the_console_consumer_of_kafka_goes_on_where_its_group_was(target: Target, topic: str) -> None:
    java = JavaTools(target.bootstrap_servers)
    java.create_topic(topic)
    java.produce(
        topic, keyed_lines(300), *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    )

    def consume(count: int) -> str:
        return java.run(
            f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--group", topic, "--from-beginning",
            "--max-messages", str(count), "--timeout-ms", "20000",
        )  # fmt: skip

    assert "Processed a total of 200 messages" in consume(200)
    rest = consume(100)
    assert "Processed a total of 100 messages" in rest
    assert [line for line in rest.splitlines() if line.startswith("v")] == [f"v{n}" for n in range(201, 301)]


def test_two_members_share_the_partitions_and_one_takes_them_over(target: Target, topic: str) -> None:
    _make(target, topic)
    _produce(target.bootstrap_servers, topic, 100)
    first = Confluent(target.bootstrap_servers, topic, topic)
    with _closing(first):
        _poll_until(lambda: first.received == 100, first)
        second = Confluent(target.bootstrap_servers, topic, topic)
        with _closing(second):
            _poll_until(lambda: _share([first, second]), first, second)
        _poll_until(lambda: len(first.partitions) == PARTITIONS, first)
        _produce(target.bootstrap_servers, topic, 100)
        _poll_until(lambda: first.received >= 200, first)
    assert (first.received, second.received) == (200, 0)


def test_members_of_two_clients_share_a_group(target: Target, topic: str) -> None:
    _make(target, topic)
    _produce(target.bootstrap_servers, topic, 100)
    settings = {"partition.assignment.strategy": "range"}
    members = [
        Confluent(target.bootstrap_servers, topic, topic, **settings),
        KafkaPython(target.bootstrap_servers, topic, topic),
    ]
    with _closing(*members):
        _poll_until(lambda: _share(members), *members)
        before = sum(member.received for member in members)
        _produce(target.bootstrap_servers, topic, 100)
        _poll_until(lambda: sum(member.received for member in members) >= before + 100, *members)


@pytest.mark.refbroker_only
def test_a_static_member_comes_back_to_what_it_had(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path / "data", settings={"group.initial.rebalance.delay.ms": "0"}) as process:
        target = Target(process.bootstrap_servers, [])
        _make(target, topic)
        first = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "one"})
        second = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "two"})
        with _closing(first):
            _poll_until(lambda: _share([first, second]), first, second)
            held, assigned = second.partitions, len(first.assignments)
            second.close()
            again = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "two"})
            with _closing(again):
                _poll_until(lambda: again.partitions == held, first, again)
            assert len(first.assignments) == assigned, "nobody else has noticed"


@pytest.mark.refbroker_only
@pytest.mark.parametrize("kill", [False, True], ids=["restart", "kill"])
def test_members_go_on_with_the_broker_that_comes_back(tmp_path: Path, topic: str, kill: bool) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    process = BrokerProcess(tmp_path / "data", settings=settings)
    with ExitStack() as stack:
        with process:
            at = process.bootstrap_servers
            _make(Target(at, []), topic)
            members = [Confluent(at, topic, topic, **{"enable.auto.commit": False}) for _ in range(2)]
            _poll_until(lambda: _share(members), *members)
            _produce(at, topic, 100)
            _poll_until(lambda: sum(each.received for each in members) >= 100, *members)
            for member in members:
                member.commit()
                stack.callback(member.close)
            assigned = [len(member.assignments) for member in members]
            process.stop(kill=kill)
        port = int(at.rpartition(":")[2])
        stack.enter_context(BrokerProcess(tmp_path / "data", port=port, settings=settings))
        _produce(at, topic, 100)
        _poll_until(lambda: sum(member.received for member in members) >= 200, *members)
        for member in members:
            member.commit()
        assert [len(member.assignments) for member in members] == assigned, "the generation is the same"
        assert sum(member.received for member in members) == 200


def test_the_offsets_formatter_of_kafka_prints_generations(target: Target, topic: str) -> None:
    _make(target, topic)
    member = Confluent(target.bootstrap_servers, topic, topic, **{"client.id": "printed"})
    with _closing(member):
        _poll_until(lambda: len(member.partitions) == PARTITIONS, member)
    output = JavaTools(target.bootstrap_servers).run(
        f"{TOOLS}.consumer.ConsoleConsumer", "--topic", "__consumer_offsets", "--from-beginning",
        "--formatter", f"{TOOLS}.consumer.GroupMetadataMessageFormatter", "--timeout-ms", "5000",
    )  # fmt: skip
    printed, start = [], output.find("{")
    while start >= 0:
        # The tool puts them one after the other, without a break between two of them.
        found, end = json.JSONDecoder().raw_decode(output, start)
        printed.append(found)
        start = output.find("{", end)
    values = [each["value"]["data"] for each in printed if each["key"]["data"]["group"] == topic and each.get("value")]
    generation = next(value for value in values if value["members"])
    assert (generation["generation"], generation["protocolType"]) == (1, "consumer")
    assert generation["members"][0]["clientId"] == "printed"
    assert values[-1]["members"] == []
