"""Elections of leaders, moves of partitions, and what a partition remembers of its producers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.describe_producers import DescribeProducersRequest
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest
from kclient.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kclient.protocol.messages.records.metadata_log import ConfigRecord, PartitionChangeRecord
from refbroker.log.validation import Origin
from refbroker.metadata.image import PartitionState
from tests.support.broker_harness import Harness, batch

PREFERRED, UNCLEAN = 0, 1
NO_LEADER = -1
OK = 0
NOT_NEEDED = errors.ElectionNotNeededError.code
UNKNOWN = errors.UnknownTopicOrPartitionError.code
BAD_ASSIGNMENT = errors.InvalidReplicaAssignmentError.code


def state(harness: Harness, topic: str = "t", partition: int = 0) -> PartitionState:
    return harness.broker.metadata.image.topics[topic].partitions[partition]


def change(harness: Harness, topic_id: UUID, **what: Any) -> None:
    """Have the metadata say something else of partition 0, as it may where a cluster had more nodes."""
    harness.broker.controller.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, **what)])


def elect(harness: Harness, kind: int, wanted: dict[str, list[int]] | None, version: int = 2) -> dict[Any, Any]:
    one = ElectLeadersRequest
    topics = None if wanted is None else [one.TopicPartitions(topic=t, partitions=p) for t, p in wanted.items()]
    answer = harness.send(one(election_type=kind, topic_partitions=topics), version)
    assert answer.error_code == OK
    return {
        (result.topic, partition.partition_id): partition.error_code
        for result in answer.replica_election_results
        for partition in result.partition_result
    }


# Elections


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
async def test_no_election_where_the_leader_is_right(harness: Harness, kind: int) -> None:
    harness.create("t", 2)
    assert elect(harness, kind, {"t": [0, 1, 5], "none": [0]}) == {
        ("t", 0): NOT_NEEDED,
        ("t", 1): NOT_NEEDED,
        ("t", 5): UNKNOWN,
        ("none", 0): UNKNOWN,
    }
    assert elect(harness, kind, None) == {}


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
async def test_a_partition_without_leader_gets_one_when_its_replica_is_back(harness: Harness, kind: int) -> None:
    topic_id = harness.create("t", 2)
    change(harness, topic_id, leader=NO_LEADER)
    epoch = state(harness).leader_epoch
    # In a version of Produce that has no place for the leader's name.
    assert harness.produce("t", b"a").error_code == errors.NotLeaderOrFollowerError.code
    assert elect(harness, kind, None) == {("t", 0): OK}
    assert (state(harness).leader, state(harness).leader_epoch) == (1, epoch + 1)
    assert harness.produce("t", b"a").error_code == OK
    assert elect(harness, kind, {"t": [0]}) == {("t", 0): NOT_NEEDED}


async def test_only_an_unclean_election_chooses_a_replica_that_was_not_in_sync(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, replicas=[2, 1], isr=[2], leader=NO_LEADER, directories=[UUID(int=9), UUID(int=1)])
    unavailable = errors.PreferredLeaderNotAvailableError.code
    assert elect(harness, PREFERRED, {"t": [0]}) == {("t", 0): unavailable}
    assert elect(harness, PREFERRED, None) == {("t", 0): unavailable}
    assert state(harness).leader == NO_LEADER
    assert elect(harness, UNCLEAN, {"t": [0]}) == {("t", 0): OK}
    found = state(harness)
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, [1], 1)


async def test_an_eligible_leader_is_equal_to_one_in_sync_when_none_is(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, isr=[], leader=NO_LEADER, eligible_leader_replicas=[2, 1])
    assert elect(harness, PREFERRED, {"t": [0]}) == {("t", 0): OK}
    found = state(harness)
    # Without the feature, no replica stays eligible.
    assert (found.leader, found.isr, found.eligible_leader_replicas) == (1, [1], [])
    assert found.leader_recovery_state == 0


async def test_nobody_can_lead_when_no_replica_is_here(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, replicas=[2], isr=[2], leader=NO_LEADER, directories=[UUID(int=9)])
    assert elect(harness, UNCLEAN, {"t": [0]}) == {("t", 0): errors.EligibleLeadersNotAvailableError.code}


async def test_a_replica_in_a_directory_that_is_offline_does_not_lead(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, leader=NO_LEADER, directories=[UUID(int=77)])
    assert elect(harness, UNCLEAN, {"t": [0]}) == {("t", 0): errors.EligibleLeadersNotAvailableError.code}


async def test_an_unknown_kind_of_election_fails_every_partition(harness: Harness) -> None:
    harness.create("t")
    one = ElectLeadersRequest
    request = one(election_type=7, topic_partitions=[one.TopicPartitions(topic="t", partitions=[0])])
    answer = harness.send(request, 2)
    code = errors.InvalidRequestError.code
    found = answer.replica_election_results[0].partition_result[0]
    assert (answer.error_code, found.error_code, found.error_message) == (code, code, "Unknown election type 7")


# Moves


def move(harness: Harness, replicas: Sequence[int] | None, *, may_change_count: bool = True) -> tuple[int, str | None]:
    one = AlterPartitionReassignmentsRequest
    wanted = one.ReassignablePartition(partition_index=0, replicas=None if replicas is None else list(replicas))
    topic = one.ReassignableTopic(name="t", partitions=[wanted])
    answer = harness.send(one(topics=[topic], allow_replication_factor_change=may_change_count), 1)
    assert answer.allow_replication_factor_change is may_change_count
    found = answer.responses[0].partitions[0]
    return found.error_code, found.error_message


def moving(harness: Harness, wanted: dict[str, list[int]] | None = None) -> list[Any]:
    one = ListPartitionReassignmentsRequest
    topics = None
    if wanted is not None:
        topics = [one.ListPartitionReassignmentsTopics(name=t, partition_indexes=p) for t, p in wanted.items()]
    answer = harness.send(one(topics=topics), 0)
    assert (answer.error_code, answer.error_message) == (OK, None)
    return [
        (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    ]


async def test_a_move_to_where_the_partition_is_changes_nothing(harness: Harness) -> None:
    harness.create("t")
    before = harness.broker.metadata.end_offset
    assert move(harness, [1]) == (OK, None)
    assert harness.broker.metadata.end_offset == before
    assert moving(harness) == []
    assert moving(harness, {"t": [0, 7], "none": [0]}) == []


@pytest.mark.parametrize(
    ("replicas", "code", "text"),
    [
        ([], BAD_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        ([2], BAD_ASSIGNMENT, "includes broker 2, but no such broker is registered."),
        ([1, 1], BAD_ASSIGNMENT, "includes the broker 1 more than once."),
        (None, errors.NoReassignmentInProgressError.code, None),
    ],
)
async def test_a_move_that_cannot_be(harness: Harness, replicas: Any, code: int, text: str | None) -> None:
    harness.create("t")
    answer = move(harness, replicas)
    assert answer[0] == code
    assert text is None if answer[1] is None else text is not None and text in answer[1]


async def test_deleted_replicas_are_removed_at_once(harness: Harness) -> None:
    topic_id = harness.create("t")
    directory = state(harness).directories[0]
    change(harness, topic_id, replicas=[2, 1], isr=[1], directories=[UUID(int=9), directory])
    epoch = state(harness).leader_epoch
    assert move(harness, [1], may_change_count=False) == (
        errors.InvalidReplicationFactorError.code,
        "The replication factor is changed from 2 to 1",
    )
    assert move(harness, [1]) == (OK, None)
    found = state(harness)
    assert (found.replicas, found.isr, found.directories, found.leader) == ([1], [1], [directory], 1)
    assert (found.leader_epoch, moving(harness)) == (epoch + 1, [])


async def test_a_move_that_waits_for_a_replica_is_listed_and_can_be_cancelled(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, replicas=[2], isr=[2], leader=2, directories=[UUID(int=9)])
    assert move(harness, [1]) == (OK, None)
    assert moving(harness, {"t": [0]}) == moving(harness) == [("t", 0, [1, 2], [1], [2])]
    assert move(harness, None) == (OK, None)
    found = state(harness)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ([2], [], [])
    assert moving(harness) == []


async def test_a_move_is_not_cancelled_if_only_the_new_replica_is_in_sync(harness: Harness) -> None:
    topic_id = harness.create("t")
    change(harness, topic_id, replicas=[2, 1], isr=[1], adding_replicas=[1], directories=[UUID(int=9), UUID(int=1)])
    code, text = move(harness, None)
    assert code == BAD_ASSIGNMENT
    assert "would require an unclean leader election" in (text or "")
    allow = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    harness.broker.controller.append([allow])
    assert move(harness, None) == (OK, None)
    assert (state(harness).replicas, state(harness).isr) == ([2], [2])


async def test_no_partition_that_does_not_exist_is_moved(harness: Harness) -> None:
    one = AlterPartitionReassignmentsRequest
    wanted = [one.ReassignablePartition(partition_index=3, replicas=[1])]
    harness.create("t")
    topics = [one.ReassignableTopic(name=name, partitions=wanted) for name in ("none", "t")]
    answer = harness.send(one(topics=topics), 1)
    assert [topic.partitions[0].error_message for topic in answer.responses] == [
        "Unable to find a topic named none.",
        "Unable to find partition t:3.",
    ]
    assert {topic.partitions[0].error_code for topic in answer.responses} == {UNKNOWN}


# Producers


def producers(harness: Harness, topic: str, *partitions: int) -> list[Any]:
    one = DescribeProducersRequest
    request = one(topics=[one.TopicRequest(name=topic, partition_indexes=list(partitions))])
    found: list[Any] = harness.send(request, 0).topics[0].partitions
    return found


async def test_a_partitions_producers_are_described(harness: Harness) -> None:
    harness.create("t", 2)
    header = {"producer_id": 42, "producer_epoch": 3, "base_sequence": 0}
    assert harness.produce_bytes("t", batch(b"a", b"b", timestamp=1_700_000_000_123, **header)).error_code == OK
    harness.produce("t", b"plain")
    for clean in (True, False):
        first, second = producers(harness, "t", 0, 1)
        (found,) = first.active_producers
        assert (found.producer_id, found.producer_epoch, found.last_sequence) == (42, 3, 1)
        assert (found.last_timestamp, found.coordinator_epoch) == (1_700_000_000_123, -1)
        assert found.current_txn_start_offset == -1
        assert second.active_producers == []
        harness.restart(clean=clean)


async def test_an_open_transaction_of_a_producer_shows_where_it_began(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"before")
    header = {"producer_id": 42, "producer_epoch": 0, "base_sequence": 0}
    log = harness.broker.logs.get("t", 0)
    assert log is not None
    records = batch(b"a", base_offset=1, is_transactional=True, **header)
    log.append(records, leader_epoch=0, origin=Origin.REPLICATION, now_ms=harness.clock())
    (found,) = producers(harness, "t", 0)[0].active_producers
    assert (found.producer_id, found.current_txn_start_offset) == (42, 1)


@pytest.mark.parametrize(
    ("topic", "partition", "error", "text"),
    [
        ("none", 0, errors.UnknownTopicOrPartitionError, "This server does not host this topic-partition."),
        ("bad name", 0, errors.InvalidTopicError, "Topic name is invalid: 'bad name'"),
        ("t", 7, errors.UnknownTopicOrPartitionError, None),
    ],
)
async def test_producers_of_a_partition_that_is_not_there(
    harness: Harness, topic: str, partition: int, error: type[errors.BrokerError], text: str | None
) -> None:
    harness.create("t")
    (found,) = producers(harness, topic, partition)
    assert found.error_code == error.code
    assert found.error_message is None if text is None else text in found.error_message


# Names that collide


async def test_of_names_that_collide_in_one_request_the_first_is_made(harness: Harness) -> None:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("a.b", "a_b", "bad name", "bad_name", "c_d")
    ]
    answer = harness.send(CreateTopicsRequest(topics=topics), 7)
    invalid = errors.InvalidTopicError.code
    assert [topic.error_code for topic in answer.topics] == [OK, invalid, invalid, OK, OK]
    assert answer.topics[1].error_message == "Topic 'a_b' collides with existing topic: a.b"
    assert list(harness.broker.metadata.image.topics) == ["a.b", "bad_name", "c_d"]
