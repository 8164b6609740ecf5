"""Several data directories: the choice for new partitions, the effects of a failing disk, and the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient import errors
from kclient.errors import InvalidReplicationFactorError, KafkaStorageError
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.metadata.directories import UNASSIGNED
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.refbroker.directories.directories import (
    describe,
    directory,
    fetch_request,
    home,
    place,
    set_on_broker,
    settled,
)
from tests.support.broker_harness import Harness


@pytest_asyncio.fixture
async def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest_asyncio.fixture
async def harness(tmp_path: Path, disk: SimulatedDisk) -> AsyncIterator[Harness]:
    """A broker with three data directories, the first of which has the metadata."""
    paths = ",".join(str(tmp_path / name) for name in ("meta", "one", "two"))
    harness = Harness(tmp_path, files=disk, log_dirs=paths)
    yield harness
    disk.heal()
    await harness.broker.moves.stop()
    harness.close()


def partitions_in(harness: Harness, topic: str, name: str) -> list[int]:
    return [key[1] for key in directory(harness, name).logs if key[0] == topic]


async def spread(harness: Harness) -> None:
    """A topic with partitions in each directory, and a record in each."""
    harness.create("spread", 5)
    await settled()
    for partition in range(5):
        assert harness.produce("spread", b"value", partition=partition).error_code == 0


async def fail(harness: Harness, disk: SimulatedDisk, name: str) -> int:
    """Let a directory's disk fail at a produce request, and give the partition it was for."""
    disk.fail(path_prefix=directory(harness, name).path)
    partition = partitions_in(harness, "spread", name)[0]
    assert harness.produce("spread", b"lost", partition=partition).error_code == errors.KafkaStorageError.code
    await settled()
    return partition


def metadata_of(harness: Harness, topic: str) -> dict[int, Any]:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    return {one.partition_index: one for one in harness.send(request, 12).topics[0].partitions}


# Where partitions go


@pytest.mark.asyncio
async def test_new_partitions_go_where_the_fewest_logs_are_and_the_metadata_learns_where(harness: Harness) -> None:
    harness.create("spread", 5)
    image = harness.broker.metadata.image
    assert image.topics["spread"].partitions[0].directories == [UNASSIGNED]
    await settled()
    # The metadata log counts too.
    assert [len(each.logs) for each in harness.broker.logs.directories] == [2, 2, 2]
    for partition in range(5):
        found = harness.broker.logs.directory_of("spread", partition)
        assert found is not None
        assert found.directory_id == home(harness, "spread", partition)
        assert image.topics["spread"].partitions[partition].leader_epoch == 0


@pytest.mark.asyncio
async def test_partitions_of_a_broker_with_one_directory_are_assigned_from_the_start(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "data")
    harness.create("topic")
    state = harness.broker.metadata.image.topics["topic"].partitions[0]
    assert state.directories == [harness.broker.logs.directories[0].directory_id]
    assert state.partition_epoch == 0
    harness.close()


@pytest.mark.asyncio
async def test_a_crash_before_the_metadata_has_learned_where_a_partition_is_costs_nothing(harness: Harness) -> None:
    harness.create("spread", 2)
    places = [place(harness, "spread", partition) for partition in (0, 1)]
    harness.restart(clean=False)
    assert [place(harness, "spread", partition) for partition in (0, 1)] == places
    assert home(harness, "spread", 0) == directory(harness, places[0]).directory_id


@pytest.mark.asyncio
async def test_cordoned_directories_get_no_new_partitions(harness: Harness) -> None:
    one, two = directory(harness, "one"), directory(harness, "two")
    assert set_on_broker(harness, "cordoned.log.dirs", f"{one.path},{two.path}").error_code == 0
    await settled()
    registered = harness.broker.metadata.image.brokers[harness.broker.node_id].record
    assert registered.cordoned_log_dirs == sorted([one.directory_id, two.directory_id])
    assert {name: result.is_cordoned for name, result in describe(harness).items()} == {
        "meta": False, "one": True, "two": True,
    }  # fmt: skip
    harness.create("spread", 4)
    assert {place(harness, "spread", partition) for partition in range(4)} == {"meta"}
    set_on_broker(harness, "cordoned.log.dirs", "*")
    harness.create("anyway")
    assert place(harness, "anyway") == "meta"
    harness.restart()
    assert len(harness.broker.logs.cordoned) == 3


