"""Elections and moves of partitions: the record of the change, or the error.

The rules are those of Kafka's controller (`PartitionChangeBuilder`). A leader is elected among the in-sync replicas
that are alive, or else among the eligible leader replicas. An unclean election chooses among all that are alive, and
the leader is then the only one in sync. A move adds the new replicas first, and removes the old ones when the new ones
are in sync, immediately if they already are. On one node, new replicas never get in sync, because nothing replicates
them: such a move stays in progress, and can be listed and cancelled.

Not implemented: maintaining the eligible leader replicas (KIP-966), which requires several nodes.
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
from refbroker.controller.topics import check_replicas
from refbroker.metadata.directories import NO_LEADER, default_directory, directory_on, offline_replicas
from refbroker.metadata.image import NO_LEADER_CHANGE, ClusterImage, PartitionState, TopicState

RECOVERING = 1


class Election(enum.IntEnum):
    """The kind of an election, with the numbers of ElectLeaders, which lacks ONLINE."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@dataclass(slots=True)
class Assignment:
    """The target replicas of a partition.

    Attributes:
        replicas: old and new ones while a move is in progress.
        isr: the replicas in sync.
        removing, adding: the replicas that the move removes and adds.
    """

    replicas: list[int]
    isr: list[int]
    removing: list[int]
    adding: list[int]

    def complete(self) -> None:
        """Complete the move if all replicas that it waits for are in sync."""
        isr = [node for node in self.isr if node not in self.removing]
        replicas = [node for node in self.replicas if node not in self.removing]
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            return
        self.replicas, self.isr, self.removing, self.adding = replicas, isr, [], []


def plan_election(image: ClusterImage, name: str, number: int, election: Election) -> PartitionChangeRecord:
    """Return the record that elects a leader of a partition.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
        ElectionNotNeededError: the partition already has the right leader.
        PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError: no replica can be the leader.
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
    """Return the record that starts or completes the move of a partition, None if it needs no move.

    Parameters:
        replicas: the brokers of the target.
        may_change_count: whether the number of replicas may change.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
        InvalidReplicaAssignmentError: a broker does not exist or occurs twice, or the list is empty.
        InvalidReplicationFactorError: the number of replicas would change.
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
    """Return the record that cancels a move, None if there is nothing to undo.

    Parameters:
        may_elect_unclean: whether a replica that is not in sync may become the leader.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
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
    """Return whether a partition is being moved."""
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
    """Return the record that brings a partition to a target and elects a leader if necessary; None for no change."""
    if target.removing or target.adding:
        target.complete()
    change = PartitionChangeRecord(partition_id=state.partition_id, topic_id=topic.topic_id)
    _elect(image, state, election, target, change)
    if change.leader == NO_LEADER_CHANGE and not set(state.replicas) <= set(target.replicas):
        # A leader with other replicas needs a new leader epoch.
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
        """Return the first node that can be the leader, None if none can."""
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
