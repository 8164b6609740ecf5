"""What becomes of a wish to elect a partition's leader, or to move the partition: the record that brings it about.

The rules are those of Kafka's controller (`PartitionChangeBuilder`). A leader is elected among the in-sync replicas
that are alive; while there are none, among the eligible leader replicas; unclean, among all that are alive, and then
it is the only one in sync. A move adds the new replicas first and takes the old ones away when the new ones are in
sync, at once where they are already. With one node nothing new ever gets in sync, since there is nobody to replicate:
a move that needs it stays under way, and can be listed and cancelled.

Not implemented: keeping the eligible leader replicas (KIP-966), which only several nodes have.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kclient.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.metadata.directories import NO_LEADER, default_directory, directory_on, offline_replicas
from refbroker.metadata.image import NO_LEADER_CHANGE, ClusterImage, PartitionState, TopicState
from refbroker.metadata.topics import check_replicas

RECOVERING = 1


class Election(enum.IntEnum):
    """How a leader is elected; the numbers are those of ElectLeaders, which has no ONLINE."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@dataclass(slots=True)
class Assignment:
    """Where a partition shall live.

    Attributes:
        replicas: old and new ones, as long as a move is under way.
        isr: those in sync.
        removing, adding: what the move takes away and brings.
    """

    replicas: list[int]
    isr: list[int]
    removing: list[int]
    adding: list[int]

    def complete(self) -> None:
        """End the move if all that it waits for is in sync."""
        isr = [node for node in self.isr if node not in self.removing]
        replicas = [node for node in self.replicas if node not in self.removing]
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            return
        self.replicas, self.isr, self.removing, self.adding = replicas, isr, [], []


def plan_election(image: ClusterImage, name: str, number: int, election: Election) -> PartitionChangeRecord:
    """The record that gives a partition another leader.

    Raises:
        UnknownTopicOrPartitionError: there is no such partition.
        ElectionNotNeededError: the leader is right as it is.
        PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError: nobody can lead it.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"No such topic as {name}")
    state = topic.partitions.get(number)
    if state is None:
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{number}")
    preferred = election is Election.PREFERRED
    if state.leader == state.replicas[0] if preferred else state.leader != NO_LEADER:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    change = _plan_change(image, topic, state, election, _present(state))
    if change is None:
        if preferred:
            raise PreferredLeaderNotAvailableError("The preferred leader was not available.")
        raise EligibleLeadersNotAvailableError("Eligible topic partition leaders are not available.")
    return change


def plan_move(
    image: ClusterImage, name: str, number: int, replicas: Sequence[int], *, may_change_count: bool
) -> PartitionChangeRecord | None:
    """The record that begins to move a partition, or moves it at once; None when it is there already.

    Parameters:
        replicas: the brokers it shall be on.
        may_change_count: whether they may be more or fewer than now.

    Raises:
        UnknownTopicOrPartitionError: there is no such partition.
        InvalidReplicaAssignmentError: a broker is not there, or there twice, or there is none.
        InvalidReplicationFactorError: they are more or fewer.
    """
    topic, state = _find(image, name, number)
    check_replicas(image, replicas)
    planned = {*state.replicas, *state.adding_replicas}.difference(state.removing_replicas)
    if not may_change_count and len(planned) != len(replicas):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {len(planned)} to {len(replicas)}")
    removing = sorted(set(state.replicas).difference(replicas))
    adding = sorted(set(replicas).difference(state.replicas))
    target = Assignment(
        [*replicas, *removing], state.isr, removing or state.removing_replicas, adding or state.adding_replicas
    )
    return _plan_change(image, topic, state, Election.ONLINE, target)


def plan_cancellation(
    image: ClusterImage, name: str, number: int, *, may_elect_unclean: bool
) -> PartitionChangeRecord | None:
    """The record that undoes what a move has done so far.

    Parameters:
        may_elect_unclean: whether a replica that was not in sync may lead.

    Raises:
        UnknownTopicOrPartitionError: there is no such partition.
        NoReassignmentInProgressError: it is not being moved.
        InvalidReplicaAssignmentError: only new replicas are in sync.
    """
    topic, state = _find(image, name, number)
    if not is_moving(state):
        raise NoReassignmentInProgressError
    replicas = [node for node in state.replicas if node not in state.adding_replicas]
    if not replicas:
        raise InvalidReplicaAssignmentError("Invalid replica assignment: addingReplicas contains all replicas.")
    isr = [node for node in state.isr if node not in state.adding_replicas]
    if not isr and not may_elect_unclean:
        raise InvalidReplicaAssignmentError(
            f"Unable to revert partition assignment for {name}:{number} because it would require an unclean leader "
            "election."
        )
    election = Election.UNCLEAN if may_elect_unclean else Election.ONLINE
    return _plan_change(image, topic, state, election, Assignment(replicas, isr or replicas[:1], [], []))


def is_moving(state: PartitionState) -> bool:
    """Whether a move of a partition is under way."""
    return bool(state.removing_replicas or state.adding_replicas)


def _find(image: ClusterImage, name: str, number: int) -> tuple[TopicState, PartitionState]:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    state = topic.partitions.get(number)
    if state is None:
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{number}.")
    return topic, state


def _present(state: PartitionState) -> Assignment:
    return Assignment(state.replicas, state.isr, state.removing_replicas, state.adding_replicas)


def _plan_change(
    image: ClusterImage, topic: TopicState, state: PartitionState, election: Election, target: Assignment
) -> PartitionChangeRecord | None:
    """The record that brings a partition to a target, with the leader that is due; None for no change."""
    if target.removing or target.adding:
        target.complete()
    change = PartitionChangeRecord(partition_id=state.partition_id, topic_id=topic.topic_id)
    _elect(image, state, election, target, change)
    if change.leader == NO_LEADER_CHANGE and not set(state.replicas) <= set(target.replicas):
        # Nobody may go on with the term of a leader that had other replicas.
        change.leader = state.leader
    if target.isr != state.isr:
        change.isr = target.isr
    if target.replicas != state.replicas:
        change.replicas = target.replicas
        change.directories = [
            directory_on(state, node) if node in state.replicas else default_directory(image, node)
            for node in target.replicas
        ]
    if target.removing != state.removing_replicas:
        change.removing_replicas = target.removing
    if target.adding != state.adding_replicas:
        change.adding_replicas = target.adding
    unchanged = PartitionChangeRecord(partition_id=state.partition_id, topic_id=topic.topic_id)
    return None if change == unchanged else change


def _elect(
    image: ClusterImage, state: PartitionState, election: Election, target: Assignment, change: PartitionChangeRecord
) -> None:
    offline = offline_replicas(image, state)

    def first_alive(nodes: Iterable[int]) -> int | None:
        """The first that may lead."""
        brokers = image.brokers
        return next(
            (
                node
                for node in nodes
                if node in brokers and not brokers[node].in_controlled_shutdown and node not in offline
            ),
            None,
        )

    eligible = target.isr or state.eligible_leader_replicas
    candidates = [state.leader, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    leader = first_alive(node for node in candidates if node in eligible)
    unclean = leader is None and election is Election.UNCLEAN
    if unclean:
        leader = first_alive(target.replicas)
    if leader is None:
        leader = NO_LEADER
    if leader == state.leader:
        return
    change.leader = leader
    if leader == NO_LEADER:
        return
    if leader not in target.isr:
        target.isr = [leader]
    if leader in state.eligible_leader_replicas:
        change.eligible_leader_replicas = [node for node in state.eligible_leader_replicas if node != leader]
    if unclean and state.leader_recovery_state != RECOVERING:
        change.leader_recovery_state = RECOVERING
