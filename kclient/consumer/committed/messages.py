"""OffsetCommit and OffsetFetch requests and responses, in all their versions. Elsewhere: when they are sent, and their
effects.

From version 10 on both name topics by id. The id is known only for topics in the metadata; without it the request uses
version 9 (`IDS_FROM - 1`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kclient._topics import by_topic
from kclient.consumer.group.generation import Generation
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.net.cluster import Cluster

IDS_FROM = 10
"""The first version of both requests that names topics by id."""
INSTANCE_FROM = 7
"""The first version of OffsetCommit with static members."""

_STABLE_FROM = 7
_BATCHED_FROM = 8
_NOTHING_COMMITTED = -1


class CommittedAnswer(NamedTuple):
    """The result for one partition: an error code, or the offset, None if none is committed."""

    code: int
    offset: OffsetAndMetadata | None


def topic_ids(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[str, UUID] | None:
    """Return the ids of the partitions' topics, or None if one is unknown."""
    found: dict[str, UUID] = {}
    for topic in {tp.topic for tp in partitions}:
        topic_id = cluster.topic_id(topic)
        if topic_id is None:
            return None
        found[topic] = topic_id
    return found


def build_commit(
    group: str,
    generation: Generation | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, UUID] | None,
    version: int,
) -> OffsetCommitRequest:
    """Return an OffsetCommit request; without a generation as a consumer that is not a member."""
    topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for tp, offset in offsets.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[])
            if version >= IDS_FROM:
                assert ids is not None
                topic.topic_id = ids[tp.topic]
            else:
                topic.name = tp.topic
        topic.partitions.append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    message = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
    if generation is not None:
        message.generation_id_or_member_epoch = generation.id
        message.member_id = generation.member_id
        message.group_instance_id = generation.instance_id
    return message


def read_commit(response: OffsetCommitResponse, ids: Mapping[str, UUID] | None) -> dict[TopicPartition, int]:
    """Return the error codes by partition."""
    names = {} if ids is None else {topic_id: name for name, topic_id in ids.items()}
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def build_fetch(
    group: str,
    generation: Generation | None,
    partitions: Iterable[TopicPartition],
    ids: Mapping[str, UUID] | None,
    version: int,
) -> OffsetFetchRequest:
    """Return an OffsetFetch request, which waits for open transactions if the broker can.

    Parameters:
        generation: the generation of a member that uses the consumer protocol (KIP-848), so that the coordinator can
            refuse a fenced one; None for other consumers. It is not sent before version 9.
    """
    numbers = by_topic(partitions)
    message = OffsetFetchRequest()
    if version >= _STABLE_FROM:
        message.require_stable = True
    if version < _BATCHED_FROM:
        message.group_id = group
        message.topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in numbers.items()
        ]
        return message
    topics = []
    for name, indexes in numbers.items():
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=indexes)
        if version >= IDS_FROM:
            assert ids is not None
            topic.topic_id = ids[name]
        else:
            topic.name = name
        topics.append(topic)
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)
    if generation is not None:
        asked.member_id, asked.member_epoch = generation.member_id, generation.id
    message.groups = [asked]
    return message


def read_fetch(
    response: OffsetFetchResponse, group: str, ids: Mapping[str, UUID] | None
) -> tuple[int, dict[TopicPartition, CommittedAnswer]]:
    """Return the error code of the whole group, and the results by partition."""
    names = {} if ids is None else {topic_id: name for name, topic_id in ids.items()}
    found: dict[TopicPartition, CommittedAnswer] = {}
    code = response.error_code
    for topic in response.topics:
        for old in topic.partitions:
            found[TopicPartition(topic.name, old.partition_index)] = _answer(old)
    for answered in response.groups:
        if answered.group_id != group:
            continue
        code = answered.error_code
        for entry in answered.topics:
            name = entry.name or names.get(entry.topic_id, "")
            for partition in entry.partitions:
                found[TopicPartition(name, partition.partition_index)] = _answer(partition)
    return code, found


def _answer(
    partition: OffsetFetchResponse.OffsetFetchResponsePartition | OffsetFetchResponse.OffsetFetchResponsePartitions,
) -> CommittedAnswer:
    if partition.error_code or partition.committed_offset == _NOTHING_COMMITTED:
        return CommittedAnswer(partition.error_code, None)
    epoch = None if partition.committed_leader_epoch < 0 else partition.committed_leader_epoch
    return CommittedAnswer(0, OffsetAndMetadata(partition.committed_offset, partition.metadata or "", epoch))
