"""A member of a consumer group, as its records say. It does not change: what changes is a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kclient.errors import IllegalGenerationError, StaleMemberEpochError
from refbroker.coordinators.groups.classic.member import GroupProtocol
from refbroker.coordinators.groups.consumer.states import MemberState

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch in which its member got it. Not to be changed."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What is kept of a member that uses the classic protocol.

    Attributes:
        session_timeout_ms: how long it may be silent, in milliseconds.
        protocols: in the order in which it prefers them.
    """

    session_timeout_ms: int
    protocols: Sequence[GroupProtocol]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        epoch: of the target assignment that it has reached; -2 while a static member is away.
        previous_epoch: the one before, in case the answer that told it of the present one got lost.
        instance_id: of a static member.
        rebalance_timeout_ms: how long it may take to give up partitions, in milliseconds.
        topics: it is subscribed to by name.
        pattern: a regular expression of further topics, "" for none.
        assignor: which it wants the group to have, None for no matter which.
        state: how far it is.
        assigned: the partitions it has, or may take now.
        revoking: the partitions it has to give up first.
        classic: of a member that uses the classic protocol; None for the others.
    """

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    def with_(self, **changes: Any) -> ConsumerMember:
        """The member with some attributes changed."""
        return replace(self, **changes)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all that it is to have at an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def check_epoch(self, epoch: int) -> None:
        """See that a request was made at the member's epoch.

        Raises:
            StaleMemberEpochError, IllegalGenerationError: it was not; the latter for the classic protocol.
        """
        if epoch == self.epoch:
            return
        if self.classic is not None:
            raise IllegalGenerationError(
                f"The received generation id {epoch} does not match the expected member epoch {self.epoch}."
            )
        raise StaleMemberEpochError(
            f"The received member epoch {epoch} does not match the expected member epoch {self.epoch}."
        )

    def check_commit(self, epoch: int, topic: UUID, name: str, partition: int) -> None:
        """See that the member had a partition at an epoch, which is not later than its own (KIP-1251).

        Raises:
            StaleMemberEpochError, IllegalGenerationError: it had not; the latter for the classic protocol.
        """
        error = StaleMemberEpochError if self.classic is None else IllegalGenerationError
        since = self.assigned.get(topic, {}).get(partition, self.revoking.get(topic, {}).get(partition))
        if since is None:
            raise error(f"Partition {name}-{partition} is not assigned or pending revocation for member.")
        if epoch < since:
            what = "member epoch" if self.classic is None else "generation id"
            raise error(
                f"Received {what} {epoch} is older than assignment epoch {since} for partition {name}-{partition}."
            )
