"""The methods of the admin clients for groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import group_lag, group_offsets, groups, offset_resets
from kclient.admin.group_lag import PartitionLag
from kclient.admin.groups import REMOVED, GroupDescription, GroupListing, GroupState, GroupType, MemberIdentity
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.offset_resets import OffsetChange, OffsetReset
from kclient.types import OffsetAndMetadata, TopicPartition


class GroupMethods(BlockingMethods):
    """The blocking methods."""

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        """Return the groups of all brokers by name.

        Parameters:
            states: only groups in these states; all if empty.
            types: only groups of these types; all if empty.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by broker: CoordinatorLoadInProgressError while a broker loads its groups, and others.
        """
        deadline = self._core.deadline("list_groups", timeout)
        return self._run(groups.list_groups(self._core, states, types, deadline))

    def describe_groups(
        self, names: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return the state and the members of groups, with the assignment of each member.

        Errors by group: GroupIdNotFoundError, GroupAuthorizationError.
        """
        deadline = self._core.deadline("describe_groups", timeout)
        return self._run(groups.describe_groups(self._core, names, deadline))

    def delete_groups(self, names: str | Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        """Delete groups with their committed offsets.

        Errors by group: GroupNotEmptyError, GroupIdNotFoundError.
        """
        deadline = self._core.deadline("delete_groups", timeout)
        return self._run(groups.delete_groups(self._core, names, deadline))

    def remove_group_members(
        self,
        group: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        everyone: bool = False,
        reason: str = REMOVED,
        timeout: float | None = None,
    ) -> dict[MemberIdentity, None]:
        """Remove members from a group; the remaining members share their partitions.

        A removed member that is still running joins again.

        Parameters:
            group: the group.
            member_ids: members by member id.
            instance_ids: static members by group instance id.
            everyone: whether to remove all members.
            reason: a text for the coordinator's log.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by member: UnknownMemberIdError, FencedInstanceIdError.
        """
        deadline = self._core.deadline("remove_group_members", timeout)
        return self._run(
            groups.remove_group_members(self._core, group, member_ids, instance_ids, everyone, reason, deadline)
        )

    def list_group_offsets(
        self,
        wanted: str | Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return committed offsets by group and partition; None for a requested partition without one.

        Parameters:
            wanted: one group, several, or a mapping of groups to partitions; None stands for all partitions of a group.
                A group that does not exist has no committed offsets.
            require_stable: whether to wait until open transactions that commit offsets have ended.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by group: GroupAuthorizationError and others.
        """
        deadline = self._core.deadline("list_group_offsets", timeout)
        return self._run(group_offsets.list_group_offsets(self._core, wanted, require_stable, deadline))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Commit offsets for a group without members; the group is created if it does not exist.

        Errors by partition: UnknownMemberIdError if the group has members, UnknownTopicOrPartitionError and others.
        """
        deadline = self._core.deadline("alter_group_offsets", timeout)
        return self._run(group_offsets.alter_group_offsets(self._core, group, offsets, deadline))

    def reset_group_offsets(
        self,
        group: str,
        to: OffsetReset,
        *,
        partitions: Iterable[TopicPartition | str] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        """Set the committed offsets of a group without members: `OffsetReset.earliest()`, `.to_time(...)` and others.

        An offset outside of the partition becomes the nearest one that exists.

        Parameters:
            group: the group.
            to: the new offsets.
            partitions: partitions, and topics for all of their partitions; None for all partitions that the group has
                committed offsets of.
            dry_run: whether to return the changes without making them.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: UnknownTopicOrPartitionError, IllegalStateError for a shift without a committed offset.

        Raises:
            GroupNotEmptyError: the group has members; nothing was changed.
            GroupIdNotFoundError: the group does not exist, and no partitions are named; with partitions it is created.
            IllegalStateError: the group has no committed offsets, and no partitions are named.
        """
        deadline = self._core.deadline("reset_group_offsets", timeout)
        return self._run(offset_resets.reset_group_offsets(self._core, group, to, partitions, dry_run, deadline))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        """Delete committed offsets of a group, for topics that none of its members subscribes to.

        Errors by partition: GroupSubscribedToTopicError, GroupIdNotFoundError, UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("delete_group_offsets", timeout)
        return self._run(group_offsets.delete_group_offsets(self._core, group, partitions, deadline))

    def group_lag(
        self, names: str | Iterable[str], *, isolation_level: str = "read_uncommitted", timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        """Return the lag of groups by group and partition, for assigned partitions and those with committed offsets.

        Parameters:
            names: the groups.
            isolation_level: with "read_committed" the end offset is the last stable offset.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by group: GroupIdNotFoundError and others.
        """
        deadline = self._core.deadline("group_lag", timeout)
        return self._run(group_lag.group_lag(self._core, names, isolation_level, deadline))


@documented_by(GroupMethods)
class AsyncGroupMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        deadline = self._core.deadline("list_groups", timeout)
        return await self._run(groups.list_groups(self._core, states, types, deadline))

    async def describe_groups(
        self, names: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        deadline = self._core.deadline("describe_groups", timeout)
        return await self._run(groups.describe_groups(self._core, names, deadline))

    async def delete_groups(self, names: str | Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        deadline = self._core.deadline("delete_groups", timeout)
        return await self._run(groups.delete_groups(self._core, names, deadline))

    async def remove_group_members(
        self,
        group: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        everyone: bool = False,
        reason: str = REMOVED,
        timeout: float | None = None,
    ) -> dict[MemberIdentity, None]:
        deadline = self._core.deadline("remove_group_members", timeout)
        return await self._run(
            groups.remove_group_members(self._core, group, member_ids, instance_ids, everyone, reason, deadline),
        )

    async def list_group_offsets(
        self,
        wanted: str | Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        deadline = self._core.deadline("list_group_offsets", timeout)
        return await self._run(group_offsets.list_group_offsets(self._core, wanted, require_stable, deadline))

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        deadline = self._core.deadline("alter_group_offsets", timeout)
        return await self._run(group_offsets.alter_group_offsets(self._core, group, offsets, deadline))

    async def reset_group_offsets(
        self,
        group: str,
        to: OffsetReset,
        *,
        partitions: Iterable[TopicPartition | str] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        deadline = self._core.deadline("reset_group_offsets", timeout)
        return await self._run(offset_resets.reset_group_offsets(self._core, group, to, partitions, dry_run, deadline))

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        deadline = self._core.deadline("delete_group_offsets", timeout)
        return await self._run(group_offsets.delete_group_offsets(self._core, group, partitions, deadline))

    async def group_lag(
        self, names: str | Iterable[str], *, isolation_level: str = "read_uncommitted", timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        deadline = self._core.deadline("group_lag", timeout)
        return await self._run(group_lag.group_lag(self._core, names, isolation_level, deadline))