@pytest.mark.asyncio
async def test_a_broker_whose_directories_are_all_cordoned_gets_no_topics(harness: Harness) -> None:
    set_on_broker(harness, "cordoned.log.dirs", "*")
    await settled()
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    (refused,) = harness.send(CreateTopicsRequest(topics=[topic]), 7).topics
    assert refused.error_code == InvalidReplicationFactorError.code
    assert refused.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned."
    )
    set_on_broker(harness, "cordoned.log.dirs", "")
    await settled()
    assert harness.send(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0


@pytest.mark.asyncio
async def test_a_directory_that_is_not_the_brokers_cannot_be_cordoned(harness: Harness) -> None:
    result = set_on_broker(harness, "cordoned.log.dirs", "/elsewhere")
    assert result.error_code == errors.InvalidRequestError.code
    assert "Missing entries : /elsewhere" in result.error_message


# A disk that fails


@pytest.mark.asyncio
async def test_a_failing_disk_costs_its_own_partitions_only(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    lost, kept = partitions_in(harness, "spread", "one"), partitions_in(harness, "spread", "two")
    before = metadata_of(harness, "spread")
    await fail(harness, disk, "one")
    for partition in lost:
        assert harness.produce("spread", b"x", partition=partition).error_code == errors.KafkaStorageError.code
    for partition in kept:
        assert harness.produce("spread", b"x", partition=partition).base_offset == 1
    told = metadata_of(harness, "spread")
    node = harness.broker.node_id
    for partition in lost:
        assert told[partition].error_code == errors.LeaderNotAvailableError.code
        assert (told[partition].leader_id, told[partition].offline_replicas) == (-1, [node])
        assert (told[partition].isr_nodes, told[partition].replica_nodes) == ([node], [node])
        assert told[partition].leader_epoch == before[partition].leader_epoch + 1
    assert all(told[partition] == before[partition] for partition in kept)
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="spread")])
    described = harness.send(request, 0).topics[0].partitions
    assert [one.partition_index for one in described if one.offline_replicas] == sorted(lost)
    registered = harness.broker.metadata.image.brokers[node].record
    assert directory(harness, "one").directory_id not in registered.log_dirs
    assert len(registered.log_dirs) == 2


@pytest.mark.asyncio
async def test_reads_of_an_offline_directory_get_the_error(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    partition = await fail(harness, disk, "one")
    topic = ListOffsetsRequest.ListOffsetsTopic(
        name="spread",
        partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)],
    )
    listed = harness.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    assert listed.topics[0].partitions[0].error_code == errors.KafkaStorageError.code
    # Clients of old do not know the error, and take what they do not know for one that no retry can help.
    for version, error in ((12, KafkaStorageError), (6, KafkaStorageError), (5, errors.NotLeaderOrFollowerError)):
        answer = harness.send(fetch_request("spread", partition), version)
        assert answer.responses[0].partitions[0].error_code == error.code


