"""Groups whose members are of several clients: kclient, confluent-kafka and Kafka's own, on either broker.

Each member leads in turn, is restarted in turn, and goes from one group protocol to the other and back. Every
partition has one owner, and every record is read once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kclient.admin import Admin
from kclient.consumer import Consumer
from kclient.protocol.log_records import decode_key, decode_versioned
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from kclient.types import TopicPartition
from tests.interop.conftest import Target
from tests.interop.members import Confluent, GroupMember, Java, Kclient, poll_until, produce, share
from tests.support.kafka.tools import JavaTools
from tests.support.patience import CHANGE
from tests.support.reading import read_up_to

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 6
"""The time for a Java member to notice a rebalance by its heartbeat, every three seconds."""

CLIENT_IDS = {"kclient": "kclient", "confluent": "confluent", "java": "consumer-"}
"""How the ids of each client's members begin."""

INSTANCE_ID = {"kclient": "group_instance_id", "confluent": "group.instance.id", "java": "instance_id"}
"""What each client calls the instance id of a static member."""


class MixedGroup:
    """Members of several clients in one group.

    Parameters:
        target: the broker.
        name: of the topic and of the group.
        strategy: of all members.
    """

    def __init__(self, target: Target, name: str, strategy: str) -> None:
        self.target = target
        self.name = name
        self.members: dict[str, GroupMember] = {}
        self._gone = 0
        self._produced = 0
        at = (target.bootstrap_servers, name, name)
        self._make: dict[str, Callable[..., GroupMember]] = {
            "kclient": functools.partial(Kclient, *at, partition_assignment_strategy=[strategy]),
            "confluent": functools.partial(Confluent, *at, **{"partition.assignment.strategy": strategy}),
            "java": functools.partial(Java, *at, strategy=strategy),
        }
        # With the consumer protocol it is the coordinator that assigns.
        self._make_newer: dict[str, Callable[..., GroupMember]] = {
            "kclient": functools.partial(Kclient, *at, group_protocol="consumer"),
            "confluent": functools.partial(Confluent, *at, **{"group.protocol": "consumer"}),
            "java": functools.partial(Java, *at, strategy=None),
        }

    def join(self, client: str, protocol: str = "classic", *, static: bool = False) -> None:
        make = (self._make_newer if protocol == "consumer" else self._make)[client]
        instance = {INSTANCE_ID[client]: client} if static else {}
        self.members[client] = make(**instance)

    def leave(self, client: str) -> None:
        member = self.members.pop(client)
        member.close()
        self._gone += member.received

    def settle(self) -> None:
        """Wait until everybody has its share; what is produced then is read once."""
        members = list(self.members.values())
        poll_until(lambda: share(members, PARTITIONS), *members, seconds=CHANGE)
        produce(self.target.bootstrap_servers, self.name, 10 * PARTITIONS, PARTITIONS)
        self._produced += 10 * PARTITIONS
        poll_until(lambda: self._received() >= self._produced, *members, seconds=CHANGE)
        assert share(members, PARTITIONS)
        assert self._received() == self._produced

    def _received(self) -> int:
        return self._gone + sum(member.received for member in self.members.values())

    def protocol(self) -> str:
        """Of the group, as it is listed."""
        with Admin(bootstrap_servers=self.target.bootstrap_servers) as admin:
            return admin.list_groups()[self.name].type.value.lower()

    def leader(self) -> str:
        """Which client leads, as the group's last record has it."""
        last: GroupMetadataValue | None = None
        topic = "__consumer_offsets"
        with Consumer(bootstrap_servers=self.target.bootstrap_servers) as consumer:
            partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            for record in read_up_to(consumer, consumer.end_offsets(partitions)):
                key = decode_key(record.key or b"")
                if isinstance(key, GroupMetadataKey) and key.group == self.name and record.value is not None:
                    last = decode_versioned(GroupMetadataValue, record.value)
        assert last is not None
        assert last.leader is not None
        return next(client for client, begin in CLIENT_IDS.items() if last.leader.startswith(begin))

    def close(self) -> None:
        # Ours first: nothing polls it now, and librdkafka leaves only after its current rebalance.
        ours = [self.members.pop(client) for client in ("kclient",) if client in self.members]
        with ExitStack() as stack:
            for member in (*self.members.values(), *ours):
                stack.callback(member.close)


@pytest.fixture
def mixed(needs_kafka: None, target: Target, topic: str) -> Iterator[Callable[[str], MixedGroup]]:
    """Makes a group, by its members' strategy."""
    groups: list[MixedGroup] = []

    def make(strategy: str) -> MixedGroup:
        JavaTools(target.bootstrap_servers).create_topic(topic, PARTITIONS)
        groups.append(MixedGroup(target, topic, strategy))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


# librdkafka has no sticky assignor of the eager kind.
CLIENTS: list[Any] = [
    pytest.param(strategy, clients, id=f"{strategy}-{'-'.join(clients)}")
    for strategy, clients in (
        ("range", ["kclient", "confluent", "java"]),
        ("cooperative-sticky", ["kclient", "confluent", "java"]),
        ("roundrobin", ["kclient", "java"]),
        ("sticky", ["kclient", "java"]),
    )
]


@pytest.mark.parametrize(("strategy", "clients"), CLIENTS)
def test_each_client_leads_the_others_in_turn(
    mixed: Callable[[str], MixedGroup], strategy: str, clients: list[str]
) -> None:
    group = mixed(strategy)
    for leader in clients:
        for other in [each for each in group.members if each != leader]:
            group.leave(other)
        if leader not in group.members:
            group.join(leader)
        group.settle()
        for other in clients:
            if other != leader:
                group.join(other)
        group.settle()
        assert group.leader() == leader


@pytest.mark.parametrize(("strategy", "clients"), CLIENTS)
def test_rolling_restart_through_all_clients(
    mixed: Callable[[str], MixedGroup], strategy: str, clients: list[str]
) -> None:
    group = mixed(strategy)
    for client in clients:
        group.join(client)
    group.settle()
    for client in clients:
        group.leave(client)
        group.settle()
        group.join(client)
        group.settle()


# As a leader librdkafka hands the user data of sticky members back to them, which the coordinator takes for those of a
# custom assignor: it lets no such group go over.
@pytest.mark.parametrize(("strategy", "clients"), [CLIENTS[0], CLIENTS[-1]])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_all_clients_go_to_the_consumer_protocol_and_back(
    mixed: Callable[[str], MixedGroup], strategy: str, clients: list[str], static: bool
) -> None:
    group = mixed(strategy)
    for client in clients:
        group.join(client, static=static)
    group.settle()
    for protocol in ("consumer", "classic"):
        for client in clients:
            group.leave(client)
            group.join(client, protocol, static=static)
            group.settle()
            # One member of the consumer protocol makes the group a consumer group; the last one takes that along.
            continues = protocol == "consumer" or client != clients[-1]
            assert group.protocol() == ("consumer" if continues else "classic")
