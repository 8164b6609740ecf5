"""Consumer groups: list, describe and delete them, and remove members.

Classic groups and groups of the consumer protocol (KIP-848) have the same description. Limitations: share and streams
groups are only listed. Elsewhere: committed offsets (`group_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

from kclient.admin.arguments import several, text
from kclient.admin.coordinators import at_coordinator, at_coordinators
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import (
    AdminError,
    ConfigError,
    GroupIdNotFoundError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
    error_from_code,
    raise_for_code,
)
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_any_version,
)
from kclient.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kclient.types import Node, TopicPartition

CONSUMER_PROTOCOL = "consumer"
REMOVED = "removed by an administrator"
REASON_LENGTH = 255

_STATES_FROM = 4
_TYPES_FROM = 5
_SEVERAL_MEMBERS_FROM = 3


class GroupState(Enum):
    """The state of a group, by Kafka's names; the possible states depend on its type."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(Enum):
    """The group protocol."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class GroupListing(msgspec.Struct, frozen=True):
    """A group in the list of groups.

    Attributes:
        protocol_type: "consumer", "connect" or another text of the members; empty for a group that only commits
            offsets.
    """

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str


class MemberIdentity(NamedTuple):
    """A member by its id, or a static one by its instance id (KIP-345)."""

    member_id: str = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        return self.member_id if self.instance_id is None else f"instance {self.instance_id}"


class GroupMember(msgspec.Struct, frozen=True):
    """A member of a group.

    Attributes:
        topics: the subscribed topics.
        assignment: the partitions that it reads; empty during a rebalance of a classic group.
        target_assignment: the partitions that it will read after the rebalance; None in a classic group, like
            `topic_pattern` and `epoch`.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None = None
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    target_assignment: tuple[TopicPartition, ...] | None = None
    topic_pattern: str | None = None
    epoch: int | None = None

    @property
    def identity(self) -> MemberIdentity:
        """The identity to use in requests: a static member keeps its instance id, but not its member id."""
        return MemberIdentity(self.member_id) if self.instance_id is None else MemberIdentity("", self.instance_id)


class GroupDescription(msgspec.Struct, frozen=True):
    """A group and its members.

    Attributes:
        protocol_type: as in `GroupListing`; topics and assignments of members are known in "consumer" groups only.
        assignor: the assignor in use; empty without one.
        coordinator: the coordinator's broker.
        epoch, assignment_epoch: the epochs of the group and of its target assignment; None in a classic group.
    """

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


N = TypeVar("N", bound=Enum)


def named(kind: type[N], name: str) -> N:
    """Return a state or type by Kafka's name, in any case; UNKNOWN for one of a later version."""
    return next((member for member in kind if member.value.lower() == name.lower()), kind["UNKNOWN"])


def list_groups(
    core: AdminCore, states: Iterable[GroupState], types: Iterable[GroupType], deadline: Deadline
) -> Operation[dict[str, GroupListing]]:
    """Ask all brokers, because each knows only the groups that it coordinates."""
    request = ListGroupsRequest(
        states_filter=[state.value for state in several(states, GroupState, f"{deadline.name}(states=)")],
        types_filter=[kind.value for kind in several(types, GroupType, f"{deadline.name}(types=)")],
    )
    first = _TYPES_FROM if request.types_filter else _STATES_FROM if request.states_filter else None

    def ask(node: int) -> Operation[Outcomes[int, list[GroupListing]]]:
        answer: ListGroupsResponse = yield from core.request(
            node, ListGroupsRequest, lambda version: request, deadline, first
        )
        raise_for_code(answer.error_code, api="ListGroups", broker=node)
        return {node: [_listed(group) for group in answer.groups]}

    def attempt(pending: list[int]) -> Operation[Outcomes[int, list[GroupListing]]]:
        return (yield from core.gather({node: ask(node) for node in pending}, {node: [node] for node in pending}))

    metadata = yield from core.ask_metadata([], deadline)
    try:
        found = yield from core.keyed((broker.node_id for broker in metadata.brokers), attempt, deadline)
    except AdminError as error:
        raise AdminError(_by_name(error.results.values()), error.errors) from None
    return _by_name(found.values())


def describe_groups(
    core: AdminCore, groups: str | Iterable[str], deadline: Deadline
) -> Operation[dict[str, GroupDescription]]:
    """Describe the groups as consumer-protocol groups first, and the others as classic ones."""

    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, GroupDescription]]:
        try:
            found = yield from _describe_consumer_groups(core, node, asked, deadline)
        except UnsupportedVersionError as error:
            found = dict.fromkeys(asked, error)
        others = [
            group for group in asked if isinstance(found.get(group), GroupIdNotFoundError | UnsupportedVersionError)
        ]
        if others:
            found |= yield from _describe_classic_groups(core, node, others, deadline)
        return found

    return (yield from at_coordinators(core, several(groups, str, deadline.name), ask, deadline))


def delete_groups(core: AdminCore, groups: str | Iterable[str], deadline: Deadline) -> Operation[dict[str, None]]:
    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, None]]:
        answer: DeleteGroupsResponse = yield from core.request(
            node.node_id, DeleteGroupsRequest, lambda version: DeleteGroupsRequest(groups_names=asked), deadline
        )
        return {
            result.group_id: error_from_code(result.error_code, api="DeleteGroups") if result.error_code else None
            for result in answer.results
        }

    return (yield from at_coordinators(core, several(groups, str, deadline.name), ask, deadline))


