"""Listing, describing and deleting the groups of a partition.

It does no I/O, like the rest of the groups: the returned records contain the deletions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from kclient.errors import GroupIdNotFoundError, GroupNotEmptyError
from kclient.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kclient.protocol.messages.describe_groups import DescribeGroupsResponse
from kclient.protocol.messages.list_groups import ListGroupsResponse
from refbroker.coordinators.groups.classic.group import CONSUMER, ClassicGroup
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.group import ConsumerGroup, partitions_of
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.expiry import tombstones_of
from refbroker.coordinators.groups.offsets import CommittedOffsets, offset_tombstone
from refbroker.coordinators.runtime import CoordinatorResult

CLASSIC = "classic"
FIRST_WITH_GROUP_ID_NOT_FOUND = 6

CONSUMER_MEMBER, CLASSIC_MEMBER = 1, 0

DescribedGroup = DescribeGroupsResponse.DescribedGroup
DescribedConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup
DescribedAssignment = ConsumerGroupDescribeResponse.Assignment


def list_groups(
    groups: Iterable[ClassicGroup | ConsumerGroup], states: Collection[str], types: Collection[str]
) -> list[ListGroupsResponse.ListedGroup]:
    """List the groups in some of these states and of some of these types, in any case; empty means any."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_types = {kind.lower() for kind in types}
    listed = [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type or "",
            group_state=group.state.value,
            group_type=CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC,
        )
        for group in groups
    ]
    return [
        group
        for group in listed
        if (not wanted_types or group.group_type in wanted_types)
        and (not wanted_states or group.group_state.lower() in wanted_states)
    ]


def describe_group(
    groups: Mapping[str, ClassicGroup], consumers: Mapping[str, ConsumerGroup], group_id: str, version: int
) -> DescribedGroup:
    """Describe a classic group; members' metadata only after they have agreed on a protocol."""
    group = groups.get(group_id)
    if group is None:
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= FIRST_WITH_GROUP_ID_NOT_FOUND:
            is_other = group_id in consumers
            missing.error_code = GroupIdNotFoundError.code
            missing.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
        return missing
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.metadata(protocol),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def describe_consumer_group(
    groups: Mapping[str, ClassicGroup],
    consumers: Mapping[str, ConsumerGroup],
    group_id: str,
    default_assignor: str,
    topic_name: Callable[[UUID], str | None],
) -> DescribedConsumerGroup:
    """Describe a consumer group.

    Parameters:
        default_assignor: the assignor of groups whose members request none.
        topic_name: returns the name of a topic by its id, None if it was deleted.
    """
    group = consumers.get(group_id)
    if group is None:
        text = f"Group {group_id} {'is not a consumer group' if group_id in groups else 'not found'}."
        return DescribedConsumerGroup(group_id=group_id, error_code=GroupIdNotFoundError.code, error_message=text)
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_described_member(group, member, topic_name) for member in group.members.values()],
    )


def _described_member(
    group: ConsumerGroup, member: ConsumerMember, topic_name: Callable[[UUID], str | None]
) -> ConsumerGroupDescribeResponse.Member:
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        # Until it has released them, a member is responsible for the partitions of its response.
        assignment=_described_assignment(topic_name, member.assigned, member.revoking),
        target_assignment=_described_assignment(topic_name, group.targets.get(member.member_id, {})),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _described_assignment(
    topic_name: Callable[[UUID], str | None], *held: Mapping[UUID, Iterable[int]]
) -> DescribedAssignment:
    topics: dict[UUID, list[int]] = {}
    for topic, partition in partitions_of(*held):
        topics.setdefault(topic, []).append(partition)
    named = ((topic, topic_name(topic), numbers) for topic, numbers in topics.items())
    return DescribedAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(topic_id=topic, topic_name=name, partitions=sorted(numbers))
            for topic, name, numbers in named
            if name is not None
        ]
    )


def delete_group(
    groups: Mapping[str, ClassicGroup],
    consumers: Mapping[str, ConsumerGroup],
    offsets: CommittedOffsets,
    group_id: str,
) -> CoordinatorResult[None]:
    """Delete a group without members, and its offsets.

    Raises:
        GroupIdNotFoundError: the group does not exist.
        GroupNotEmptyError: it has members.
    """
    group = consumers.get(group_id) or groups.get(group_id)
    if group is None or group.state is GroupState.DEAD:
        raise GroupIdNotFoundError(f"Group {group_id} not found.")
    if not group.is_empty:
        raise GroupNotEmptyError
    records = [*map(offset_tombstone, offsets.keys(group_id)), *tombstones_of(group)]
    # The group is deleted last: after a crash a group with fewer offsets remains, whose deletion was not confirmed.
    return CoordinatorResult(records, None, atomic=False)
