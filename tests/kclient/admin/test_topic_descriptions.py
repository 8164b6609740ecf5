"""Descriptions of topics: page by page from new brokers, without the ELR from old ones."""

from __future__ import annotations

import itertools

import pytest

from kclient.admin.topic_descriptions import describe_topics
from kclient.errors import AdminError, UnknownTopicOrPartitionError
from kclient.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, metadata, soon

Answer = DescribeTopicPartitionsResponse
SIZES = {"a": 3, "b": 0, "c": 5}
"""The partitions of each topic; none stands for a topic that does not exist."""


def pages(limit: int) -> ScriptedCore:
    """A broker that describes at most so many partitions in one response."""

    def describe(node: int, request: DescribeTopicPartitionsRequest) -> Answer:
        start = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
        left = limit
        answer = Answer()
        for name in sorted(topic.name for topic in request.topics if topic.name >= start[0]):
            first = start[1] if name == start[0] else 0
            numbers = list(itertools.islice(range(first, SIZES[name]), left))
            topic = Answer.DescribeTopicPartitionsResponseTopic(name=name, error_code=0 if SIZES[name] else 3)
            topic.partitions = [
                Answer.DescribeTopicPartitionsResponsePartition(
                    partition_index=number,
                    leader_id=1,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1],
                    eligible_leader_replicas=[2] if number else None,
                    last_known_elr=[3] if number else [],
                )
                for number in numbers
            ]
            answer.topics.append(topic)
            left -= len(numbers)
            if first + len(numbers) < SIZES[name]:
                answer.next_cursor = Answer.Cursor(topic_name=name, partition_index=first + len(numbers))
                break
        return answer

    return ScriptedCore(Cluster(DescribeTopicPartitions=describe))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_of_any_size_add_up_to_all_partitions(limit: int) -> None:
    core = pages(limit)
    found = finished(describe_topics(core, ["c", "a"], soon()))
    assert {name: [info.partition for info in topic.partitions] for name, topic in found.items()} == {
        "c": [0, 1, 2, 3, 4],
        "a": [0, 1, 2],
    }
    assert len(core.asked) == -(-8 // limit)


def test_eligible_leader_replicas_are_those_that_the_broker_names() -> None:
    first, second, _ = finished(describe_topics(pages(100), ["a"], soon()))["a"].partitions
    assert (first.eligible_leader_replicas, first.last_known_elr) == (None, ())
    assert (second.eligible_leader_replicas, second.last_known_elr) == ((2,), (3,))


def test_a_missing_topic_does_not_hide_the_pages_of_the_others() -> None:
    with pytest.raises(AdminError) as caught:
        finished(describe_topics(pages(2), ["a", "b", "c"], soon()))
    assert isinstance(caught.value.errors["b"], UnknownTopicOrPartitionError)
    assert [len(topic.partitions) for topic in caught.value.results.values()] == [3, 5]


def test_an_old_broker_says_nothing_about_eligible_leader_replicas() -> None:
    def answer(node: int, request: MetadataRequest) -> MetadataResponse:
        return metadata(("t",))

    core = ScriptedCore(Cluster(Metadata=answer), newest={DescribeTopicPartitionsRequest: -1})
    (first, _) = finished(describe_topics(core, ["t"], soon()))["t"].partitions
    assert (first.replicas, first.eligible_leader_replicas, first.last_known_elr) == ((1,), None, None)
