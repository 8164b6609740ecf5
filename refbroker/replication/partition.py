"""The local replica of a partition: its role, and what a leader decides.

As leader it knows the followers, the ISR and the high watermark. Each call returns what the caller has to do: assign a
leader epoch, move the high watermark of the log, propose an ISR to the controller. The leader recomputes the high
watermark when it becomes leader, after an append, when a follower fetches, and when the ISR changes.

    high watermark      min(log end, log end of each replica in the maximal ISR, and of each eligible follower caught up
                        within the lag time); it stays where it is below `min.insync.replicas`, and never decreases
    a follower joins    when it has reached the high watermark and the start of the leader epoch, and is eligible
    a follower leaves   when it has not been caught up for `replica.lag.time.max.ms`
    acks=all            NOT_ENOUGH_REPLICAS before the append; else answered when the high watermark has passed

Where it differs from Kafka, which violates an invariant of the simulation in both cases: metadata of the partition
epoch that the leader has already (from an AlterPartition response) leaves a newer proposal pending, where Kafka forgets
it; and a leader that was elected again, and missed the leader in between, forgets what it knew of its followers.

Elsewhere: the log (`refbroker.log`), fetching (`fetcher`), the requests to the controller (`alter_partition`).

Source: Kafka's Partition.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kclient.errors import (
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    UnknownLeaderEpochError,
)
from kclient.state_machine import StateTable
from refbroker.metadata.image import PartitionState
from refbroker.replication import rules
from refbroker.replication.followers import NO_BROKER_EPOCH, FollowerState
from refbroker.replication.isr import InSyncReplicas, IsrAnswer, IsrEvent, IsrProposal, event_of_answer

ACKS_ALL = -1


class Role(enum.Enum):
    """The role of a local replica."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"
    DELETING = "deleting"


class RoleEvent(enum.Enum):
    """What changes a role."""

    LEAD = "lead"
    FOLLOW = "follow"
    DISK_FAILED = "disk failed"
    REMOVE = "remove"
    REMOVED = "removed"


_ONLINE = {
    RoleEvent.LEAD: Role.LEADER,
    RoleEvent.FOLLOW: Role.FOLLOWER,
    RoleEvent.DISK_FAILED: Role.OFFLINE,
    RoleEvent.REMOVE: Role.DELETING,
}

STATES = StateTable[Role | None, RoleEvent](
    "replica",
    {
        None: {
            RoleEvent.LEAD: Role.LEADER,
            RoleEvent.FOLLOW: Role.FOLLOWER,
            RoleEvent.DISK_FAILED: Role.OFFLINE,
        },
        Role.LEADER: _ONLINE,
        Role.FOLLOWER: _ONLINE,
        Role.OFFLINE: {RoleEvent.DISK_FAILED: Role.OFFLINE, RoleEvent.REMOVE: Role.DELETING},
        Role.DELETING: {RoleEvent.DISK_FAILED: Role.DELETING, RoleEvent.REMOVED: None},
    },
)


class ReplicaLog(Protocol):
    """The figures of a log, such as a `PartitionLog`, that the machines read."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The end of what is known to be committed."""


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """The settings of a partition's replication.

    Attributes:
        lag_time_ms: `replica.lag.time.max.ms`.
        min_isr: `min.insync.replicas` of the topic.
    """

    lag_time_ms: int = 30_000
    min_isr: int = 1


class Leadership(NamedTuple):
    """What to do on becoming leader, or when the state of a led partition has changed.

    Attributes:
        is_new_epoch: whether a new leader epoch began.
        epoch: the epoch to assign at `start_offset` in the log, before any record; None for none.
        start_offset: the log end offset at the begin of the leader epoch.
        high_watermark: for the log, after the assignment.
    """

    is_new_epoch: bool
    epoch: int | None
    start_offset: int
    high_watermark: int


class Following(NamedTuple):
    """What to do on becoming follower.

    Attributes:
        is_new_epoch: whether to begin to fetch from the leader, in its new epoch.
        leader: the leader's broker id, -1 without one.
        leader_epoch: its epoch.
    """

    is_new_epoch: bool
    leader: int
    leader_epoch: int


class Progress(NamedTuple):
    """What follows from a fetch, an append, or an answer of the controller.

    Attributes:
        high_watermark: for the log.
        proposal: a change of the ISR for the controller, None for none.
    """

    high_watermark: int
    proposal: IsrProposal | None = None


