"""Offsets of partitions: first, end and by time; and deleting the oldest records.

Each request goes to the partition's leader, and is repeated if the leader moves. Elsewhere: committed offsets
(`group_offsets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kclient._topics import by_topic
from kclient.admin.arguments import mapping, number, partition
from kclient.admin.core import AdminCore, Outcomes
from kclient.config import ISOLATION_LEVELS
from kclient.errors import ConfigError, error_from_code
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kclient.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kclient.types import OffsetAndTimestamp, TopicPartition

HIGH_WATERMARK = -1


class OffsetSpec(IntEnum):
    """Offsets with a name; any other is found by a time in milliseconds since the epoch."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_FIRST_VERSION = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of ListOffsets with each special time (KIP-734, KIP-405, KIP-1005, KIP-1023)."""


def list_offsets(
    core: AdminCore, wanted: Mapping[TopicPartition, OffsetSpec | int], isolation_level: str, deadline: Deadline
) -> Operation[dict[TopicPartition, OffsetAndTimestamp]]:
    if isolation_level not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation_level is {' or '.join(ISOLATION_LEVELS)}, not {isolation_level!r}")
    wanted = mapping(wanted, partition, number, deadline.name)

    def ask(node: int, asked: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, OffsetAndTimestamp]]:
        kind = ListOffsetsRequest.ListOffsetsPartition
        topics = by_topic((key.topic, kind(partition_index=key.partition, timestamp=int(wanted[key]))) for key in asked)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=ISOLATION_LEVELS[isolation_level],
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=int(deadline.remaining() * 1000),
        )
        first = max((_FIRST_VERSION.get(OffsetSpec(wanted[key]), 1) for key in asked if wanted[key] < 0), default=1)
        answer: ListOffsetsResponse = yield from core.request(
            node, ListOffsetsRequest, lambda version: request, deadline, first
        )
        return {
            TopicPartition(topic.name, each.partition_index): error_from_code(
                each.error_code, topic=topic.name, partition=each.partition_index
            )
            if each.error_code
            else OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch if each.leader_epoch >= 0 else None)
            for topic in answer.topics
            for each in topic.partitions
        }

    def attempt(pending: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, OffsetAndTimestamp]]:
        by_leader, errors = yield from core.leaders(pending, deadline)
        found = yield from core.gather({node: ask(node, asked) for node, asked in by_leader.items()}, by_leader)
        return {**errors, **found}

    return (yield from core.keyed(wanted, attempt, deadline))


def delete_records(
    core: AdminCore, before: Mapping[TopicPartition, int], deadline: Deadline
) -> Operation[dict[TopicPartition, int]]:
    """Delete all records before the given offsets; return each partition's new log start offset."""
    before = mapping(before, partition, number, deadline.name)

    def ask(node: int, asked: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, int]]:
        kind = DeleteRecordsRequest.DeleteRecordsPartition
        topics = by_topic((key.topic, kind(partition_index=key.partition, offset=before[key])) for key in asked)
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()
            ],
            timeout_ms=int(deadline.remaining() * 1000),
        )
        answer: DeleteRecordsResponse = yield from core.request(
            node, DeleteRecordsRequest, lambda version: request, deadline
        )
        return {
            TopicPartition(topic.name, each.partition_index): error_from_code(
                each.error_code,
                topic=topic.name,
                partition=each.partition_index,
                offset=before[TopicPartition(topic.name, each.partition_index)],
            )
            if each.error_code
            else each.low_watermark
            for topic in answer.topics
            for each in topic.partitions
        }

    def attempt(pending: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, int]]:
        by_leader, errors = yield from core.leaders(pending, deadline)
        found = yield from core.gather({node: ask(node, asked) for node, asked in by_leader.items()}, by_leader)
        return {**errors, **found}

    return (yield from core.keyed(before, attempt, deadline))
