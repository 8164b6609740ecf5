"""The in-sync replicas of a partition, as its leader knows them.

The controller decides; the leader proposes changes with AlterPartition, one at a time. Until the answer, the leader
cannot know which of the two sets is in force, so it uses the larger one, the maximal ISR (KIP-497): a replica that is
being added counts immediately, one that is being removed counts until its removal is committed.

    answer                                          what follows
    the new ISR                                     committed
    OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA     certainly not applied: the committed ISR again
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,    pending until the metadata arrives, which has what was applied
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    INVALID_REQUEST, NEW_LEADER_ELECTED
    any other error                                 the same proposal again

Source: KIP-497, KIP-903; PartitionState and handleAlterPartitionError of Kafka's Partition.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from kclient.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    OperationNotAttemptedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.state_machine import StateTable

NO_ERROR = 0


class IsrState(enum.Enum):
    """Whether the ISR is known, or a proposal is on its way."""

    COMMITTED = "committed"
    PENDING_EXPAND = "pending expand"
    PENDING_SHRINK = "pending shrink"


class IsrEvent(enum.Enum):
    """What can happen to the ISR."""

    PROPOSE_EXPAND = "propose expand"
    PROPOSE_SHRINK = "propose shrink"
    ACCEPTED = "accepted"
    NOT_APPLIED = "not applied"
    UNCERTAIN = "uncertain"
    FAILED = "failed, sent again"
    METADATA = "metadata"


_PENDING = {
    IsrEvent.ACCEPTED: IsrState.COMMITTED,
    IsrEvent.NOT_APPLIED: IsrState.COMMITTED,
    IsrEvent.METADATA: IsrState.COMMITTED,
}

STATES = StateTable[IsrState, IsrEvent](
    "ISR of partition",
    {
        IsrState.COMMITTED: {
            IsrEvent.PROPOSE_EXPAND: IsrState.PENDING_EXPAND,
            IsrEvent.PROPOSE_SHRINK: IsrState.PENDING_SHRINK,
            IsrEvent.METADATA: IsrState.COMMITTED,
        },
        IsrState.PENDING_EXPAND: {
            **_PENDING,
            IsrEvent.UNCERTAIN: IsrState.PENDING_EXPAND,
            IsrEvent.FAILED: IsrState.PENDING_EXPAND,
        },
        IsrState.PENDING_SHRINK: {
            **_PENDING,
            IsrEvent.UNCERTAIN: IsrState.PENDING_SHRINK,
            IsrEvent.FAILED: IsrState.PENDING_SHRINK,
        },
    },
)

_ANSWERS = {
    NO_ERROR: IsrEvent.ACCEPTED,
    OperationNotAttemptedError.code: IsrEvent.NOT_APPLIED,
    IneligibleReplicaError.code: IsrEvent.NOT_APPLIED,
    FencedLeaderEpochError.code: IsrEvent.UNCERTAIN,
    InvalidUpdateVersionError.code: IsrEvent.UNCERTAIN,
    UnknownTopicOrPartitionError.code: IsrEvent.UNCERTAIN,
    UnknownTopicIdError.code: IsrEvent.UNCERTAIN,
    InvalidRequestError.code: IsrEvent.UNCERTAIN,
    NewLeaderElectedError.code: IsrEvent.UNCERTAIN,
}


def event_of_answer(error_code: int) -> IsrEvent:
    """Return what the error code of a partition in an AlterPartition response means."""
    return _ANSWERS.get(error_code, IsrEvent.FAILED)


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """A change of the ISR for AlterPartition; each one is equal to itself only.

    Attributes:
        isr: the broker id and broker epoch of each member; an epoch of -1 is not checked by the controller.
        leader_epoch, partition_epoch: the state that it changes.
        leader_recovery_state: always 0, since a leader has nothing to recover from (KIP-704).
    """

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0

    @property
    def members(self) -> frozenset[int]:
        """The broker ids."""
        return frozenset(broker_id for broker_id, _ in self.isr)


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The answer of the controller for one partition.

    Attributes:
        error_code: 0 if the proposal was applied.
        isr, leader_epoch, partition_epoch: the state of the partition then.
    """

    error_code: int
    isr: tuple[int, ...] = ()
    leader_epoch: int = -1
    partition_epoch: int = -1


class InSyncReplicas:
    """The ISR of one partition.

    Parameters:
        partition: its name in errors.

    Attributes:
        state: whether a proposal is on its way.
        committed: the members according to the controller.
        proposal: the proposal on its way, None without one.
    """

    def __init__(self, partition: str) -> None:
        self.state = IsrState.COMMITTED
        self.committed: frozenset[int] = frozenset()
        self.proposal: IsrProposal | None = None
        self._partition = partition

    def __repr__(self) -> str:
        pending = "" if self.proposal is None else f", proposed {sorted(self.proposal.members)}"
        return f"InSyncReplicas({sorted(self.committed)}{pending})"

    @property
    def is_pending(self) -> bool:
        """Whether a proposal is on its way."""
        return self.proposal is not None

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that may be in sync according to the controller: the committed ones and those being added."""
        if self.state is IsrState.PENDING_EXPAND and self.proposal is not None:
            return self.committed | self.proposal.members
        return self.committed

    def propose(self, proposal: IsrProposal) -> None:
        """Enter the pending state of a proposal.

        Raises:
            IllegalStateError: another proposal is on its way.
        """
        expands = not proposal.members <= self.committed
        self._enter(IsrEvent.PROPOSE_EXPAND if expands else IsrEvent.PROPOSE_SHRINK)
        self.proposal = proposal

    def commit(self, members: Iterable[int], event: IsrEvent = IsrEvent.METADATA) -> None:
        """Take over the ISR of the controller, from the metadata or from its answer; a proposal is given up."""
        self._enter(event)
        self.committed = frozenset(members)
        self.proposal = None

    def answered(self, event: IsrEvent) -> None:
        """Take note of an answer that does not have a new ISR."""
        self._enter(event)
        if self.state is IsrState.COMMITTED:
            self.proposal = None

    def _enter(self, event: IsrEvent) -> None:
        self.state = STATES.next_state(self.state, event, self._partition)
