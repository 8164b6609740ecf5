"""When the registry writes: after each change of the metadata, and again when ZooKeeper is back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Self
from uuid import UUID

import pytest

from kclient.errors import DuplicateBrokerRegistrationError
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage
from refbroker.settings.listeners import Listener, SecurityProtocol
from refbroker.zookeeper import nodes
from refbroker.zookeeper.registry import Registry
from refbroker.zookeeper.tree import Change, Tree
from tests.support.zookeeper.tree import ZooKeeper

ORDERS = UUID(int=5)
BROKER = nodes.broker_value([(Listener("PLAINTEXT", "kafka1", 9092), SecurityProtocol.PLAINTEXT)], None, 0)


class Cluster:
    """A registry on nodes in memory, and the image that it shows."""

    def __init__(self) -> None:
        self.zookeeper = ZooKeeper()
        self.image = ClusterImage()
        self.reconnected: list[Callable[[], None]] = []
        self.registry = Registry(self.image, 1, "cluster", lambda: BROKER, lambda: 0, self.open)

    async def __aenter__(self) -> Self:
        await self.registry.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.registry.stop()

    def open(self, connected: Callable[[], None]) -> Tree:
        self.reconnected.append(connected)
        return self.zookeeper.session()

    async def replay(self, *records: TopicRecord | PartitionRecord | PartitionChangeRecord | ConfigRecord) -> None:
        for record in records:
            self.image.replay(record)
        self.registry.follow(records)
        await self.registry.written()

    def state(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.zookeeper.nodes["/brokers/topics/orders/partitions/0/state"].value)
        return found


def new_topic() -> tuple[TopicRecord, PartitionRecord]:
    return TopicRecord(name="orders", topic_id=ORDERS), PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=[1], isr=[1], leader=1, leader_epoch=0
    )


async def test_it_follows_topics_partitions_and_settings() -> None:
    async with Cluster() as cluster:
        await cluster.replay(*new_topic())
        assert cluster.state()["leader"] == 1
        await cluster.replay(PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=-1))
        assert (cluster.state()["leader"], cluster.state()["leader_epoch"]) == (-1, 1)
        config = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value="5")
        await cluster.replay(config)
        assert json.loads(cluster.zookeeper.nodes["/config/topics/orders"].value)["config"] == {"retention.ms": "5"}
        removal = RemoveTopicRecord(topic_id=ORDERS)
        cluster.image.replay(removal)
        cluster.registry.follow([removal])
        await cluster.registry.written()
        assert not [path for path in cluster.zookeeper.nodes if "orders" in path]


async def test_at_the_start_it_removes_topics_that_are_gone() -> None:
    async with Cluster() as cluster:
        await cluster.replay(*new_topic())
        await cluster.registry.stop()
        assert "/brokers/topics/orders" in cluster.zookeeper.nodes
        later = Registry(ClusterImage(), 1, "cluster", lambda: BROKER, lambda: 0, cluster.open)
        await later.start()
        assert "/brokers/topics/orders" not in cluster.zookeeper.nodes
        await later.stop()


async def test_changes_while_zookeeper_is_away_are_written_when_it_is_back() -> None:
    async with Cluster() as cluster:
        cluster.zookeeper.is_reachable = False
        await cluster.replay(*new_topic())
        assert "/brokers/topics/orders" not in cluster.zookeeper.nodes
        cluster.zookeeper.is_reachable = True
        cluster.zookeeper.expire(1)
        cluster.reconnected[0]()
        await asyncio.sleep(0)
        await cluster.registry.written()
        assert {"/brokers/ids/1", "/controller", "/brokers/topics/orders"} <= set(cluster.zookeeper.nodes)


async def test_after_another_controller_took_over_it_writes_no_more() -> None:
    async with Cluster() as cluster:
        cluster.zookeeper.session().apply([Change("/controller_epoch", b"9")])
        await cluster.replay(*new_topic())
        assert "/brokers/topics/orders" not in cluster.zookeeper.nodes


async def test_a_start_that_is_refused_leaves_nothing_behind() -> None:
    async with Cluster() as cluster:
        moved = BROKER.replace(b"9092", b"9093")
        second = Registry(ClusterImage(), 1, "cluster", lambda: moved, lambda: 0, cluster.open)
        with pytest.raises(DuplicateBrokerRegistrationError):
            await second.start()
        assert {node.owner for node in cluster.zookeeper.nodes.values()} == {0, 1}
        await second.stop()


async def test_it_leaves_at_the_stop() -> None:
    async with Cluster() as cluster:
        await cluster.registry.stop()
        assert not {"/brokers/ids/1", "/controller"} & set(cluster.zookeeper.nodes)
