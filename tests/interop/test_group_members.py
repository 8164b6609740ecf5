"""Consumers of others as members of groups: Kafka's own in both protocols; confluent-kafka, kafka-python and aiokafka
in the classic one, alone, together and over the death of the broker.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import Target
from tests.interop.members import (
    Aiokafka,
    Confluent,
    GroupMember,
    KafkaPython,
    Kclient,
    closing,
    poll_until,
    produce,
    share,
)
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import free_ports
from tests.support.kafka.tools import TOOLS, JavaTools, keyed_lines

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 4

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def _make(target: Target, topic: str) -> None:
    JavaTools(target.bootstrap_servers).create_topic(topic, PARTITIONS)


@both_protocols
def test_the_verifiable_consumer_of_kafka(target: Target, topic: str, protocol: str) -> None:
    _make(target, topic)
    produce(target.bootstrap_servers, topic, 1000, PARTITIONS)
    output = JavaTools(target.bootstrap_servers).run(
        f"{TOOLS}.VerifiableConsumer", "--topic", topic, "--group-id", topic, "--max-messages", "1000",
        "--reset-policy", "earliest", "--group-protocol", protocol,
    )  # fmt: skip
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assigned = next(event for event in events if event["name"] == "partitions_assigned" and event["partitions"])
    assert len(assigned["partitions"]) == PARTITIONS
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert committed
    assert all(event["success"] for event in committed)


@both_protocols
def test_the_console_consumer_of_kafka_continues_where_its_group_was(target: Target, topic: str, protocol: str) -> None:
    java = JavaTools(target.bootstrap_servers)
    java.create_topic(topic)
    java.produce(
        topic, keyed_lines(300), *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    )

    def consume(count: int) -> str:
        return java.run(
            f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--group", topic, "--from-beginning",
            "--max-messages", str(count), "--timeout-ms", "20000", "--command-property", f"group.protocol={protocol}",
        )  # fmt: skip

    assert "Processed a total of 200 messages" in consume(200)
    rest = consume(100)
    assert "Processed a total of 100 messages" in rest
    assert [line for line in rest.splitlines() if line.startswith("v")] == [f"v{n}" for n in range(201, 301)]


def test_two_members_share_the_partitions_and_one_takes_them_over(target: Target, topic: str) -> None:
    _make(target, topic)
    produce(target.bootstrap_servers, topic, 100, PARTITIONS)
    first = Confluent(target.bootstrap_servers, topic, topic)
    with closing(first):
        poll_until(lambda: first.received == 100, first)
        second = Confluent(target.bootstrap_servers, topic, topic)
        with closing(second):
            poll_until(lambda: share([first, second], PARTITIONS), first, second)
        poll_until(lambda: len(first.partitions) == PARTITIONS, first)
        produce(target.bootstrap_servers, topic, 100, PARTITIONS)
        poll_until(lambda: first.received >= 200, first)
    assert (first.received, second.received) == (200, 0)


@pytest.mark.parametrize("kind", [KafkaPython, Aiokafka])
def test_members_of_another_client_share_leave_and_take_over(target: Target, topic: str, kind: Any) -> None:
    _make(target, topic)
    produce(target.bootstrap_servers, topic, 100, PARTITIONS)
    first = kind(target.bootstrap_servers, topic, topic)
    with closing(first):
        poll_until(lambda: first.received == 100, first)
        second = kind(target.bootstrap_servers, topic, topic)
        with closing(second):
            poll_until(lambda: share([first, second], PARTITIONS), first, second)
            produce(target.bootstrap_servers, topic, 100, PARTITIONS)
            poll_until(lambda: first.received + second.received >= 200, first, second)
        poll_until(lambda: len(first.partitions) == PARTITIONS, first)
    again = kind(target.bootstrap_servers, topic, topic)
    with closing(again):
        produce(target.bootstrap_servers, topic, 40, PARTITIONS)
        poll_until(lambda: again.received >= 40, again)
    assert (first.received + second.received, again.received) == (200, 40), "each continues where the last one stopped"


def test_members_of_three_clients_share_a_group(target: Target, topic: str) -> None:
    _make(target, topic)
    produce(target.bootstrap_servers, topic, 100, PARTITIONS)
    at = (target.bootstrap_servers, topic, topic)
    members: list[GroupMember] = [
        Confluent(*at, **{"partition.assignment.strategy": "range"}),
        KafkaPython(*at),
        Kclient(*at),
    ]
    with closing(*members):
        poll_until(lambda: share(members, PARTITIONS), *members)
        before = sum(member.received for member in members)
        produce(target.bootstrap_servers, topic, 100, PARTITIONS)
        poll_until(lambda: sum(member.received for member in members) >= before + 100, *members)


@pytest.mark.refbroker_only
def test_a_static_member_comes_back_to_what_it_had(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path / "data", settings={"group.initial.rebalance.delay.ms": "0"}) as process:
        target = Target(process.bootstrap_servers, [])
        _make(target, topic)
        first = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "one"})
        second = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "two"})
        with closing(first):
            poll_until(lambda: share([first, second], PARTITIONS), first, second)
            held, assigned = second.partitions, len(first.assignments)
            second.close()
            again = Confluent(process.bootstrap_servers, topic, topic, **{"group.instance.id": "two"})
            with closing(again):
                poll_until(lambda: again.partitions == held, first, again)
            assert len(first.assignments) == assigned, "nobody else has noticed"


@pytest.mark.refbroker_only
@pytest.mark.parametrize("kill", [False, True], ids=["restart", "kill"])
def test_members_continue_with_the_broker_that_comes_back(tmp_path: Path, topic: str, kill: bool) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    (port,) = free_ports(1)
    with ExitStack() as stack:
        with BrokerProcess(tmp_path / "data", port=port, settings=settings) as process:
            at = process.bootstrap_servers
            _make(Target(at, []), topic)
            members = [Confluent(at, topic, topic, **{"enable.auto.commit": False}) for _ in range(2)]
            poll_until(lambda: share(members, PARTITIONS), *members)
            produce(at, topic, 100, PARTITIONS)
            poll_until(lambda: sum(each.received for each in members) >= 100, *members)
            for member in members:
                member.commit()
                stack.callback(member.close)
            assigned = [len(member.assignments) for member in members]
            process.stop(kill=kill)
        stack.enter_context(BrokerProcess(tmp_path / "data", port=port, settings=settings))
        produce(at, topic, 100, PARTITIONS)
        poll_until(lambda: sum(member.received for member in members) >= 200, *members)
        for member in members:
            member.commit()
        assert [len(member.assignments) for member in members] == assigned, "the generation is the same"
        assert sum(member.received for member in members) == 200


def test_the_offsets_formatter_of_kafka_prints_generations(target: Target, topic: str) -> None:
    _make(target, topic)
    member = Confluent(target.bootstrap_servers, topic, topic, **{"client.id": "printed"})
    with closing(member):
        poll_until(lambda: len(member.partitions) == PARTITIONS, member)
    output = JavaTools(target.bootstrap_servers).run(
        f"{TOOLS}.consumer.ConsoleConsumer", "--topic", "__consumer_offsets", "--from-beginning",
        "--formatter", f"{TOOLS}.consumer.GroupMetadataMessageFormatter", "--timeout-ms", "15000",
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
