"""Consumers of one group that take turns in one thread, and note what they read and hear."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from kclient.consumer import Consumer, RebalanceListener
from kclient.consumer.group.classic.phases import Phase
from kclient.consumer.group.classic.rebalance import Coordination
from kclient.types import TopicPartition
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.seeding import Seeder

QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "auto_commit_interval_ms": 100}

CLASSIC = pytest.mark.parametrize("group_protocol", ["classic"], indirect=True)
"""For what the consumer protocol does not have, or does otherwise: see test_consumer_protocol.py."""
EVERY_WAY = pytest.mark.parametrize(
    ("group_protocol", "strategy"),
    [("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", None)],
    indirect=["group_protocol"],
    ids=["range", "cooperative-sticky", "consumer-protocol"],
)
"""For what may differ where members give up everything, give up what moves, or go each its own way."""


class Log(RebalanceListener):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, set[int]]] = []
        self.owned: set[TopicPartition] = set()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("assigned", {tp.partition for tp in partitions}))
        self.owned |= set(partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", {tp.partition for tp in partitions}))
        self.owned -= set(partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("lost", {tp.partition for tp in partitions}))
        self.owned -= set(partitions)


class Member:
    """A consumer in a group, with what it read and heard."""

    def __init__(self, consumer: Consumer, log: Log) -> None:
        self.consumer = consumer
        self.log = log
        self.values: list[bytes] = []

    @property
    def partitions(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    @property
    def awaits_assignment(self) -> bool:
        """Return whether it has joined, with the classic protocol, and has no assignment yet."""
        own = self.consumer._core.group
        coordination = None if own is None else own.coordination
        return isinstance(coordination, Coordination) and coordination.phase is Phase.JOINING

    def poll(self, seconds: float = 0.02) -> None:
        self.values += [record.value for record in self.consumer.poll(seconds) if record.value is not None]


class Group:
    """Members of one group, which take turns in one thread.

    Parameters:
        protocol: how its members agree.
        strategy: the assignor of members of the classic protocol, unless they say otherwise.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, protocol: str = "classic", strategy: str | None = None
    ) -> None:
        self.protocol = protocol
        self.strategy = strategy
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.members: list[Member] = []

    @property
    def way(self) -> dict[str, Any]:
        """The options that say how a member agrees with the others, and make it quick."""
        if self.protocol == "consumer":
            return {"group_protocol": "consumer", "auto_commit_interval_ms": 100}
        return QUICK if self.strategy is None else {**QUICK, "partition_assignment_strategy": [self.strategy]}

    def join(self, topics: Any = None, *, exclude: Any = (), **options: Any) -> Member:
        options = {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": f"group-{self.topic}",
            "auto_offset_reset": "earliest",
            **self.way,
            **options,
        }
        consumer, log = Consumer(**options), Log()
        consumer.subscribe(self.topic if topics is None else topics, exclude=exclude, listener=log)
        self.members.append(Member(consumer, log))
        return self.members[-1]

    def poll_until(self, condition: Callable[[], object], seconds: float = ANSWER) -> None:
        deadline = clock.monotonic() + seconds
        while not condition():
            assert clock.monotonic() < deadline, [(sorted(one.partitions), one.log.heard) for one in self.members]
            for member in self.members:
                member.poll()

    @property
    def values(self) -> list[bytes]:
        """What its present members read."""
        return [value for member in self.members for value in member.values]

    def settle(self, *sizes: int) -> None:
        """Poll until the members have so many partitions each, in any order, and hear no more of the rebalance.

        One that gave up partitions, and so has the right number, may hear after the others that it gets nothing new.
        """

        def settled() -> bool:
            found = sorted(len(one.consumer.assignment()) for one in self.members)
            return found == sorted(sizes) and not any(one.awaits_assignment for one in self.members)

        self.poll_until(settled)

    def close(self) -> None:
        """Close the members that there are."""
        for member in self.members:
            member.consumer.close(5.0)

    def leave(self, member: Member, **how: Any) -> None:
        self.members.remove(member)
        member.consumer.close(10.0, **how)

    def die(self, member: Member) -> None:
        """Its connections are gone without a word, as when its process was killed."""
        self.members.remove(member)
        member.consumer._core.engine.close(5.0)


def fill(seed: Seeder, topic: str, partitions: int, first: int, count: int) -> list[bytes]:
    """Append so many values to each partition."""
    values = []
    for partition in range(partitions):
        batch = [b"%d-%d" % (partition, number) for number in range(first, first + count)]
        seed.append(topic, batch, partition=partition)
        values += batch
    return values
