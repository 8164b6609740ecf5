"""A consumer group, built from its records. It changes only when records are replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from refbroker.coordinators.groups.assignors.spec import Assignment
from refbroker.coordinators.groups.consumer.member import ConsumerMember, PartitionEpochs
from refbroker.coordinators.groups.consumer.states import ConsumerGroupState

FIRST_COMMIT_WITH_MEMBER_EPOCH = 9


class ResolvedPattern(NamedTuple):
    """The topics that a regular expression matches.

    Attributes:
        version: the version of the metadata that the expression was resolved with.
        timestamp_ms: the time of the resolution.
    """

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


class ConsumerGroup:
    """A consumer group.

    Attributes:
        epoch: the group epoch; each change that requires a new target assignment increments it.
        metadata_hash: the hash of the subscribed topics at the group epoch.
        assignment_epoch: the group epoch that the target assignment was computed for.
        assignment_timestamp_ms: the time when the target assignment was computed.
        members: member id -> member.
        static_members: instance id -> member id.
        targets: member id -> target assignment.
        patterns: regular expression -> matching topics, for the expressions that are resolved.
        has_partition_metadata: whether the log has a record of topics, which brokers before 4.1 wrote.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # No response may contain epoch 0, which a member sends to join: not even the response to a member whose regular
        # expression is not resolved yet. The first epoch with a target assignment is 2.
        self.epoch = self.assignment_epoch = 1
        self.metadata_hash = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.has_partition_metadata = False
        self._owners: dict[UUID, dict[int, str]] = {}
        # Topics are compared with `metadata_hash` once after each change of them. This is the group epoch that followed
        # from the last comparison; the group does not reach it if the record could not be written.
        self._checked_epoch: int | None = None

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch {self.epoch}, {len(self.members)})"

    # What follows

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, derived from its epochs and members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member is subscribed to, by name or by a resolved regular expression."""
        resolved = self.patterns.get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self, members: Iterable[ConsumerMember] | None = None) -> frozenset[str]:
        """Return the topics that the present or the given members are subscribed to."""
        return frozenset().union(*map(self.topics_of, self.members.values() if members is None else members))

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def pattern_counts(self, members: Iterable[ConsumerMember] | None = None) -> Counter[str]:
        """Return the number of members that use each regular expression."""
        every = self.members.values() if members is None else members
        return Counter(member.pattern for member in every if member.pattern)

    def members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """Return the members after one has changed or joined; it replaces the member with the same instance id."""
        members = dict(self.members)
        if updated.instance_id is not None:
            former = self.static_members.get(updated.instance_id)
            if former is not None:
                members.pop(former, None)
        members[updated.member_id] = updated
        return members

    def target_of(self, member: ConsumerMember) -> Assignment:
        """Return the target assignment of a member; a returning static member has that of its former member id."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return self.targets.get(member_id or "", {})

    def preferred_assignor(self, members: Iterable[ConsumerMember] | None = None) -> str | None:
        """Return the assignor that most members prefer, or None; on a tie `uniform` wins over `range`, as in Kafka."""
        every = self.members.values() if members is None else members
        votes = Counter(member.assignor for member in every if member.assignor is not None)
        return max(votes, key=lambda name: (votes[name], name)) if votes else None

    def is_free(self, topic: UUID, partition: int) -> bool:
        """Return whether no member owns a partition or still has to revoke it."""
        return partition not in self._owners.get(topic, ())

    # Checks

    def member(self, member_id: str) -> ConsumerMember:
        """Return the member with an id.

        Raises:
            UnknownMemberIdError: the group has no such member.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with an instance id, or None."""
        return None if instance_id is None else self.members.get(self.static_members.get(instance_id, ""))

    def check_commit(self, member_id: str, epoch: int, version: int) -> ConsumerMember | None:
        """Check that the sender of a request may commit offsets.

        Returns:
            The member if the request has an older epoch, so that each partition must be checked as well; else None.

        Raises:
            UnknownMemberIdError: the sender is not a member, and the group is not empty.
            StaleMemberEpochError, IllegalGenerationError: the epoch is later than the member's.
            UnsupportedVersionError: the version of OffsetCommit cannot carry member epochs.
        """
        if epoch < 0 and not self.members:
            return None
        member = self.member(member_id)
        if member.classic is None and version < FIRST_COMMIT_WITH_MEMBER_EPOCH:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if epoch == member.epoch:
            return None
        if epoch < member.epoch:
            return member
        if member.classic is not None:
            raise IllegalGenerationError(
                f"Received generation id {epoch} is newer than current member epoch {member.epoch}."
            )
        raise StaleMemberEpochError(f"Received member epoch {epoch} is newer than current member epoch {member.epoch}.")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check that the sender of a request may read committed offsets; a request without a member id always may.

        Raises:
            UnknownMemberIdError: the sender is not a member.
            StaleMemberEpochError, IllegalGenerationError: the member has another epoch.
        """
        if member_id is None and epoch < 0:
            return
        self.member(member_id or "").check_epoch(epoch)

    # Topics

    @property
    def has_stale_metadata(self) -> bool:
        """Whether the topics may have changed since they were last compared with `metadata_hash`."""
        return self._checked_epoch is None or self.epoch < self._checked_epoch

    def topics_changed(self) -> None:
        """Compare the topics with `metadata_hash` again at the next heartbeat of a member."""
        self._checked_epoch = None

    def topics_checked(self, epoch: int) -> None:
        """Store the group epoch that followed from comparing the topics."""
        self._checked_epoch = epoch

    # Replaying

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._release(former)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for topic, partition in partitions_of(member.assigned, member.revoking):
            self._owners.setdefault(topic, {})[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member if it exists."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for topic, partition in partitions_of(member.assigned, member.revoking):
            owners = self._owners.get(topic, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self._owners[topic]


def partitions_of(*held: PartitionEpochs | Mapping[UUID, Iterable[int]]) -> Iterator[tuple[UUID, int]]:
    """Yield each topic id and partition."""
    for topics in held:
        for topic, partitions in topics.items():
            for partition in partitions:
                yield topic, partition
