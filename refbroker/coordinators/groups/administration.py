"""Lists, describes and deletes the groups of a partition.

Sans I/O, as the rest of the groups: what is deleted is in the records that are given back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kclient.errors import GroupIdNotFoundError, GroupNotEmptyError
from kclient.protocol.messages.describe_groups import DescribeGroupsResponse
from kclient.protocol.messages.list_groups import ListGroupsResponse
from refbroker.coordinators.groups.group import ClassicGroup, tombstone
from refbroker.coordinators.groups.offsets import CommittedOffsets, offset_tombstone
from refbroker.coordinators.groups.states import GroupState
from refbroker.coordinators.runtime import CoordinatorResult

CLASSIC = "classic"
FIRST_WITH_GROUP_ID_NOT_FOUND = 6

DescribedGroup = DescribeGroupsResponse.DescribedGroup


def list_groups(
    groups: Iterable[ClassicGroup], states: Collection[str], types: Collection[str]
) -> list[ListGroupsResponse.ListedGroup]:
    """The groups in some of these states and of some of these types, both whatever their case; none named means any."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_types = {kind.lower() for kind in types}
    if wanted_types and CLASSIC not in wanted_types:
        return []
    return [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in groups
        if not wanted_states or group.state.value.lower() in wanted_states
    ]


def describe_group(groups: Mapping[str, ClassicGroup], group_id: str, version: int) -> DescribedGroup:
    """What there is to know of a classic group; members' metadata only once they have agreed on a protocol."""
    group = groups.get(group_id)
    if group is None:
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= FIRST_WITH_GROUP_ID_NOT_FOUND:
            missing.error_code = GroupIdNotFoundError.code
            missing.error_message = f"Group {group_id} not found."
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


def delete_group(
    groups: Mapping[str, ClassicGroup], offsets: CommittedOffsets, group_id: str
) -> CoordinatorResult[None]:
    """Delete a group without members, and its offsets.

    Raises:
        GroupIdNotFoundError: there is no such group.
        GroupNotEmptyError: it has members.
    """
    group = groups.get(group_id)
    if group is None or group.state is GroupState.DEAD:
        raise GroupIdNotFoundError(f"Group {group_id} not found.")
    if not group.is_empty:
        raise GroupNotEmptyError
    records = [*map(offset_tombstone, offsets.keys(group_id)), tombstone(group_id)]
    # The group goes last: what a crash leaves of it is a group with fewer offsets, whose deletion nobody was told of.
    return CoordinatorResult(records, None, atomic=False)