@pytest.mark.asyncio
async def test_a_long_poll_is_answered_when_its_directory_fails(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    waiting = {
        name: harness.send(
            fetch_request("spread", partitions_in(harness, "spread", name)[0], max_wait_ms=3_600_000), 12
        )
        for name in ("one", "two")
    }
    await fail(harness, disk, "one")
    answer = await asyncio.wait_for(waiting["one"], 10)
    assert answer.responses[0].partitions[0].error_code == errors.KafkaStorageError.code
    assert not waiting["two"].done()
    harness.broker.delayed_fetches.close()


@pytest.mark.asyncio
async def test_an_offline_directory_is_described_with_its_error(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    await fail(harness, disk, "one")
    results = describe(harness)
    assert results["one"].error_code == errors.KafkaStorageError.code
    assert (results["one"].topics, results["one"].total_bytes) == ([], -1)
    assert results["two"].error_code == 0
    assert [topic.name for topic in results["two"].topics] == ["spread"]


@pytest.mark.asyncio
async def test_after_the_disk_is_repaired_a_restart_brings_everything_back(
    harness: Harness, disk: SimulatedDisk
) -> None:
    await spread(harness)
    before = metadata_of(harness, "spread")
    lost = partitions_in(harness, "spread", "one")
    await fail(harness, disk, "one")
    harness.create("later", 4)
    await settled()
    assert {place(harness, "later", partition) for partition in range(4)} == {"meta", "two"}
    disk.heal()
    harness.restart()
    told = metadata_of(harness, "spread")
    for partition in range(5):
        assert (told[partition].error_code, told[partition].offline_replicas) == (0, [])
        assert told[partition].leader_epoch > before[partition].leader_epoch
        assert harness.produce("spread", b"again", partition=partition).base_offset == 1
    assert partitions_in(harness, "spread", "one") == lost


@pytest.mark.asyncio
async def test_an_fsync_that_failed_is_not_tried_again(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    partition = partitions_in(harness, "spread", "one")[0]
    log = harness.broker.logs.get("spread", partition)
    assert log is not None
    disk.fail(path_prefix=log.directory, operation="fsync", count=1)
    with pytest.raises(KafkaStorageError):
        log.flush()
    await settled()
    assert not directory(harness, "one").is_online
    with pytest.raises(KafkaStorageError, match="closed"):
        log.flush()
    harness.broker.logs.checkpoint()
    assert not [log for log, _ in harness.broker.logs.pending_flushes(harness.clock()) if not log.health.failure]
    harness.restart()
    assert harness.broker.logs.get("spread", partition) is not None


@pytest.mark.asyncio
async def test_a_full_disk_takes_no_other_directory_with_it(harness: Harness, disk: SimulatedDisk) -> None:
    await spread(harness)
    partition = partitions_in(harness, "spread", "one")[0]
    disk.fill(100)
    answer = harness.produce("spread", b"x" * 1000, partition=partition)
    assert answer.error_code == errors.KafkaStorageError.code
    disk.heal()
    await settled()
    assert [each.is_online for each in harness.broker.logs.directories] == [True, False, True]


@pytest.mark.asyncio
async def test_the_broker_starts_without_a_directory_that_cannot_be_opened(
    harness: Harness, disk: SimulatedDisk
) -> None:
    await spread(harness)
    lost = partitions_in(harness, "spread", "one")
    harness.broker.logs.close()
    path = directory(harness, "one").path
    disk.fail(path_prefix=path)
    harness.open()
    assert [each.is_online for each in harness.broker.logs.directories] == [True, False, True]
    told = metadata_of(harness, "spread")
    assert sorted(partition for partition, one in told.items() if one.leader_id == -1) == sorted(lost)
    # A log that may be on the disk that is away is not created again.
    assert all(harness.broker.logs.get("spread", partition) is None for partition in lost)
    disk.heal()
    harness.restart()
    assert partitions_in(harness, "spread", "one") == lost


@pytest.mark.asyncio
async def test_partitions_of_a_directory_that_was_replaced_start_again(harness: Harness, tmp_path: Path) -> None:
    await spread(harness)
    lost = partitions_in(harness, "spread", "one")
    harness.broker.logs.close()
    harness.settings["log.dirs"] = f"{tmp_path / 'meta'},{tmp_path / 'two'}"
    harness.open()
    for partition in lost:
        assert harness.produce("spread", b"first", partition=partition).base_offset == 0
        assert home(harness, "spread", partition) in {each.directory_id for each in harness.broker.logs.online}


@pytest.mark.asyncio
async def test_without_the_disk_of_the_metadata_there_is_no_start(harness: Harness, disk: SimulatedDisk) -> None:
    harness.broker.logs.close()
    disk.fail(path_prefix=directory(harness, "meta").path)
    with pytest.raises(KafkaStorageError, match="cannot start without its metadata log"):
        harness.open()
    disk.heal()
    harness.open()


# Logs that belong to no partition


@pytest.mark.asyncio
async def test_a_log_of_a_topic_deleted_while_its_disk_was_away_becomes_stray(
    harness: Harness, disk: SimulatedDisk
) -> None:
    await spread(harness)
    path = directory(harness, "one").path
    lost = partitions_in(harness, "spread", "one")
    await fail(harness, disk, "one")
    harness.send(DeleteTopicsRequest(topic_names=["spread"]), 5)
    harness.create("spread", 5)
    await settled()
    disk.heal()
    harness.restart()
    strays = [entry.name for entry in path.iterdir() if entry.name.endswith("-stray")]
    assert sorted(name.split(".")[0] for name in strays) == sorted(f"spread-{partition}" for partition in lost)
    for partition in range(5):
        assert harness.produce("spread", b"new", partition=partition).base_offset == 0
    harness.restart()
    assert sorted(entry.name for entry in path.iterdir() if entry.name.endswith("-stray")) == sorted(strays)


# DescribeLogDirs


@pytest.mark.asyncio
async def test_directories_are_described_with_sizes_and_space(harness: Harness) -> None:
    await spread(harness)
    results = describe(harness)
    assert list(results) == ["meta", "one", "two"]
    found = {}
    for name, result in results.items():
        assert result.total_bytes >= result.usable_bytes > 0
        for topic in result.topics:
            assert topic.name == "spread"
            for one in topic.partitions:
                log = harness.broker.logs.get("spread", one.partition_index)
                assert log is not None
                assert (one.partition_size, one.offset_lag, one.is_future_key) == (log.size_in_bytes(), 0, False)
                found[one.partition_index] = name
    assert found == {partition: place(harness, "spread", partition) for partition in range(5)}


@pytest.mark.asyncio
async def test_only_the_partitions_asked_for_are_described(harness: Harness) -> None:
    await spread(harness)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic="spread", partitions=[3, 77])
    results = describe(harness, [topic])
    assert len(results) == 3
    assert [one.partition_index for r in results.values() for t in r.topics for one in t.partitions] == [3]
    assert not any(result.topics for result in describe(harness, []).values())
