"""The conversion of groups between the protocols (KIP-848, `group.consumer.migration.policy`).

A group without members takes the type of the first member that joins, and keeps its offsets. A classic group with
members becomes a consumer group when a member with the consumer protocol joins, if its members are consumers whose
metadata can be decoded. The members keep the assignment of the last generation, and the number of that generation
becomes their epoch. A consumer group becomes a classic one when its last member with the consumer protocol leaves, or
when that member is static and returns with the classic protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from kclient.errors import GroupIdNotFoundError, KafkaError, ProtocolError
from kclient.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_any_version,
)
from kclient.protocol.log_records import encode_versioned
from refbroker.coordinators.groups.assignors.spec import Assignment
from refbroker.coordinators.groups.classic.group import CONSUMER, ClassicGroup, tombstone
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.member import ClassicMember, GroupProtocol
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.member import ClassicMetadata, ConsumerMember
from refbroker.coordinators.groups.consumer.records import group_records, group_tombstones
from refbroker.coordinators.groups.consumer.settings import ConsumerSettings
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION_SIZE = 2
_LATEST_VERSION = 3


# From classic to consumer


def upgrade(
    classic: ClassicGroup, topics: GroupTopics, settings: ConsumerSettings, records: list[CoordinatorRecord]
) -> ConsumerGroup:
    """Return the consumer group that a classic group becomes; add its records.

    Raises:
        GroupIdNotFoundError: it cannot be converted.
    """
    group_id = classic.group_id
    if not settings.may_upgrade:
        raise _cannot_upgrade(group_id, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _cannot_upgrade(group_id, "the group does not use the consumer embedded protocol")
    if len(classic.members) > settings.max_size:
        raise _cannot_upgrade(group_id, "the group size exceeds the consumer group maximum size")
    group = ConsumerGroup(group_id)
    group.epoch = group.assignment_epoch = classic.generation
    try:
        for member in classic.members.values():
            upgraded, target = _upgrade_member(classic, member, topics)
            group.put_member(upgraded)
            group.targets[member.member_id] = target
    except ProtocolError as error:
        raise _cannot_upgrade(group_id, "the embedded consumer protocol is malformed") from error
    group.metadata_hash = topics.hash_of(group.subscribed_topics())
    records.append(tombstone(group_id))
    records += group_records(group)
    logger.info("[Group %s] Converted the classic group to a consumer group.", group_id)
    return group


def _cannot_upgrade(group_id: str, reason: str) -> GroupIdNotFoundError:
    logger.info("Cannot upgrade classic group %s to consumer group because %s.", group_id, reason)
    return GroupIdNotFoundError(f"Cannot upgrade classic group {group_id} to consumer group because {reason}.")


def _upgrade_member(
    group: ClassicGroup, member: ClassicMember, topics: GroupTopics
) -> tuple[ConsumerMember, Assignment]:
    # A new member may not have voted yet, and has no assignment.
    protocol = group.protocol or member.protocols[0].name
    subscription = decode_any_version(ConsumerProtocolSubscription, member.metadata(protocol))
    target: dict[UUID, frozenset[int]] = {}
    if member.assignment:
        assignment = decode_any_version(ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise _cannot_upgrade(
                group.group_id,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        for one in assignment.assigned_partitions:
            topic = topics.named(one.topic)
            if topic is not None:
                target[topic.topic_id] = frozenset(one.partitions)
    upgraded = ConsumerMember(
        member.member_id,
        group.generation,
        group.generation,
        member.instance_id,
        subscription.rack_id or None,
        member.rebalance_timeout_ms,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        assigned={topic: dict.fromkeys(numbers, group.generation) for topic, numbers in target.items()},
        classic=ClassicMetadata(member.session_timeout_ms, list(member.protocols)),
    )
    return upgraded, target


# From consumer to classic


def may_downgrade(group: ConsumerGroup, left: Mapping[str, ConsumerMember], settings: ConsumerSettings) -> bool:
    """Return whether a group becomes a classic one with the remaining members.

    Parameters:
        left: the remaining members.
    """
    if not left or any(member.classic is None for member in left.values()):
        return False
    if not settings.may_downgrade:
        logger.info(
            "Cannot downgrade consumer group %s to classic group because the policy forbids it.", group.group_id
        )
        return False
    if len(left) > settings.classic_max_size:
        logger.info("Cannot downgrade consumer group %s to classic group because it is too large.", group.group_id)
        return False
    return True


class Downgrade:
    """A consumer group that becomes a classic one.

    Parameters:
        group: the current group.
        left: the remaining members, all with the classic protocol.
        topics: the topics of the cluster.
        clock: milliseconds since the epoch.
        stored: the members in the log, if they differ from the group's.
        targets: the target assignment, if it differs from the group's.

    Attributes:
        classic: the resulting group.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        left: Mapping[str, ConsumerMember],
        topics: GroupTopics,
        clock: Callable[[], int],
        *,
        stored: list[str] | None = None,
        targets: Mapping[str, Assignment] | None = None,
    ) -> None:
        self._group = group
        self._stored = stored
        self.classic = ClassicGroup(group.group_id, clock, GroupState.STABLE)
        self.classic.generation = group.epoch
        for member in left.values():
            assert member.classic is not None
            self.classic.add(
                ClassicMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.classic.session_timeout_ms,
                    CONSUMER,
                    list(member.classic.protocols),
                )
            )
        self.classic.protocol = self.classic.select_protocol()
        self.classic.subscribed_topics = self.classic.read_subscriptions()
        for one in self.classic.members.values():
            target = (group.targets if targets is None else targets).get(one.member_id, {})
            one.assignment = classic_assignment(target, one.metadata(self.classic.protocol), topics)

    def result(
        self,
        response: T,
        groups: dict[str, ConsumerGroup],
        protocol: ClassicGroups,
        *,
        rebalance_because: str | None,
        before: list[CoordinatorRecord] | None = None,
        then: Callable[[KafkaError | None], None] | None = None,
    ) -> CoordinatorResult[T]:
        """Return the records to write; afterwards the classic protocol has the group.

        Parameters:
            groups: the consumer groups.
            protocol: takes over.
            rebalance_because: why the classic group has to start a rebalance, None if it need not.
            before: the records to write first.
            then: called at the end, or with the error.
        """
        records = [
            *(before or ()),
            *group_tombstones(self._group, self._stored),
            self.classic.record(self.classic.assignments),
        ]

        def written(error: KafkaError | None) -> None:
            if error is None:
                groups.pop(self.classic.group_id, None)
                protocol.adopt(self.classic, rebalance_because)
                logger.info("[Group %s] Converted the consumer group to a classic group.", self.classic.group_id)
            if then is not None:
                then(error)

        return CoordinatorResult(records, response, written, replayed=False)


def classic_assignment(target: Mapping[UUID, Iterable[int]], subscription: bytes, topics: GroupTopics) -> bytes:
    """Return partitions as bytes of the classic protocol, in the version of the subscription."""
    version = min(max(int.from_bytes(subscription[:_VERSION_SIZE], "big", signed=True), 0), _LATEST_VERSION)
    partition = ConsumerProtocolAssignment.TopicPartition
    named = ((topics.name_of(topic), numbers) for topic, numbers in target.items())
    assigned = [partition(topic=name, partitions=sorted(numbers)) for name, numbers in named if name is not None]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None), version)


def first_protocol(member: ConsumerMember) -> GroupProtocol:
    """Return the protocol in responses to a classic member: in a consumer group each member has its own."""
    assert member.classic is not None
    return member.classic.protocols[0]
