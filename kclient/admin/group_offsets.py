"""The committed offsets of groups: read, set and delete them.

Requests use topic names instead of ids, as in the Java client, so that offsets of deleted topics can still be read and
deleted. Elsewhere: computing the offsets of a reset (`offset_resets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kclient._topics import by_topic
from kclient.admin.arguments import instance, mapping, partition, partitions, several, text
from kclient.admin.coordinators import at_coordinator, at_coordinators
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import (
    KafkaError,
    UnknownMemberIdError,
    error_from_code,
    raise_for_code,
)
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import Node, OffsetAndMetadata, TopicPartition

Committed = dict[TopicPartition, OffsetAndMetadata | None]
"""Committed offsets by partition; None without one."""

LAST_VERSION_WITH_NAMES = 9

_SEVERAL_GROUPS_FROM = 8
_STABLE_FROM = 7


def list_group_offsets(
    core: AdminCore,
    groups: str | Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
    require_stable: bool,
    deadline: Deadline,
) -> Operation[dict[str, Committed]]:
    """Return the committed offsets of groups; None for all partitions of a group."""
    given = groups if isinstance(groups, Mapping) else dict.fromkeys(several(groups, str, deadline.name))
    wanted = {
        text(group, deadline.name): None if keys is None else by_topic(partitions(keys, deadline.name))
        for group, keys in given.items()
    }

    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, Committed]]:
        found: Outcomes[str, Committed] = {}
        left = list(asked)
        while left:
            answer: OffsetFetchResponse = yield from core.request(
                node.node_id,
                OffsetFetchRequest,
                partial(_offset_fetch, wanted, left, require_stable),
                deadline,
                _STABLE_FROM if require_stable else None,
                LAST_VERSION_WITH_NAMES,
            )
            if answer.groups:
                return found | {one.group_id: _committed(one) for one in answer.groups}
            found[left[0]] = _committed(answer)
            left = left[1:]
        return found

    return (yield from at_coordinators(core, wanted, ask, deadline))


def alter_group_offsets(
    core: AdminCore, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], deadline: Deadline
) -> Operation[dict[TopicPartition, None]]:
    """Commit as a consumer that is not a member, which is allowed while the group has no members."""
    text(group, deadline.name)
    wanted = mapping(offsets, partition, _offset, deadline.name)

    def ask(node: Node, asked: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, None]]:
        request = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit(number, wanted[TopicPartition(topic, number)]) for number in numbers],
                )
                for topic, numbers in by_topic(asked).items()
            ],
        )
        answer: OffsetCommitResponse = yield from core.request(
            node.node_id,
            OffsetCommitRequest,
            lambda version: request,
            deadline,
            maximum_version=LAST_VERSION_WITH_NAMES,
        )
        return {
            TopicPartition(topic.name, each.partition_index): _alter_error(topic.name, each)
            for topic in answer.topics
            for each in topic.partitions
        }

    return (yield from at_coordinator(core, group, wanted, ask, deadline))


def delete_group_offsets(
    core: AdminCore, group: str, keys: Iterable[TopicPartition], deadline: Deadline
) -> Operation[dict[TopicPartition, None]]:
    def ask(node: Node, asked: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, None]]:
        kind = OffsetDeleteRequest
        request = kind(
            group_id=group,
            topics=[
                kind.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[kind.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
                )
                for topic, numbers in by_topic(asked).items()
            ],
        )
        answer: OffsetDeleteResponse = yield from core.request(node.node_id, kind, lambda version: request, deadline)
        raise_for_code(answer.error_code, api="OffsetDelete")
        return {
            TopicPartition(topic.name, each.partition_index): error_from_code(
                each.error_code, topic=topic.name, partition=each.partition_index
            )
            if each.error_code
            else None
            for topic in answer.topics
            for each in topic.partitions
        }

    text(group, deadline.name)
    wanted = partitions(keys, deadline.name)
    return (yield from at_coordinator(core, group, wanted, ask, deadline))


def _offset_fetch(
    wanted: Mapping[str, Mapping[str, list[int]] | None], groups: list[str], require_stable: bool, version: int
) -> OffsetFetchRequest:
    """Return a request with all groups from version 8 on (KIP-709), before that with the first one."""
    kind = OffsetFetchRequest
    if version < _SEVERAL_GROUPS_FROM:
        topics = wanted[groups[0]]
        return kind(
            group_id=groups[0],
            topics=None
            if topics is None
            else [
                kind.OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in topics.items()
            ],
            require_stable=require_stable,
        )
    asked = []
    for group in groups:
        named = wanted[group]
        asked.append(
            kind.OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if named is None
                else [
                    kind.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                    for name, numbers in named.items()
                ],
            )
        )
    return kind(groups=asked, require_stable=require_stable)


def _committed(answer: OffsetFetchResponse | OffsetFetchResponse.OffsetFetchResponseGroup) -> Committed | KafkaError:
    """Return the result of a group; an error of one partition counts for the group, because a retry has to repeat
    all.
    """
    if answer.error_code:
        return error_from_code(answer.error_code, api="OffsetFetch")
    found: Committed = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                return error_from_code(
                    each.error_code, topic=topic.name, partition=each.partition_index, api="OffsetFetch"
                )
            epoch = each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None
            found[TopicPartition(topic.name, each.partition_index)] = (
                None
                if each.committed_offset < 0
                else OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch)
            )
    return dict(sorted(found.items()))


def _offset(given: object, what: str) -> OffsetAndMetadata:
    return OffsetAndMetadata(given) if isinstance(given, int) else instance(given, OffsetAndMetadata, what)


def _commit(partition: int, offset: OffsetAndMetadata) -> OffsetCommitRequest.OffsetCommitRequestPartition:
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _alter_error(topic: str, answer: OffsetCommitResponse.OffsetCommitResponsePartition) -> KafkaError | None:
    if not answer.error_code:
        return None
    where: dict[str, Any] = {"topic": topic, "partition": answer.partition_index, "api": "OffsetCommit"}
    if answer.error_code == UnknownMemberIdError.code:
        # The coordinator's error for a commit by a non-member to a group with members.
        return UnknownMemberIdError("the group has members, and only they may commit; stop them first", **where)
    return error_from_code(answer.error_code, **where)
