"""The record that brings a partition to a target: its leader, in-sync set, eligible leaders and replicas.

The rules are those of `PartitionChangeBuilder` in Kafka's controller. A reassignment whose new replicas are in sync is
completed. While fewer replicas than `min.insync.replicas` are in sync, those that leave the in-sync set become eligible
leaders (KIP-966), unless their broker has lost what it had. A leader is elected among the in-sync replicas that can
lead, or among the eligible ones if none is in sync. Without either, the last known leader is elected, and in an unclean
election any replica that can lead: the log may then lack records, so the leader is the only one in sync and has to
recover.

One difference: a replica that a reassignment has removed is no longer eligible. Kafka keeps it, and if no other replica
is left, the partition has no leader permanently.

A new leader epoch begins with a new leader, and without one if a replica is removed, because the leader would otherwise
keep it in the in-sync set.

Elsewhere: what the target of each change is (`elections`, `isr`, `reassignments`, `brokers`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.metadata.directories import NO_LEADER, directory_on
from refbroker.metadata.image import NO_LEADER_CHANGE, PartitionState
from refbroker.metadata.versions import DIRECTORIES, SHRINKING_ISR_KEEPS_EPOCH

RECOVERED, RECOVERING = 0, 1


class Election(enum.IntEnum):
    """The kind of an election, with the numbers of ElectLeaders, which lacks ONLINE."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


class ChangeRules(NamedTuple):
    """What decides a change besides the partition.

    Attributes:
        metadata_version: the level of that feature.
        min_isr: how many replicas must be in sync.
        has_eligible_leaders: whether partitions keep eligible leader replicas.
        may_lead: whether a broker can be the leader of the partition.
        default_directory: returns the directory of a new replica on a broker.
    """

    metadata_version: int
    min_isr: int
    has_eligible_leaders: bool
    may_lead: Callable[[int], bool]
    default_directory: Callable[[int], UUID]


@dataclass(slots=True)
class Target:
    """What a partition shall become.

    Attributes:
        replicas: old and new ones while a reassignment is in progress.
        isr: the replicas in sync.
        removing, adding: the replicas that a reassignment removes and adds.
        recovery_state: whether the leader is recovering from an unclean election.
        election: how to choose a leader if the present one cannot stay.
        unclean_brokers: those that have lost what they had, and cannot be eligible leaders.
        directories: the new directories of replicas, by broker.
    """

    replicas: list[int]
    isr: list[int]
    removing: list[int]
    adding: list[int]
    recovery_state: int
    election: Election = Election.ONLINE
    unclean_brokers: Collection[int] = ()
    directories: dict[int, UUID] = field(default_factory=dict)

    @classmethod
    def of(cls, state: PartitionState, election: Election = Election.ONLINE) -> Target:
        """Return the target that keeps a partition as it is."""
        return cls(
            state.replicas,
            state.isr,
            state.removing_replicas,
            state.adding_replicas,
            state.leader_recovery_state,
            election,
        )

    def complete(self) -> None:
        """Complete the reassignment if all replicas that it waits for are in sync."""
        if not self.removing and not self.adding:
            return
        isr = [node for node in self.isr if node not in self.removing]
        replicas = [node for node in self.replicas if node not in self.removing]
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            # With fewer replicas than before, completing now could make the in-sync set smaller than it is.
            return
        self.replicas, self.isr, self.removing, self.adding = replicas, isr, [], []


class _Elected(NamedTuple):
    """The outcome of an election."""

    leader: int
    is_unclean: bool = False


