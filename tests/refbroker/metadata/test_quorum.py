"""The quorum of one: its epochs, its voters, and the files with which Apache Kafka continues."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import InconsistentClusterIdError, KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.describe_quorum import DescribeQuorumRequest
from kclient.protocol.messages.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kclient.protocol.messages.records.metadata_log import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    UserScramCredentialRecord,
)
from kclient.records import read_batches
from refbroker.broker import Broker
from refbroker.building import BrokerParts, build
from refbroker.config import BrokerConfig
from refbroker.controller.bootstrap import bootstrap_records, write_bootstrap
from refbroker.log import Files
from refbroker.metadata.control_records import VoterSet, decode_control
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, read_snapshot, write_snapshot
from refbroker.metadata.versions import LATEST
from refbroker.runtime.clock import Clock
from tests.support.broker_harness import START_MS, Harness

FILES = Files(durable=False)
LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=LATEST)


def state_file(harness: Harness) -> Path:
    return harness.directory / "__cluster_metadata-0" / "quorum-state"


def control_records(harness: Harness) -> list[Message | None]:
    log = harness.broker.logs.get("__cluster_metadata", 0)
    assert log is not None
    batches = read_batches(log.read(0, 1 << 20).records.read())
    return [decode_control(record) for batch in batches if batch.is_control for record in batch.records()]


def describe(harness: Harness, version: int, *topics: tuple[str, list[int]]) -> Any:
    asked = [
        DescribeQuorumRequest.TopicData(
            topic_name=name, partitions=[DescribeQuorumRequest.PartitionData(partition_index=n) for n in numbers]
        )
        for name, numbers in topics
    ]
    return harness.send(DescribeQuorumRequest(topics=asked), version)


# quorum-state


async def test_the_state_is_written_as_kafka_writes_it(harness: Harness) -> None:
    assert state_file(harness).read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )


@pytest.mark.parametrize("clean", [True, False])
async def test_epochs_grow_with_each_start(harness: Harness, clean: bool) -> None:
    for epoch in (1, 2, 3):
        assert harness.broker.controller.epoch == epoch
        assert json.loads(state_file(harness).read_text())["leaderEpoch"] == epoch
        harness.restart(clean=clean)


async def test_epochs_grow_beyond_an_election_that_left_nothing_in_the_log(harness: Harness) -> None:
    state = json.loads(state_file(harness).read_text())
    state_file(harness).write_text(json.dumps({**state, "leaderId": -1, "leaderEpoch": 41, "votedId": 1}))
    harness.restart()
    assert harness.broker.controller.epoch == 42


async def test_epochs_grow_without_the_state_too(harness: Harness) -> None:
    harness.restart()
    state_file(harness).unlink()
    harness.restart()
    assert harness.broker.controller.epoch == 3


async def test_the_data_of_a_quorum_of_several_are_refused(harness: Harness) -> None:
    state = json.loads(state_file(harness).read_text())
    voters = [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}]
    state_file(harness).write_text(json.dumps({**state, "currentVoters": voters}))
    with pytest.raises(InconsistentClusterIdError, match=r"belongs to the controllers \[1, 2, 3\]"):
        harness.restart()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"data_version":2}', '{"data_version":0,"leaderId":"x"}'])
async def test_a_damaged_state_is_an_error_that_names_the_file(harness: Harness, content: str) -> None:
    state_file(harness).write_text(content)
    with pytest.raises(KafkaStorageError, match="quorum-state"):
        harness.restart()


# Voters in the log, kraft.version 1


def voters(*nodes: int) -> VoterSet:
    record = VotersRecord(
        voters=[VotersRecord.Voter(voter_id=node, voter_directory_id=UUID(int=1000 + node)) for node in nodes]
    )
    return VoterSet(1, record)


def format_with_voters(directory: Path, *nodes: int) -> None:
    """As `kafka-storage format --standalone` leaves it: a snapshot of nothing that has the voters."""
    log = directory / "__cluster_metadata-0"
    log.mkdir(parents=True)
    found = SnapshotId(0, 0)
    write_snapshot(FILES, log / found.file_name, encode_snapshot(Snapshot(voters=voters(*nodes)), 0, LATEST, START_MS))


async def test_voters_from_formatting_are_taken_into_the_log_once(tmp_path: Path) -> None:
    format_with_voters(tmp_path / "data", 1)
    harness = Harness(tmp_path / "data")
    expected: list[type[Message]] = [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert list(map(type, control_records(harness))) == expected
    assert json.loads(state_file(harness).read_text()) == {
        "leaderId": 1, "leaderEpoch": 1, "votedId": -1, "votedDirectoryId": "A" * 22, "data_version": 1
    }  # fmt: skip
    harness.restart()
    assert list(map(type, control_records(harness))) == [*expected, LeaderChangeMessage]
    # And they are in the snapshots from then on.
    taken = await harness.broker.metadata.take_snapshot()
    path = harness.directory / "__cluster_metadata-0" / taken.file_name
    assert read_snapshot(FILES, path).voters == voters(1)
    harness.restart()
    assert harness.broker.metadata.voters == voters(1)
    harness.close()


async def test_other_voters_in_the_log_are_refused(tmp_path: Path) -> None:
    format_with_voters(tmp_path / "data", 1, 2)
    with pytest.raises(InconsistentClusterIdError, match=r"controllers \[1, 2\]"):
        Harness(tmp_path / "data")


# DescribeQuorum


async def test_the_only_voter_leads_and_has_caught_up(harness: Harness) -> None:
    harness.clock.step(5)
    answer = describe(harness, 2, ("__cluster_metadata", [0]))
    [partition] = answer.topics[0].partitions
    end = harness.broker.metadata.end_offset
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, end)
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.replica_directory_id, voter.log_end_offset) == (1, UUID(int=0), end)
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (START_MS + 5, START_MS + 5)
    assert partition.observers == []
    [node] = answer.nodes
    assert (node.node_id, [(one.name, one.host, one.port) for one in node.listeners]) == (
        1, [("PLAINTEXT", "127.0.0.1", 9092)]
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
async def test_old_versions_work_without_nodes_and_directories(tmp_path: Path, version: int) -> None:
    format_with_voters(tmp_path / "data", 1)
    harness = Harness(tmp_path / "data")
    assert describe(harness, 2, ("__cluster_metadata", [0])).topics[0].partitions[0].current_voters[
        0
    ].replica_directory_id == UUID(int=1001)
    answer = describe(harness, version, ("__cluster_metadata", [0]))
    assert [voter.replica_id for voter in answer.topics[0].partitions[0].current_voters] == [1]
    assert answer.nodes == []
    harness.close()


@pytest.mark.parametrize(
    "asked",
    [
        [("a", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("a", [0])],
    ],
)
async def test_nothing_else_has_a_quorum(harness: Harness, asked: list[tuple[str, list[int]]]) -> None:
    answer = describe(harness, 2, *asked)
    assert [(topic.topic_name, [one.error_code for one in topic.partitions]) for topic in answer.topics] == [
        (name, [3] * len(numbers)) for name, numbers in asked
    ]


# bootstrap.checkpoint


async def test_a_new_directory_gets_a_bootstrap_file(harness: Harness) -> None:
    snapshot = read_snapshot(FILES, harness.directory / "bootstrap.checkpoint")
    levels = [("group.version", 1), ("transaction.version", 2)]
    expected = [LEVEL, *(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels)]
    assert (snapshot.records, snapshot.last_contained_log_timestamp) == (expected, 0)


async def test_the_log_of_a_formatted_directory_begins_with_what_formatting_left(tmp_path: Path) -> None:
    scram = UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s")
    levels = [
        FeatureLevelRecord(name="metadata.version", feature_level=27),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    ]
    (tmp_path / "data").mkdir()
    write_bootstrap(FILES, tmp_path / "data", [*levels, scram], START_MS)
    harness = Harness(tmp_path / "data", min_insync_replicas="2")
    image = harness.broker.metadata.image
    assert image.features == {"metadata.version": 27, "eligible.leader.replicas.version": 1}
    assert list(image.scram) == [(1, "alice")]
    # With eligible leaders this setting belongs to the cluster, as Kafka's controller has it.
    assert image.config(4, "") == {"min.insync.replicas": "2"}
    # It is read once.
    (tmp_path / "data" / "bootstrap.checkpoint").unlink()
    harness.restart()
    assert harness.broker.metadata.image.features == image.features
    harness.close()


def test_a_bootstrap_file_without_a_level_is_an_error(tmp_path: Path) -> None:
    write_snapshot(FILES, tmp_path / "bootstrap.checkpoint", encode_snapshot(Snapshot(), 0, LATEST, START_MS))
    with pytest.raises(KafkaStorageError, match="format it again"):
        bootstrap_records(FILES, tmp_path, START_MS)


# The end of a term, and where all this is


async def test_a_clean_stop_leaves_the_broker_fenced_and_its_partitions_without_leader(tmp_path: Path) -> None:
    settings = {"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    harness = Harness(tmp_path / "data")
    harness.create("a")
    harness.broker.logs.close()
    async with await Broker.start(BrokerConfig(settings), files=FILES) as broker:
        epoch, image = broker.parts.broker_epoch, broker.parts.metadata.image
        assert image.topics["a"].partitions[0].leader == 1
    [registration] = image.brokers.values()
    assert (registration.fenced, registration.in_controlled_shutdown) == (True, True)
    partition = image.topics["a"].partitions[0]
    assert (partition.leader, partition.isr) == (-1, [1])
    mark = json.loads((tmp_path / "data" / ".kafka_cleanshutdown").read_text())
    assert mark == {"version": 0, "brokerEpoch": epoch}
    harness.open()
    partition = harness.broker.metadata.image.topics["a"].partitions[0]
    assert (partition.leader, partition.isr) == (1, [1])
    assert not harness.broker.metadata.image.brokers[1].fenced
    harness.close()


async def test_a_replica_that_kafka_left_eligible_is_in_sync_again(harness: Harness) -> None:
    topic_id = harness.create("a")
    harness.broker.controller.append(
        [
            FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1),
            PartitionChangeRecord(
                partition_id=0,
                topic_id=topic_id,
                isr=[],
                leader=-1,
                eligible_leader_replicas=[1],
                last_known_elr=[1],
                leader_recovery_state=1,
            ),
        ]
    )
    harness.restart()
    partition = harness.broker.metadata.image.topics["a"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, [1], 0)
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize("among", [True, False])
async def test_the_metadata_log_is_where_it_is_asked_to_be(tmp_path: Path, among: bool) -> None:
    data, other = tmp_path / "data", tmp_path / "metadata"
    settings = {
        "log.dirs": f"{data},{other}" if among else str(data),
        "metadata.log.dir": str(other),
        "listeners": "PLAINTEXT://127.0.0.1:9092",
    }

    def start() -> BrokerParts:
        return build(BrokerConfig(settings), Clock(), FILES, random.SystemRandom(), {"PLAINTEXT": 9092})

    broker = start()
    assert (other / "__cluster_metadata-0" / "quorum-state").exists()
    assert (other / "bootstrap.checkpoint").exists()
    assert not (data / "__cluster_metadata-0").exists()
    assert (data / "meta.properties").exists()
    assert len(broker.metadata.image.brokers[1].record.log_dirs) == 1 + among
    broker.logs.close()
    broker = start()
    assert broker.controller.epoch == 2
    broker.logs.close()


async def test_the_requests_are_advertised(harness: Harness) -> None:
    answer = harness.send(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert (ranges[55], ranges[57]) == ((0, 2), (0, 2))
