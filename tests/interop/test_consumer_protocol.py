"""Members that use the consumer protocol (KIP-848): confluent-kafka, alone, together, with others of the classic
protocol, over the death of the broker, and on a directory from before the protocol.

Kafka's own consumers are in `test_group_members`, members of several clients in `test_mixed_groups`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from refbroker.__main__ import main
from tests.interop.conftest import Target
from tests.interop.members import Confluent, closing, poll_until, produce, share
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import free_ports
from tests.support.kafka.tools import TOOLS, JavaTools

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 4
GROUPS, FEATURES = f"{TOOLS}.consumer.group.ConsumerGroupCommand", f"{TOOLS}.FeatureCommand"
CONSUMER = {"group.protocol": "consumer"}


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
    (port,) = free_ports(1)
    with ExitStack() as stack:
        with BrokerProcess(tmp_path / "data", port=port) as process:
            at = process.bootstrap_servers
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


@pytest.mark.refbroker_only
def test_a_directory_without_the_feature_has_the_protocol_once_it_is_upgraded(tmp_path: Path, topic: str) -> None:
    assert main(["format", "--data-dir", str(tmp_path / "data"), "--feature", "group.version=0"]) == 0
    with BrokerProcess(tmp_path / "data") as process:
        java = JavaTools(process.bootstrap_servers)
        java.create_topic(topic, PARTITIONS)
        upgraded = java.run(FEATURES, "upgrade", "--feature", "group.version=1")
        assert "group.version was upgraded to 1" in upgraded
        member = Confluent(process.bootstrap_servers, topic, topic, **CONSUMER)
        with closing(member):
            poll_until(lambda: len(member.partitions) == PARTITIONS, member)