def plan_change(
    topic_id: UUID, state: PartitionState, target: Target, rules: ChangeRules
) -> PartitionChangeRecord | None:
    """Return the record that brings a partition to a target and elects a leader if necessary; None for no change.

    Parameters:
        state: the partition now.
        target: consumed: what results from it is written into it.
    """
    change = PartitionChangeRecord(partition_id=state.partition_id, topic_id=topic_id)
    target.complete()
    eligible = _eligible_leaders(state, target, rules)
    elected = _elect(state, target, eligible, rules)
    if elected.leader != state.leader:
        change.leader = elected.leader
        if elected.leader in eligible:
            target.isr = [elected.leader]
            eligible = [node for node in eligible if node != elected.leader]
        if elected.is_unclean:
            change.isr = [elected.leader]
            eligible = []
            if state.leader_recovery_state != RECOVERING:
                change.leader_recovery_state = RECOVERING
    if change.leader == NO_LEADER_CHANGE and not set(state.replicas) <= set(target.replicas):
        change.leader = state.leader
    if not rules.has_eligible_leaders:
        eligible = []
    if eligible != state.eligible_leader_replicas:
        change.eligible_leader_replicas = eligible
    if change.isr is None and (target.isr or rules.has_eligible_leaders) and target.isr != state.isr:
        change.isr = target.isr
    _begin_epoch_of_smaller_isr(state, change, rules)
    if rules.has_eligible_leaders:
        _keep_last_leader(state, change)
    _set_assignment(state, target, change, rules)
    if target.recovery_state != state.leader_recovery_state:
        change.leader_recovery_state = target.recovery_state
    unchanged = PartitionChangeRecord(partition_id=state.partition_id, topic_id=topic_id)
    return None if change == unchanged else change


def _eligible_leaders(state: PartitionState, target: Target, rules: ChangeRules) -> list[int]:
    if not rules.has_eligible_leaders:
        # Those from a time when the feature was on can be elected again; any change then clears them.
        return state.eligible_leader_replicas
    if len(target.isr) >= rules.min_isr:
        return []
    candidates = {*state.eligible_leader_replicas, *state.isr}.intersection(target.replicas)
    return sorted(candidates.difference(target.isr, target.unclean_brokers))


def _elect(state: PartitionState, target: Target, eligible: list[int], rules: ChangeRules) -> _Elected:
    pool = target.isr or eligible
    candidates = [state.leader, *target.replicas]
    if target.election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    for node in candidates:
        if node in pool and rules.may_lead(node):
            return _Elected(node)
    if rules.has_eligible_leaders and not pool and len(state.last_known_elr) == 1:
        (last,) = state.last_known_elr
        if rules.may_lead(last):
            return _Elected(last, is_unclean=True)
    if target.election is Election.UNCLEAN:
        for node in target.replicas:
            if rules.may_lead(node):
                return _Elected(node, is_unclean=True)
    return _Elected(NO_LEADER)


def _begin_epoch_of_smaller_isr(state: PartitionState, change: PartitionChangeRecord, rules: ChangeRules) -> None:
    """Begin a leader epoch if the in-sync set shrinks, for brokers that rely on it (KAFKA-15021)."""
    if rules.metadata_version >= SHRINKING_ISR_KEEPS_EPOCH or change.leader != NO_LEADER_CHANGE or change.isr is None:
        return
    if not set(state.isr) <= set(change.isr):
        change.leader = state.leader


def _keep_last_leader(state: PartitionState, change: PartitionChangeRecord) -> None:
    """Note the leader of a partition that loses it, until the partition has a leader again."""
    if change.leader == NO_LEADER and not state.last_known_elr:
        change.last_known_elr = [state.leader]
    elif change.leader >= 0 and state.last_known_elr:
        change.last_known_elr = []


def _set_assignment(state: PartitionState, target: Target, change: PartitionChangeRecord, rules: ChangeRules) -> None:
    if target.replicas:
        if rules.metadata_version >= DIRECTORIES:
            present = {node: directory_on(state, node) for node in state.replicas}
            known = {**present, **target.directories}
            directories = [known[node] if node in known else rules.default_directory(node) for node in target.replicas]
            if directories != list(present.values()):
                change.directories = directories
        if target.replicas != state.replicas:
            change.replicas = target.replicas
    if target.removing != state.removing_replicas:
        change.removing_replicas = target.removing
    if target.adding != state.adding_replicas:
        change.adding_replicas = target.adding