class Acks(enum.Enum):
    """Whether a write with acks=all can be answered."""

    WAITING = "waiting"
    REPLICATED = "replicated"
    NOT_ENOUGH_REPLICAS = "not enough replicas after append"
    NOT_LEADER = "not leader"


class Partition:
    """The local replica of one partition.

    Parameters:
        topic, partition: its name.
        node_id: this broker's id.
        log: the local log.
        brokers: the registered brokers by id, as in the metadata image.
        config: the settings, which may be replaced at any time.

    Attributes:
        role: None before the first metadata.
        leader: the leader's broker id, -1 without one.
        leader_epoch, partition_epoch: -1 before the first metadata.
        replicas, adding, removing: the assignment.
        isr: the in-sync replicas, as a leader knows them.
        followers: the other replicas, as a leader knows them.
        epoch_start: the log end offset at the begin of the leader epoch; None unless this replica leads.
        broker_epoch: the epoch of this broker's registration.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        node_id: int,
        log: ReplicaLog,
        brokers: Mapping[int, rules.RegisteredBroker],
        config: ReplicaConfig,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.node_id = node_id
        self.log = log
        self.config = config
        self.role: Role | None = None
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.adding: frozenset[int] = frozenset()
        self.removing: frozenset[int] = frozenset()
        self.isr = InSyncReplicas(f"{topic}-{partition}")
        self.followers: dict[int, FollowerState] = {}
        self.epoch_start: int | None = None
        self.broker_epoch = NO_BROKER_EPOCH
        self._leading_since = -1
        self._brokers = brokers

    def __repr__(self) -> str:
        role = "no role" if self.role is None else self.role.value
        return f"Partition({self.topic}-{self.partition}, {role}, epoch {self.leader_epoch})"

    # The role

    @property
    def is_leader(self) -> bool:
        """Whether this replica is the leader."""
        return self.role is Role.LEADER

    def lead(self, state: PartitionState, now_ms: int) -> Leadership | None:
        """Take over a state of the metadata in which this broker leads.

        Parameters:
            state: of the partition.
            now_ms: the time, milliseconds.

        Returns:
            None if the state is older than the one known, from an AlterPartition response.
        """
        if state.partition_epoch < self.partition_epoch:
            return None
        is_new_leader = not self.is_leader
        has_led_on = self.is_leader and rules.has_led_on(self.leader_epoch, state.leader_epoch)
        is_new_epoch = state.leader_epoch > self.leader_epoch
        is_known = not is_new_leader and rules.is_known(
            (state.leader_epoch, state.partition_epoch), (self.leader_epoch, self.partition_epoch)
        )
        self._enter(RoleEvent.LEAD)
        self._assign(state)
        self.followers = {
            node: self.followers.get(node) or FollowerState() for node in state.replicas if node != self.node_id
        }
        if not (is_known and self.isr.is_pending):
            self.isr.commit(state.isr)
        if is_new_leader:
            self._leading_since = self.leader_epoch
        if is_new_epoch:
            self.epoch_start = self.log.log_end_offset
            for node, follower in self.followers.items():
                follower.begin_leader_epoch(
                    self.epoch_start, now_ms, in_sync=node in self.isr.committed, is_new_leader=not has_led_on
                )
        start = self.log.log_end_offset if self.epoch_start is None else self.epoch_start
        epoch = rules.epoch_to_assign(state.leader_epoch) if is_new_epoch else None
        return Leadership(is_new_epoch, epoch, start, self.high_watermark(now_ms))

    def follow(self, state: PartitionState) -> Following | None:
        """Take over a state of the metadata in which another broker leads, or none.

        Returns:
            None if the state is older than the one known.
        """
        if state.partition_epoch < self.partition_epoch:
            return None
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._enter(RoleEvent.FOLLOW)
        self._assign(state)
        self.epoch_start = None
        self.followers = {}
        self.isr.commit(())
        return Following(is_new_epoch, state.leader, state.leader_epoch)

    def fail(self) -> None:
        """Go offline, because the disk failed."""
        self._enter(RoleEvent.DISK_FAILED)
        self._resign()

    def remove(self) -> None:
        """Begin the removal of the replica, which belongs to this broker no longer."""
        self._enter(RoleEvent.REMOVE)
        self._resign()

    def removed(self) -> None:
        """End the removal: the log is gone."""
        self._enter(RoleEvent.REMOVED)
        self.leader_epoch = self.partition_epoch = -1

    def _enter(self, event: RoleEvent) -> None:
        self.role = STATES.next_state(self.role, event, f"{self.topic}-{self.partition}")

    def _resign(self) -> None:
        self.leader = -1
        self.epoch_start = None
        self.followers = {}
        self.isr.commit(())

    def _assign(self, state: PartitionState) -> None:
        self.leader = state.leader
        self.leader_epoch = max(state.leader_epoch, self.leader_epoch)
        self.partition_epoch = state.partition_epoch
        self.replicas = tuple(state.replicas)
        self.adding = frozenset(state.adding_replicas)
        self.removing = frozenset(state.removing_replicas)

    # Requests

    def check_leader(self, current_leader_epoch: int = rules.NO_EPOCH) -> None:
        """Check that this replica leads, in the leader epoch of a request.

        Parameters:
            current_leader_epoch: of the request, -1 for none.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: the request has another leader epoch.
            NotLeaderOrFollowerError: this replica does not lead.
        """
        rules.check_leader_epoch(current_leader_epoch, self.leader_epoch, self.topic, self.partition)
        if not self.is_leader:
            raise NotLeaderOrFollowerError(topic=self.topic, partition=self.partition)

    def check_follower(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> None:
        """Check that a fetch is of one of the followers, and of its current registration.

        Parameters:
            replica_id: the broker id of the follower.
            broker_epoch: its broker epoch, -1 if it sends none.
            current_leader_epoch: of the fetch, -1 for none.

        Raises:
            UnknownLeaderEpochError: the replica may be one of a later assignment.
            NotLeaderOrFollowerError: it is not a replica, or has registered again since.
        """
        if replica_id not in self.followers:
            kind = NotLeaderOrFollowerError if current_leader_epoch == rules.NO_EPOCH else UnknownLeaderEpochError
            raise kind(f"broker {replica_id} is not a replica", topic=self.topic, partition=self.partition)
        broker = self._brokers.get(replica_id)
        alive = broker is not None and not broker.fenced
        if broker is not None and alive and NO_BROKER_EPOCH != broker_epoch < broker.broker_epoch:
            raise NotLeaderOrFollowerError(
                f"the fetch of broker {replica_id} has broker epoch {broker_epoch}, which ended; it is now "
                f"{broker.broker_epoch}",
                topic=self.topic,
                partition=self.partition,
            )

    def check_latest_offset(self) -> None:
        """Check that a client may receive the latest offset, which must not go back.

        Raises:
            OffsetNotAvailableError: the high watermark has not reached the start of the leader epoch.
        """
        if self.epoch_start is not None and self.log.high_watermark < self.epoch_start:
            raise OffsetNotAvailableError(
                f"the high watermark {self.log.high_watermark} has not reached the start offset {self.epoch_start} of "
                f"the leader epoch",
                topic=self.topic,
                partition=self.partition,
            )

    def check_in_sync(self, acks: int) -> None:
        """Check before an append that enough replicas are in sync for it.

        Parameters:
            acks: of the producer, -1 for all.

        Raises:
            NotEnoughReplicasError: with acks=all, fewer than `min.insync.replicas` and than there are replicas.
        """
        if acks == ACKS_ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(
                f"The size of the current ISR {sorted(self.isr.committed)} is insufficient to satisfy the min.isr "
                f"requirement of {self.min_isr}",
                topic=self.topic,
                partition=self.partition,
            )

    def acks_for(self, end_offset: int, leader_epoch: int) -> Acks:
        """Return whether a write with acks=all can be answered.

        Parameters:
            end_offset: the offset after its last record.
            leader_epoch: in which it was appended; it may have ended, if this replica was elected again.
        """
        if not self.is_leader or leader_epoch < self._leading_since:
            return Acks.NOT_LEADER
        if self.log.high_watermark < end_offset:
            return Acks.WAITING
        if len(self.isr.maximal) < self.min_isr:
            return Acks.NOT_ENOUGH_REPLICAS
        return Acks.REPLICATED

    # The leader

    @property
    def min_isr(self) -> int:
        """The effective `min.insync.replicas`."""
        return rules.effective_min_isr(self.config.min_isr, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than required."""
        return self.is_leader and len(self.isr.committed) < self.min_isr

    @property
    def is_reassigning(self) -> bool:
        """Whether the partition is being moved."""
        return bool(self.adding or self.removing)

    def high_watermark(self, now_ms: int) -> int:
        """Return the high watermark for the log; as follower, the present one.

        Parameters:
            now_ms: the time, milliseconds.
        """
        log_end, current = self.log.log_end_offset, self.log.high_watermark
        if not self.is_leader:
            return current
        waited_for = rules.isr_for_high_watermark(self.isr)
        ends = [
            follower.log_end_offset
            for node, follower in self.followers.items()
            if follower.log_end_offset < log_end and (node in waited_for or self._may_join_soon(node, follower, now_ms))
        ]
        return rules.high_watermark(current, log_end, ends, len(self.isr.committed), self.min_isr)

    def _may_join_soon(self, node: int, follower: FollowerState, now_ms: int) -> bool:
        """Return whether the high watermark waits for a follower outside the ISR, which could otherwise never join."""
        caught_up = follower.is_caught_up(self.log.log_end_offset, now_ms, self.config.lag_time_ms)
        return caught_up and rules.is_eligible(self._brokers.get(node), follower.broker_epoch)

    def record_fetch(
        self, replica_id: int, offset: int, start_offset: int, leader_end: int, broker_epoch: int, now_ms: int
    ) -> Progress:
        """Record the fetch of a follower that was checked and read, without a divergence.

        Parameters:
            replica_id: the broker id of the follower.
            offset: the offset of the fetch, which is the follower's log end.
            start_offset: the follower's log start offset.
            leader_end: the log end offset of this log before the read.
            broker_epoch: of the follower, -1 if it sends none.
            now_ms: the time, milliseconds.
        """
        follower = self.followers[replica_id]
        follower.record_fetch(offset, start_offset, leader_end, broker_epoch, now_ms)
        proposal = self._propose_expand(replica_id, follower)
        return Progress(self.high_watermark(now_ms), proposal)

    def _propose_expand(self, replica_id: int, follower: FollowerState) -> IsrProposal | None:
        if self.isr.is_pending or replica_id in self.isr.committed or self.epoch_start is None:
            return None
        if not rules.is_eligible(self._brokers.get(replica_id), follower.broker_epoch):
            return None
        if not rules.may_join_isr(follower.log_end_offset, self.log.high_watermark, self.epoch_start):
            return None
        return self._propose(self.isr.committed | {replica_id})

    def out_of_sync(self, now_ms: int) -> frozenset[int]:
        """Return the members of the ISR that are not caught up; none while a proposal is on its way.

        Parameters:
            now_ms: the time, milliseconds.
        """
        if not self.is_leader or self.isr.is_pending:
            return frozenset()
        end = self.log.log_end_offset
        return frozenset(
            node
            for node in self.isr.committed - {self.node_id}
            if (follower := self.followers.get(node)) is None
            or not follower.is_caught_up(end, now_ms, self.config.lag_time_ms)
        )

    def propose_shrink(self, now_ms: int) -> IsrProposal | None:
        """Return a proposal to remove the members of the ISR that are not caught up, None if all are.

        Call it every half `replica.lag.time.max.ms`.

        Parameters:
            now_ms: the time, milliseconds.
        """
        lagging = self.out_of_sync(now_ms)
        return self._propose(self.isr.committed - lagging) if lagging else None

    def _propose(self, members: frozenset[int]) -> IsrProposal:
        isr = rules.with_broker_epochs(members, (self.node_id, self.broker_epoch), self.followers)
        proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
        self.isr.propose(proposal)
        return proposal

    def answered(self, proposal: IsrProposal, answer: IsrAnswer, now_ms: int) -> Progress:
        """Take note of the controller's answer to a proposal.

        Parameters:
            proposal: one that this partition has returned; an outdated one is ignored.
            answer: for this partition.
            now_ms: the time, milliseconds.

        Returns:
            The high watermark, and the same proposal if it must be sent again.
        """
        if self.isr.proposal is not proposal:
            return Progress(self.log.high_watermark)
        event = event_of_answer(answer.error_code)
        if event is not IsrEvent.ACCEPTED:
            self.isr.answered(event)
            return Progress(self.high_watermark(now_ms), proposal if event is IsrEvent.FAILED else None)
        # The metadata is ahead of the response otherwise.
        if answer.leader_epoch == self.leader_epoch and answer.partition_epoch >= self.partition_epoch:
            self.isr.commit(answer.isr, IsrEvent.ACCEPTED)
            self.partition_epoch = answer.partition_epoch
        return Progress(self.high_watermark(now_ms))

    def low_watermark(self) -> int:
        """Return the smallest log start offset of the live replicas, which DeleteRecords waits for."""
        starts = [
            follower.log_start_offset
            for node, follower in self.followers.items()
            if (broker := self._brokers.get(node)) is not None and not broker.fenced
        ]
        return min([self.log.log_start_offset, *starts])
