"""Requests that name a thing twice, or what cannot be: each is answered, as Apache Kafka answers it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_records import DeleteRecordsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest
from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.records.metadata_log import RegisterBrokerRecord
from refbroker.security.authorizer import FULL_ACCESS
from tests.support.broker_harness import Harness

Deletion = DeleteTopicsRequest.DeleteTopicState
INVALID_REQUEST = errors.InvalidRequestError.code
UNKNOWN_ID = UUID(int=77)


def delete(harness: Harness, *topics: Deletion) -> list[tuple[str | None, UUID, int, str | None]]:
    answer = harness.send(DeleteTopicsRequest(topics=list(topics)), 6)
    return [(one.name, one.topic_id, one.error_code, one.error_message) for one in answer.responses]


async def test_a_topic_that_is_to_be_deleted_twice_stays(harness: Harness) -> None:
    harness.create("a")
    answer = harness.send(DeleteTopicsRequest(topic_names=["a", "none", "a", "none"]), 5)
    assert [(one.name, one.error_code, one.error_message) for one in answer.responses] == [
        ("a", INVALID_REQUEST, "Duplicate topic name."),
        ("none", INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert list(harness.broker.metadata.image.topics) == ["a"]


async def test_a_topic_that_is_to_be_deleted_by_name_and_by_id_stays(harness: Harness) -> None:
    topic_id = harness.create("a")
    twice = [Deletion(topic_id=UNKNOWN_ID)] * 2
    assert delete(harness, Deletion(topic_id=topic_id), Deletion(name="a"), *twice) == [
        ("a", topic_id, INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."),
        (None, UNKNOWN_ID, INVALID_REQUEST, "Duplicate topic id."),
    ]
    assert list(harness.broker.metadata.image.topics) == ["a"]


async def test_a_name_that_is_refused_itself_does_not_keep_its_id_from_being_deleted(harness: Harness) -> None:
    for refused in ([Deletion(name="a")] * 2, [Deletion(name="a", topic_id=UNKNOWN_ID)]):
        topic_id = harness.create("a")
        answers = delete(harness, *refused, Deletion(topic_id=topic_id))
        assert {(name, code) for name, _, code, _ in answers} == {("a", INVALID_REQUEST), ("a", 0)}
        assert not harness.broker.metadata.image.topics


@pytest.mark.parametrize(
    ("version", "error"), [(2, errors.InvalidRequestError), (3, errors.TopicDeletionDisabledError)]
)
async def test_older_clients_hear_otherwise_that_deleting_is_forbidden(
    harness: Harness, version: int, error: type[errors.KafkaError]
) -> None:
    harness.settings["delete.topic.enable"] = "false"
    harness.restart()
    (answer,) = harness.send(DeleteTopicsRequest(topic_names=["a"]), version).responses
    assert (answer.name, answer.error_code) == ("a", error.code)


@pytest.mark.parametrize("entries", [1, 3])
async def test_offsets_that_are_asked_for_twice_are_refused(harness: Harness, entries: int) -> None:
    harness.create("t", 2)
    kind = ListOffsetsRequest
    wanted = [kind.ListOffsetsPartition(partition_index=n, timestamp=at) for n, at in ((0, -1), (1, -1), (0, -2))]
    parts = [wanted] if entries == 1 else [[one] for one in wanted]
    request = kind(topics=[kind.ListOffsetsTopic(name="t", partitions=part) for part in parts])
    (topic,) = harness.send(request, 7).topics
    found = {one.partition_index: (one.error_code, one.offset) for one in topic.partitions}
    assert len(topic.partitions) == 2
    assert found == {0: (INVALID_REQUEST, -1), 1: (0, 0)}


@pytest.mark.parametrize("entries", [1, 2])
async def test_of_records_that_are_to_be_deleted_twice_the_last_offset_counts(harness: Harness, entries: int) -> None:
    harness.create("t")
    harness.produce("t", *(b"v" for _ in range(5)))
    kind = DeleteRecordsRequest
    wanted = [kind.DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (4, 2)]
    parts = [wanted] if entries == 1 else [[one] for one in wanted]
    request = kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=part) for part in parts])
    (result,) = harness.send(request, 2).topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 2)


def pages(harness: Harness, *names: str, cursor: tuple[str, int] | None = None, limit: int = 10) -> Any:
    kind = DescribeTopicPartitionsRequest
    return harness.send(
        kind(
            topics=[kind.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
        0,
    )


@pytest.mark.parametrize("cursor", [("a", -1), ("b", 0), ("z", 0)])
async def test_a_cursor_that_cannot_be_is_refused(harness: Harness, cursor: tuple[str, int]) -> None:
    harness.create("a")
    harness.create("b")
    answer = pages(harness, "a", "c", "a", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", INVALID_REQUEST),
        ("c", INVALID_REQUEST),
    ]
    assert pages(harness, cursor=("a", -1)).topics == []


async def test_a_topic_that_is_not_there_takes_its_turn_in_the_pages(harness: Harness) -> None:
    harness.create("a")
    harness.create("c")
    missing = errors.UnknownTopicOrPartitionError.code
    first = pages(harness, "a", "b", "c", limit=1)
    assert [topic.name for topic in first.topics] == ["a"]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("b", 0)
    second = pages(harness, "a", "b", "c", cursor=("b", 0), limit=1)
    assert [(topic.name, topic.error_code) for topic in second.topics] == [("b", missing), ("c", 0)]
    assert {topic.topic_authorized_operations for topic in second.topics} == {
        FULL_ACCESS.operations(AclResourceType.TOPIC)
    }


@pytest.mark.parametrize(
    ("endpoint_type", "error", "text"),
    [
        (
            2,
            errors.MismatchedEndpointTypeError,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (7, errors.UnsupportedEndpointTypeError, "Unsupported endpoint type 7"),
    ],
    ids=["controller", "unknown"],
)
async def test_another_endpoint_than_a_brokers_is_refused(
    harness: Harness, endpoint_type: int, error: type[errors.KafkaError], text: str
) -> None:
    answer = harness.send(DescribeClusterRequest(endpoint_type=endpoint_type), 2)
    assert (answer.error_code, answer.error_message) == (error.code, text)


def join(harness: Harness, node: int, *, fenced: bool = False) -> None:
    """Have the metadata know of another broker, as it may where a cluster had more nodes."""
    harness.broker.controller.append([RegisterBrokerRecord(broker_id=node, fenced=fenced)])


def place(
    harness: Harness, *partitions: tuple[int, list[int]], name: str = "t", **topic: Any
) -> list[tuple[str, int, str | None]]:
    kind = CreateTopicsRequest
    placed = [
        kind.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in partitions
    ]
    wanted = {"num_partitions": -1, "replication_factor": -1, **topic}
    created = kind.CreatableTopic(name=name, assignments=placed, **wanted)
    return [(one.name, one.error_code, one.error_message) for one in harness.send(kind(topics=[created]), 7).topics]


NOBODY = (
    "All brokers specified in the manual partition assignment for partition 2 are fenced or in controlled shutdown."
)
BY_HAND = "The manual partition assignment includes "
INCONSISTENT = "but this is not consistent with previous partitions, which have"


def beginning(value: object) -> str | None:
    """Return the first words of an error as the id of its case."""
    return value.removeprefix(BY_HAND)[:40] if isinstance(value, str) else None


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        ([(5, [1]), (5, [9])], "Found multiple manual partition assignments for partition 5"),
        ([(0, [9]), (0, [1])], f"{BY_HAND}broker 9, but no such broker is registered."),
        ([(0, [1]), (0, [1]), (1, [])], "Found multiple manual partition assignments for partition 0"),
        ([(0, [1]), (1, []), (1, [1])], f"{BY_HAND}an empty replica list."),
        ([(0, [9, 7])], f"{BY_HAND}broker 7, but no such broker is registered."),
        ([(0, [9, 1, 1])], f"{BY_HAND}the broker 1 more than once."),
        ([(0, [1]), (1, [2, 1])], f"{BY_HAND}a partition with 2 replica(s), {INCONSISTENT} 1 replica(s)."),
        ([(1, [1]), (3, [1, 2])], f"{BY_HAND}a partition with 2 replica(s), {INCONSISTENT} 1 replica(s)."),
        ([(0, [1]), (2, [9])], f"{BY_HAND}broker 9, but no such broker is registered."),
        ([(0, [1]), (2, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (2, [3])], NOBODY),
    ],
    ids=beginning,
)
async def test_of_all_that_is_wrong_with_replicas_placed_by_hand_the_first_is_reported(
    harness: Harness, partitions: list[tuple[int, list[int]]], text: str
) -> None:
    join(harness, 2)
    join(harness, 3, fenced=True)
    assert place(harness, *partitions) == [("t", errors.InvalidReplicaAssignmentError.code, text)]


async def test_what_else_is_wrong_with_a_topic_is_reported_before_its_placement(harness: Harness) -> None:
    harness.create("there")
    twice = (0, [1]), (0, [1])
    null = [CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=None)]
    assert place(harness, *twice, name="there")[0][1] == errors.TopicExistsError.code
    assert place(harness, *twice, name="bad name")[0][1] == errors.InvalidTopicError.code
    assert place(harness, *twice, name="__cluster_metadata")[0][1] == INVALID_REQUEST
    assert place(harness, *twice, configs=null)[0][1] == errors.InvalidConfigurationError.code
    assert place(harness, *twice, num_partitions=2)[0][1] == INVALID_REQUEST


async def test_replicas_on_brokers_that_are_fenced_are_not_in_sync(harness: Harness) -> None:
    join(harness, 0, fenced=True)
    assert place(harness, (0, [0, 1])) == [("t", 0, None)]
    created = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=1, replication_factor=2)
    assert not harness.send(CreateTopicsRequest(topics=[created]), 7).topics[0].error_code
    topics = harness.broker.metadata.image.topics
    found = [topics[name].partitions[0] for name in ("t", "u")]
    assert [(one.replicas, one.isr, one.leader) for one in found] == [([0, 1], [1], 1), ([1, 0], [1], 1)]


@pytest.mark.parametrize(
    ("count", "placed", "text"),
    [
        (2, [[1, 2]], f"{BY_HAND}a partition with 2 replica(s), {INCONSISTENT} 1 replica(s)."),
        (2, [[2, 2]], f"{BY_HAND}the broker 2 more than once."),
        (20_000, [[1]], "Attempted to add 19999 additional partition(s), but only 1 assignment(s) were specified."),
        (3, [[1], [3]], NOBODY),
    ],
    ids=beginning,
)
async def test_more_partitions_are_placed_by_the_same_rules(
    harness: Harness, count: int, placed: list[list[int]], text: str
) -> None:
    join(harness, 2)
    join(harness, 3, fenced=True)
    harness.create("t")
    kind = CreatePartitionsRequest
    assignments = [kind.CreatePartitionsAssignment(broker_ids=brokers) for brokers in placed]
    topic = kind.CreatePartitionsTopic(name="t", count=count, assignments=assignments)
    (result,) = harness.send(kind(topics=[topic]), 3).results
    assert (result.error_code, result.error_message) == (errors.InvalidReplicaAssignmentError.code, text)


def created(harness: Harness, **partitions: list[int]) -> list[tuple[str, int]]:
    """The answer about topics of so many partitions, each named as often as it has numbers."""
    kind = CreateTopicsRequest
    topics = [
        kind.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, counts in partitions.items()
        for count in counts
    ]
    return [(one.name, one.error_code) for one in harness.send(kind(topics=topics), 7).topics]


async def test_topics_that_are_named_twice_do_not_count_among_too_many_partitions(harness: Harness) -> None:
    assert created(harness, a=[6_000, 6_000], b=[1], __cluster_metadata=[10_000]) == [
        ("b", 0),
        ("a", INVALID_REQUEST),
        ("__cluster_metadata", INVALID_REQUEST),
    ]


async def test_too_many_partitions_fail_every_topic_also_those_that_are_named_twice(harness: Harness) -> None:
    code = errors.PolicyViolationError.code
    assert created(harness, a=[1, 1], b=[10_001]) == [("a", code), ("a", code), ("b", code)]


async def test_more_partitions_for_a_topic_that_is_not_there_are_refused_without_a_text(harness: Harness) -> None:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="none", count=2)
    (result,) = harness.send(CreatePartitionsRequest(topics=[topic]), 3).results
    assert (result.error_code, result.error_message) == (errors.UnknownTopicOrPartitionError.code, None)
