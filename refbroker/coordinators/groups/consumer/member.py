"""An immutable member of a consumer group, built from its records. A change creates a new object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kclient.errors import IllegalGenerationError, StaleMemberEpochError
from refbroker.coordinators.groups.classic.member import GroupProtocol
from refbroker.coordinators.groups.consumer.states import MemberState

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch in which it was assigned. Must not be modified."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The additional state of a member that uses the classic protocol.

    Attributes:
        session_timeout_ms: the session timeout, in milliseconds.
        protocols: the member's protocols in order of preference.
    """

    session_timeout_ms: int
    protocols: Sequence[GroupProtocol]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        epoch: the epoch of the target assignment that the member has reached; -2 while a static member is away.
        previous_epoch: the epoch before that, accepted in case the response with the current epoch was lost.
        instance_id: the group instance id; None for a dynamic member.
        rebalance_timeout_ms: how long the member may take to revoke partitions, in milliseconds.
        topics: the names of the topics in the member's subscription.
        pattern: the regular expression of further topics; "" for none.
        assignor: the server-side assignor that the member prefers; None for no preference.
        state: the member's state.
        assigned: the partitions that the member owns or may start to consume.
        revoking: the partitions that the member must revoke first.
        classic: the state of a member that uses the classic protocol; None for other members.
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
        """Return a copy of the member with changed attributes."""
        return replace(self, **changes)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member owns its whole target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def check_epoch(self, epoch: int) -> None:
        """Check that a request has the member's epoch.

        Raises:
            StaleMemberEpochError: the request has another epoch.
            IllegalGenerationError: the same, for a member that uses the classic protocol.
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
        """Check that the member owned a partition at an epoch, which is not later than its own (KIP-1251).

        Raises:
            StaleMemberEpochError: the member did not own the partition.
            IllegalGenerationError: the same, for a member that uses the classic protocol.
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
