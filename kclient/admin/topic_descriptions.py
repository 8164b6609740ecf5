"""What topics there are, and the state of their partitions: leader, replicas, in-sync replicas, ELR (KIP-966).

Elsewhere: changes of topics (`topics`), and reassignments that are in progress (`reassignments`).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import msgspec

from kclient.admin.arguments import several
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import KafkaError, UnsupportedVersionError, error_from_code
from kclient.net.cluster import partition_info
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kclient.protocol.messages.metadata import MetadataResponse
from kclient.types import PartitionInfo

PARTITIONS_PER_PAGE = 2000


class TopicListing(msgspec.Struct, frozen=True):
    """A topic in the list of topics."""

    name: str
    topic_id: UUID
    is_internal: bool


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic and all its partitions, in their order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


def list_topics(core: AdminCore, include_internal: bool, deadline: Deadline) -> Operation[dict[str, TopicListing]]:
    answer = yield from core.ask_metadata(None, deadline)
    return {
        topic.name: TopicListing(topic.name, topic.topic_id, topic.is_internal)
        for topic in sorted(answer.topics, key=lambda topic: topic.name or "")
        if topic.name is not None and (include_internal or not topic.is_internal)
    }


def describe_topics(
    core: AdminCore, topics: Iterable[str], deadline: Deadline
) -> Operation[dict[str, TopicDescription]]:
    """Use DescribeTopicPartitions (KIP-966), page by page, if the broker supports it, otherwise Metadata."""

    def attempt(names: list[str]) -> Operation[Outcomes[str, TopicDescription]]:
        try:
            return (yield from _describe_by_pages(core, names, deadline))
        except UnsupportedVersionError:
            answer = yield from core.ask_metadata(names, deadline)
            return {topic.name or "": _described(topic, topic.partitions) for topic in answer.topics}

    return (yield from core.keyed(several(topics, str, deadline.name), attempt, deadline))


def _describe_by_pages(
    core: AdminCore, names: list[str], deadline: Deadline
) -> Operation[Outcomes[str, TopicDescription]]:
    found: dict[str, DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = {}
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None
    wanted = sorted(names)
    while True:
        answer = yield from _describe_page(core, wanted, cursor, deadline)
        for topic in answer.topics:
            name = topic.name or ""
            if name in found:
                found[name].partitions.extend(topic.partitions)
            else:
                found[name] = topic
        if answer.next_cursor is None:
            return {name: _described(topic, topic.partitions) for name, topic in found.items()}
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )
        wanted = [name for name in wanted if name >= cursor.topic_name]


def _describe_page(
    core: AdminCore, names: list[str], cursor: DescribeTopicPartitionsRequest.Cursor | None, deadline: Deadline
) -> Operation[DescribeTopicPartitionsResponse]:
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=PARTITIONS_PER_PAGE,
        cursor=cursor,
    )
    answer: DescribeTopicPartitionsResponse = yield from core.request_until_answered(
        ANY_NODE, DescribeTopicPartitionsRequest, lambda version: request, deadline
    )
    return answer


def _described(
    topic: MetadataResponse.MetadataResponseTopic
    | DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic,
    partitions: Iterable[
        MetadataResponse.MetadataResponsePartition
        | DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
    ],
) -> TopicDescription | KafkaError:
    name = topic.name or ""
    if topic.error_code:
        return error_from_code(topic.error_code, topic=name)
    infos = (_partition(name, partition) for partition in partitions)
    return TopicDescription(
        name, topic.topic_id, topic.is_internal, tuple(sorted(infos, key=lambda info: info.partition))
    )


def _partition(
    topic: str,
    entry: MetadataResponse.MetadataResponsePartition
    | DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition,
) -> PartitionInfo:
    info = partition_info(topic, entry)
    if isinstance(entry, MetadataResponse.MetadataResponsePartition):
        return info
    return msgspec.structs.replace(
        info,
        eligible_leader_replicas=_brokers(entry.eligible_leader_replicas),
        last_known_elr=_brokers(entry.last_known_elr),
    )


def _brokers(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)
