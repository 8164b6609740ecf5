"""A consumer group, as its records say, and what follows from them. It changes by replaying records alone."""

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
        version: of the metadata that they were found in.
        timestamp_ms: when.
    """

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


class ConsumerGroup:
    """A consumer group.

    Attributes:
        epoch: counts what makes a new target assignment necessary.
        metadata_hash: of the topics the group is subscribed to, as they were then.
        assignment_epoch: for which the target assignment was made, and `assignment_timestamp_ms`: when.
        members: by id.
        static_members: instance id -> member id.
        targets: member id -> what it is to have.
        patterns: what the members' regular expressions match, as far as this is known.
        has_partition_metadata: whether the log has a record of topics, as brokers before 4.1 wrote it.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # Nobody may be told epoch 0, which is how members join: not even one whose regular expression is not resolved
        # yet, so that it counts for nothing. The first epoch that means something is 2.
        self.epoch = self.assignment_epoch = 1
        self.metadata_hash = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.has_partition_metadata = False
        self._owners: dict[UUID, dict[int, str]] = {}
        # Topics are compared with `metadata_hash` once after each change of them; this is the epoch that the last
        # comparison came to, which is not reached when its record could not be written.
        self._checked_epoch: int | None = None

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch {self.epoch}, {len(self.members)})"

    # What follows

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """How far its members are with the target assignment."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics a member is subscribed to, by name or by a regular expression that is resolved."""
        resolved = self.patterns.get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self, members: Iterable[ConsumerMember] | None = None) -> frozenset[str]:
        """The topics of all members, or of those who will be members."""
        return frozenset().union(*map(self.topics_of, self.members.values() if members is None else members))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def pattern_counts(self, members: Iterable[ConsumerMember] | None = None) -> Counter[str]:
        """How many members have each regular expression."""
        every = self.members.values() if members is None else members
        return Counter(member.pattern for member in every if member.pattern)

    def members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members once one of them has changed, or joined; it takes the place of one with its instance id."""
        members = dict(self.members)
        if updated.instance_id is not None:
            former = self.static_members.get(updated.instance_id)
            if former is not None:
                members.pop(former, None)
        members[updated.member_id] = updated
        return members

    def target_of(self, member: ConsumerMember) -> Assignment:
        """What a member is to have; a static one that comes back under a new id, what its former self was to."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return self.targets.get(member_id or "", {})

    def preferred_assignor(self, members: Iterable[ConsumerMember] | None = None) -> str | None:
        """The assignor that most members want, None when nobody says; of `uniform` and `range` the former, as Kafka."""
        every = self.members.values() if members is None else members
        votes = Counter(member.assignor for member in every if member.assignor is not None)
        return max(votes, key=lambda name: (votes[name], name)) if votes else None

    def is_free(self, topic: UUID, partition: int) -> bool:
        """Whether nobody has a partition, or has to give it up first."""
        return partition not in self._owners.get(topic, ())

    # Checks

    def member(self, member_id: str) -> ConsumerMember:
        """A member.

        Raises:
            UnknownMemberIdError: there is no such member.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with an instance id."""
        return None if instance_id is None else self.members.get(self.static_members.get(instance_id, ""))

    def check_commit(self, member_id: str, epoch: int, version: int) -> ConsumerMember | None:
        """See that somebody may commit offsets.

        Returns:
            The member, when each partition has to be checked as well, since the request is of an older epoch.

        Raises:
            UnknownMemberIdError: the sender is no member, and the group is not empty.
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
        """See that somebody may read committed offsets.

        Raises:
            UnknownMemberIdError, StaleMemberEpochError, IllegalGenerationError: a member that says who it is is none,
                or has another epoch.
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
        """Have the topics compared with what they were at the next heartbeat of a member."""
        self._checked_epoch = None

    def topics_checked(self, epoch: int) -> None:
        """Take note that the topics were compared, and that this leads to an epoch."""
        self._checked_epoch = epoch

    # Replaying

    def put_member(self, member: ConsumerMember) -> None:
        """Take over what a record says of a member."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._release(former)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for topic, partition in partitions_of(member.assigned, member.revoking):
            self._owners.setdefault(topic, {})[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Forget a member, if there is one."""
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
    """Each topic and partition."""
    for topics in held:
        for topic, partitions in topics.items():
            for partition in partitions:
                yield topic, partition
