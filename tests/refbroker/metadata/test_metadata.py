"""The cluster's state: what records do to it, and that a restart comes to the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import InvalidTopicError, TopicExistsError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.controller import active
from refbroker.controller.topics import NewTopic, plan_topic
from refbroker.metadata import ClusterImage
from tests.support.broker_harness import Harness

ID = UUID(int=42)


def image_of(*records: Message) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.replay(record)
    return image


def state_of(image: ClusterImage) -> dict[str, Any]:
    """Everything but the leaders' terms and registrations, which grow with each start."""
    topics = {
        name: (topic.topic_id, {n: (p.replicas, p.isr, p.leader, p.directories) for n, p in topic.partitions.items()})
        for name, topic in image.topics.items()
    }
    return {"topics": topics, "configs": image.configs, "features": image.features, "ids": image.next_producer_id}


TOPIC = TopicRecord(name="t", topic_id=ID)
PARTITION = PartitionRecord(partition_id=0, topic_id=ID, replicas=[1], isr=[1], leader=1, leader_epoch=0)


def test_a_topic_comes_and_goes_with_its_settings() -> None:
    config = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    image = image_of(TOPIC, config, PARTITION)
    assert image.topics["t"] is image.topics_by_id[ID]
    assert image.config(2, "t") == {"retention.ms": "1"}
    image.replay(RemoveTopicRecord(topic_id=ID))
    assert (image.topics, image.topics_by_id, image.configs) == ({}, {}, {})


def test_a_change_leaves_alone_what_it_does_not_name() -> None:
    image = image_of(TOPIC, PARTITION, PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]))
    partition = image.topics["t"].partitions[0]
    assert (partition.isr, partition.replicas, partition.leader, partition.leader_epoch) == ([1, 2], [1], 1, 0)
    assert partition.partition_epoch == 0


def test_a_leader_that_is_named_begins_a_new_term_even_if_it_is_the_same() -> None:
    image = image_of(TOPIC, PARTITION, PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1))
    assert image.topics["t"].partitions[0].leader_epoch == 1


def test_a_null_value_removes_a_setting_and_level_0_a_feature() -> None:
    image = image_of(
        ConfigRecord(resource_type=4, resource_name="", name="a", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="a", value=None),
        FeatureLevelRecord(name="f", feature_level=2),
        FeatureLevelRecord(name="f", feature_level=0),
        ProducerIdsRecord(next_producer_id=1000),
    )
    assert (image.configs, image.features, image.next_producer_id) == ({}, {}, 1000)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_restart_replays_to_the_same_state(harness: Harness, clean: bool) -> None:
    harness.create("a", 3, retention_ms="1000")
    harness.create("b")
    harness.broker.producer_ids.next()
    harness.broker.controller.append([RemoveTopicRecord(topic_id=harness.broker.metadata.image.topics["b"].topic_id)])
    before = state_of(harness.broker.metadata.image)
    harness.restart(clean=clean)
    assert state_of(harness.broker.metadata.image) == before


async def test_each_start_is_a_new_term_of_every_leader(harness: Harness) -> None:
    harness.create("a")
    epochs = []
    for _ in range(3):
        image = harness.broker.metadata.image
        epochs.append((image.topics["a"].partitions[0].leader_epoch, harness.broker.broker_epoch))
        harness.restart()
    # As in Kafka, a broker that crashed loses its leaderships before it gets them again.
    assert [epoch for epoch, _ in epochs] == [0, 2, 4]
    assert len({broker_epoch for _, broker_epoch in epochs}) == 3


async def test_logs_follow_the_topics(harness: Harness, tmp_path: Path) -> None:
    topic_id = harness.create("a", 2)
    names = {path.name for path in harness.directory.iterdir() if path.is_dir()}
    assert names == {"__cluster_metadata-0", "a-0", "a-1"}
    harness.broker.controller.append([RemoveTopicRecord(topic_id=topic_id)])
    left = {path.name.partition(".")[0] for path in harness.directory.iterdir() if not path.name.endswith("-delete")}
    assert not left & {"a-0", "a-1"}
    harness.clock.step(60_000)
    await harness.broker.logs.delete_due_files()
    assert {path.name for path in harness.directory.iterdir() if path.is_dir()} == {"__cluster_metadata-0"}


async def test_a_log_that_the_metadata_does_not_have_is_removed_at_the_start(harness: Harness) -> None:
    harness.broker.logs.create("stray", 0, UUID(int=9))
    harness.restart()
    assert harness.broker.logs.get("stray", 0) is None
    assert not (harness.directory / "stray-0").exists()


async def test_the_log_of_a_partition_that_a_snapshot_has_on_other_brokers_is_removed(harness: Harness) -> None:
    topic_id = harness.create("t")
    moved = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2, leader_epoch=1, directories=[UUID(int=222)]
    )
    harness.broker.controller.append([moved])
    assert harness.broker.logs.get("t", 0) is None


async def test_a_log_that_is_missing_is_made_at_the_start(harness: Harness) -> None:
    harness.create("a")
    harness.broker.logs.delete(("a", 0))
    harness.restart()
    assert harness.broker.logs.get("a", 0) is not None


async def test_settings_reach_the_logs_at_once_and_after_a_restart(harness: Harness) -> None:
    harness.create("a")
    change = ConfigRecord(resource_type=2, resource_name="a", name="segment.bytes", value="2000000")
    harness.broker.controller.append([change])
    log = harness.broker.logs.get("a", 0)
    assert log is not None
    assert log.config.segment_bytes == 2_000_000
    everywhere = ConfigRecord(resource_type=4, resource_name="", name="log.index.interval.bytes", value="77")
    harness.broker.controller.append([everywhere])
    assert log.config.index_interval_bytes == 77
    harness.restart()
    log = harness.broker.logs.get("a", 0)
    assert log is not None
    assert (log.config.segment_bytes, log.config.index_interval_bytes) == (2_000_000, 77)


async def test_more_records_than_a_batch_takes_are_a_transaction(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "MOST_RECORDS", 10)
    harness.create("a", 50)
    assert len(harness.broker.metadata.image.topics["a"].partitions) == 50
    harness.restart(clean=False)
    assert len(harness.broker.metadata.image.topics["a"].partitions) == 50


async def test_a_transaction_cut_off_by_a_crash_does_not_count(harness: Harness) -> None:
    harness.broker.controller.append([BeginTransactionRecord(), TOPIC, PARTITION])
    assert "t" not in harness.broker.image.topics
    harness.restart(clean=False)
    assert "t" not in harness.broker.metadata.image.topics
    harness.restart()
    # What comes after it counts again.
    harness.broker.controller.append([BeginTransactionRecord(), TOPIC, PARTITION, EndTransactionRecord()])
    assert "t" in harness.broker.metadata.image.topics


async def test_producer_ids_are_never_given_twice(harness: Harness) -> None:
    given = [harness.broker.producer_ids.next() for _ in range(1001)]
    harness.restart(clean=False)
    given.append(harness.broker.producer_ids.next())
    assert len(set(given)) == len(given)
    assert given[:1001] == list(range(1001))
    assert given[-1] == 2000


async def test_a_name_that_is_there_in_other_letters_for_the_metrics_is_refused(harness: Harness) -> None:
    harness.create("a.b")
    with pytest.raises(InvalidTopicError, match=r"collides with existing topic: a\.b"):
        plan_topic(harness.broker.controller, NewTopic("a_b"))
    with pytest.raises(TopicExistsError):
        plan_topic(harness.broker.controller, NewTopic("a.b"))
