"""The index of partitions by broker, leader and directory, beside a scan of the image."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.controller.partition_index import PartitionId, PartitionIndex
from refbroker.metadata.image import ClusterImage, PartitionState

BROKERS = range(5)
TOPICS = [UUID(int=1000 + number) for number in range(4)]
DIRECTORIES = [UUID(int=number) for number in (0, 1, 2, 500, 501, 502)]


def scan(image: ClusterImage) -> dict[PartitionId, PartitionState]:
    return {
        PartitionId(topic.topic_id, number): state
        for topic in image.topics.values()
        for number, state in topic.partitions.items()
    }


def check(image: ClusterImage, index: PartitionIndex) -> None:
    """Compare each lookup with what a scan of all partitions finds."""
    found = scan(image)
    for broker in BROKERS:
        assert set(index.in_sync(broker)) == {key for key, state in found.items() if broker in state.isr}
        led = {key for key, state in found.items() if state.leader == broker}
        assert (set(index.led(broker)), index.leads(broker)) == (led, bool(led))
        eligible = {key for key, state in found.items() if broker in state.eligible_leader_replicas}
        assert set(index.eligible(broker)) == eligible
    assert set(index.leaderless()) == {key for key, state in found.items() if state.leader == -1}
    assert set(index.imbalanced()) == {key for key, state in found.items() if state.leader != state.replicas[0]}
    for directory in DIRECTORIES:
        # Ids that stand for no directory are not indexed.
        within = {key for key, state in found.items() if directory in state.directories and directory.int >= 100}
        assert set(index.in_directory(directory)) == within


def random_record(rng: random.Random, image: ClusterImage) -> Message:
    topic_id, number = rng.choice(TOPICS), rng.randrange(3)
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return TopicRecord(name=f"topic-{topic_id.int}", topic_id=topic_id)
    replicas = rng.sample(BROKERS, 3)
    isr = rng.sample(replicas, rng.randint(0, 3))
    state: dict[str, Any] = {
        "partition_id": number,
        "topic_id": topic_id,
        "isr": isr,
        "leader": rng.choice([-1, *isr]),
        "eligible_leader_replicas": rng.sample(BROKERS, rng.randint(0, 2)),
        "replicas": replicas,
        "directories": rng.choices(DIRECTORIES, k=3),
    }
    if number not in topic.partitions or rng.random() < 0.1:
        return PartitionRecord(**state)
    if rng.random() < 0.05:
        return RemoveTopicRecord(topic_id=topic_id)
    if rng.random() < 0.1:
        return ClearElrRecord(topic_name=rng.choice(("", topic.name)))
    kept = rng.sample(["isr", "leader", "eligible_leader_replicas"], rng.randint(0, 3))
    return PartitionChangeRecord(**{name: value for name, value in state.items() if name not in kept})


def test_the_index_finds_what_a_scan_of_all_partitions_finds(rng: random.Random) -> None:
    image = ClusterImage()
    index = PartitionIndex(image)
    for _ in range(500):
        records: list[Message] = []
        for _ in range(rng.randint(1, 4)):
            records.append(random_record(rng, image))
            image.replay(records[-1])
        index.follow(records)
        check(image, index)
    check(image, PartitionIndex(image))


def test_lookups_return_copies_that_later_changes_leave_alone() -> None:
    image = ClusterImage()
    index = PartitionIndex(image)
    records = [
        TopicRecord(name="t", topic_id=TOPICS[0]),
        PartitionRecord(partition_id=0, topic_id=TOPICS[0], replicas=[1], isr=[1], leader=1),
    ]
    for record in records:
        image.replay(record)
    index.follow(records)
    found = index.in_sync(1)
    for removed in [RemoveTopicRecord(topic_id=TOPICS[0])]:
        image.replay(removed)
        index.follow([removed])
    assert found == [PartitionId(TOPICS[0], 0)]
    assert index.in_sync(1) == []