def remove_group_members(
    core: AdminCore,
    group: str,
    member_ids: Iterable[str],
    instance_ids: Iterable[str],
    everyone: bool,
    reason: str,
    deadline: Deadline,
) -> Operation[dict[MemberIdentity, None]]:
    text(group, deadline.name)
    text(reason, f"{deadline.name}(reason=)")
    members = [
        *(MemberIdentity(member_id) for member_id in several(member_ids, str, f"{deadline.name}(member_ids=)")),
        *(MemberIdentity("", name) for name in several(instance_ids, str, f"{deadline.name}(instance_ids=)")),
    ]
    if everyone == bool(members):
        raise ConfigError("remove_group_members takes either some member_ids and instance_ids, or everyone=True")
    if everyone:
        described = yield from describe_groups(core, [group], deadline)
        members = [member.identity for member in described[group].members]

    def ask(node: Node, asked: list[MemberIdentity]) -> Operation[Outcomes[MemberIdentity, None]]:
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.instance_id, reason=reason[:REASON_LENGTH]
                )
                for member in asked
            ],
        )
        answer: LeaveGroupResponse = yield from core.request(
            node.node_id, LeaveGroupRequest, lambda version: request, deadline, _SEVERAL_MEMBERS_FROM
        )
        raise_for_code(answer.error_code, api="LeaveGroup")
        return {
            # The result of a static member may also contain its member id, which was not requested.
            MemberIdentity("" if one.group_instance_id is not None else one.member_id, one.group_instance_id): (
                error_from_code(one.error_code, api="LeaveGroup") if one.error_code else None
            )
            for one in answer.members
        }

    return (yield from at_coordinator(core, group, members, ask, deadline))


def _by_name(found: Iterable[list[GroupListing]]) -> dict[str, GroupListing]:
    listed = {group.group_id: group for groups in found for group in groups}
    return dict(sorted(listed.items()))


def _listed(group: ListGroupsResponse.ListedGroup) -> GroupListing:
    return GroupListing(
        group.group_id, named(GroupType, group.group_type), named(GroupState, group.group_state), group.protocol_type
    )


def _describe_consumer_groups(
    core: AdminCore, node: Node, groups: list[str], deadline: Deadline
) -> Operation[Outcomes[str, GroupDescription]]:
    answer: ConsumerGroupDescribeResponse = yield from core.request(
        node.node_id,
        ConsumerGroupDescribeRequest,
        lambda version: ConsumerGroupDescribeRequest(group_ids=groups),
        deadline,
    )
    return {group.group_id: _consumer_group(group, node) for group in answer.groups}


def _consumer_group(
    group: ConsumerGroupDescribeResponse.DescribedGroup, coordinator: Node
) -> GroupDescription | KafkaError:
    if group.error_code:
        return error_from_code(group.error_code, group.error_message, api="ConsumerGroupDescribe")
    return GroupDescription(
        group.group_id,
        GroupType.CONSUMER,
        named(GroupState, group.group_state),
        CONSUMER_PROTOCOL,
        group.assignor_name,
        coordinator,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rack_id,
                tuple(sorted(member.subscribed_topic_names)),
                tuple(_partitions(member.assignment)),
                tuple(_partitions(member.target_assignment)),
                member.subscribed_topic_regex or None,
                member.member_epoch,
            )
            for member in group.members
        ),
        group.group_epoch,
        group.assignment_epoch,
    )


def _partitions(assignment: ConsumerGroupDescribeResponse.Assignment) -> Iterator[TopicPartition]:
    for topic in sorted(assignment.topic_partitions, key=lambda topic: topic.topic_name):
        yield from (TopicPartition(topic.topic_name, number) for number in sorted(topic.partitions))


def _describe_classic_groups(
    core: AdminCore, node: Node, groups: list[str], deadline: Deadline
) -> Operation[Outcomes[str, GroupDescription]]:
    answer: DescribeGroupsResponse = yield from core.request(
        node.node_id, DescribeGroupsRequest, lambda version: DescribeGroupsRequest(groups=groups), deadline
    )
    return {group.group_id: _classic_group(group, node) for group in answer.groups}


def _classic_group(group: DescribeGroupsResponse.DescribedGroup, coordinator: Node) -> GroupDescription | KafkaError:
    if group.error_code:
        return error_from_code(group.error_code, group.error_message, api="DescribeGroups")
    state = named(GroupState, group.group_state)
    if state is GroupState.DEAD:
        # Before version 6 a group that does not exist is described as dead (KIP-1043).
        return GroupIdNotFoundError(f"there is no group {group.group_id!r}")
    try:
        members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    except ProtocolError as error:
        return error
    return GroupDescription(
        group.group_id, GroupType.CLASSIC, state, group.protocol_type, group.protocol_data, coordinator, members
    )


def _classic_member(member: DescribeGroupsResponse.DescribedGroupMember, protocol_type: str) -> GroupMember:
    """Return a member with its decoded subscription and assignment, if it is a consumer."""
    subscription, assignment = ConsumerProtocolSubscription(), ConsumerProtocolAssignment()
    if protocol_type == CONSUMER_PROTOCOL:
        try:
            if member.member_metadata:
                subscription = decode_any_version(ConsumerProtocolSubscription, member.member_metadata)
            if member.member_assignment:
                assignment = decode_any_version(ConsumerProtocolAssignment, member.member_assignment)
        except ProtocolError as error:
            raise ProtocolError(
                f"the subscription or assignment of member {member.member_id} is malformed: {error}"
            ) from error
    assigned = (
        TopicPartition(topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions
    )
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        subscription.rack_id or None,
        tuple(sorted(subscription.topics)),
        tuple(sorted(assigned)),
    )
