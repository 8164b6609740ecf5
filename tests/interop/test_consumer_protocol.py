"""Members that use the consumer protocol (KIP-848): Kafka's own and confluent-kafka, alone, together, with others of
the classic protocol, and over the death of the broker.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import Target
from tests.interop.kafka.tools import TOOLS, JavaTools, keyed_lines
from tests.interop.members import Confluent, closing, poll_until, produce, share

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 4
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSUMER = {"group.protocol": "consumer"}


def test_the_verifiable_consumer_of_kafka(target: Target, topic: str) -> None:
    java = JavaTools(target.bootstrap_servers)
    java.create_topic(topic, PARTITIONS)
    produce(target.bootstrap_servers, topic, 1000, PARTITIONS)
    output = java.run(
        f"{TOOLS}.VerifiableConsumer", "--topic", topic, "--group-id", topic, "--max-messages", "1000",
        "--reset-policy", "earliest", "--group-protocol", "consumer",
    )  # fmt: skip
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assigned = next(event for event in events if event["name"] == "partitions_assigned" and event["partitions"])
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
            "--max-messages", str(count), "--timeout-ms", "20000", "--command-property", "group.protocol=consumer",
        )  # fmt: skip

    assert "Processed a total of 200 messages" in consume(200)
    rest = consume(100)
    assert [line for line in rest.splitlines() if line.startswith("v")] == [f"v{n}" for n in range(201, 301)]


def test_members_share_and_take_over_and_kafka_tells_what_they_have(target: Target, topic: str) -> None:
    java = JavaTools(target.bootstrap_servers)
    java.create_topic(topic, PARTITIONS)
    produce(target.bootstrap_servers, topic, 100, PARTITIONS)
    first = Confluent(target.bootstrap_servers, topic, topic, **CONSUMER)
    with closing(first):
        poll_until(lambda: first.received == 100, first)
        second = Confluent(target.bootstrap_servers, topic, topic, **CONSUMER)
        with closing(second):
            poll_until(lambda: share([first, second], PARTITIONS), first, second)
            listed = java.run(GROUPS, "--list", "--type", "--state")
            assert [line.split() for line in listed.splitlines() if topic in line] == [[topic, "Consumer", "Stable"]]
            members = java.run(GROUPS, "--describe", "--group", topic, "--members", "--verbose")
            assert len([line for line in members.splitlines() if line.startswith(topic)]) == 2
        poll_until(lambda: len(first.partitions) == PARTITIONS, first)
    assert (first.received, second.received) == (100, 0)


def test_a_group_goes_from_one_protocol_to_the_other_and_back(target: Target, topic: str) -> None:
    JavaTools(target.bootstrap_servers).create_topic(topic, PARTITIONS)
    classic = Confluent(target.bootstrap_servers, topic, topic)
    with closing(classic):
        poll_until(lambda: len(classic.partitions) == PARTITIONS, classic)
        newer = Confluent(target.bootstrap_servers, topic, topic, **CONSUMER)
        with closing(newer):
            poll_until(lambda: share([classic, newer], PARTITIONS), classic, newer)
        poll_until(lambda: len(classic.partitions) == PARTITIONS, classic)
        produce(target.bootstrap_servers, topic, 100, PARTITIONS)
        poll_until(lambda: classic.received == 100, classic)


@pytest.mark.refbroker_only
@pytest.mark.parametrize("kill", [False, True], ids=["restart", "kill"])
def test_members_do_not_notice_a_broker_that_comes_back(tmp_path: Path, topic: str, kill: bool) -> None:
    process = BrokerProcess(tmp_path / "data")
    with ExitStack() as stack:
        with process:
            at, port = process.bootstrap_servers, int(process.bootstrap_servers.rpartition(":")[2])
            JavaTools(at).create_topic(topic, PARTITIONS)
            members = [Confluent(at, topic, topic, **CONSUMER) for _ in range(2)]
            poll_until(lambda: share(members, PARTITIONS), *members)
            held = [member.partitions for member in members]
            process.stop(kill=kill)
        stack.enter_context(BrokerProcess(tmp_path / "data", port=port))
        stack.enter_context(closing(*members))
        produce(at, topic, 100, PARTITIONS)
        poll_until(lambda: sum(member.received for member in members) == 100, *members)
        assert [member.partitions for member in members] == held
