"""Reassignments of partitions to other brokers (KIP-455): their start, and their cancellation.

A reassignment adds the new replicas first, and removes the old ones when the new ones are in sync; immediately if they
already are. Until then both are replicas. A cancellation removes the new replicas again.

Elsewhere: the completion, which follows from a change of the in-sync set (`partition_changes`). Source:
`PartitionReassignmentReplicas` and `PartitionReassignmentRevert` of Kafka's controller.
"""

from __future__ import annotations

from collections.abc import Sequence

from kclient.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.elections import default_election, rules_of
from refbroker.controller.partition_changes import Election, Target, plan_change
from refbroker.controller.placement import check_replicas
from refbroker.metadata.image import ClusterImage, PartitionState, TopicState


def plan_reassignment(
    cluster: Cluster, name: str, number: int, replicas: Sequence[int], *, may_change_count: bool
) -> PartitionChangeRecord | None:
    """Return the record that starts or completes a reassignment, None if nothing changes.

    Parameters:
        replicas: the brokers of the target, the preferred leader first.
        may_change_count: whether the number of replicas may change (KIP-860).

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
        InvalidReplicaAssignmentError: a broker does not exist or occurs twice, or the list is empty.
        InvalidReplicationFactorError: the number of replicas would change.
    """
    topic, state = _find(cluster.image, name, number)
    check_replicas(cluster.image, replicas)
    planned = {*state.replicas, *state.adding_replicas}.difference(state.removing_replicas)
    if not may_change_count and len(planned) != len(replicas):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {len(planned)} to {len(replicas)}")
    removing = sorted(set(state.replicas).difference(replicas))
    adding = sorted(set(replicas).difference(state.replicas))
    target = Target.of(state)
    target.replicas = [*replicas, *removing]
    target.removing = removing or state.removing_replicas
    target.adding = adding or state.adding_replicas
    return plan_change(topic.topic_id, state, target, rules_of(cluster, topic, state))


def plan_cancellation(cluster: Cluster, name: str, number: int) -> PartitionChangeRecord | None:
    """Return the record that cancels a reassignment, None if there is nothing to undo.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
        NoReassignmentInProgressError: it is not being reassigned.
        InvalidReplicaAssignmentError: only new replicas are in sync, and the topic does not allow unclean elections.
    """
    topic, state = _find(cluster.image, name, number)
    if not is_reassigning(state):
        raise NoReassignmentInProgressError
    replicas = [node for node in state.replicas if node not in state.adding_replicas]
    isr = [node for node in state.isr if node not in state.adding_replicas]
    if not isr and not replicas:
        raise InvalidReplicaAssignmentError("Invalid replica assignment: addingReplicas contains all replicas.")
    election = default_election(cluster, topic)
    if not isr and election is not Election.UNCLEAN:
        raise InvalidReplicaAssignmentError(
            f"Unable to revert partition assignment for {name}:{number} because it would require an unclean leader "
            "election."
        )
    target = Target.of(state, election)
    target.replicas, target.isr, target.removing, target.adding = replicas, isr or replicas[:1], [], []
    return plan_change(topic.topic_id, state, target, rules_of(cluster, topic, state))


def is_reassigning(state: PartitionState) -> bool:
    """Return whether a partition is being reassigned."""
    return bool(state.removing_replicas or state.adding_replicas)


def _find(image: ClusterImage, name: str, number: int) -> tuple[TopicState, PartitionState]:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    state = topic.partitions.get(number)
    if state is None:
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{number}.")
    return topic, state
