"""Elections of leaders: those that clients request, and those that follow from changes of brokers.

ElectLeaders requests the preferred leader, or a leader for a partition without one even if none is in sync. When a
broker is fenced, shuts down, comes back or loses a directory, `plan_updates` takes it out of the in-sync sets and gives
leaders to its partitions. The index of the cluster finds these partitions. Source: `electLeaders` and
`generateLeaderAndIsrUpdates` of Kafka's `ReplicationControlManager`.

Elsewhere: how a leader is chosen (`partition_changes`), and elections at intervals (`balance`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kclient.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.partition_changes import ChangeRules, Election, Target, plan_change
from refbroker.controller.partition_index import PartitionId
from refbroker.metadata.directories import NO_LEADER
from refbroker.metadata.image import PartitionState, TopicState


def rules_of(cluster: Cluster, topic: TopicState, state: PartitionState) -> ChangeRules:
    """Return the rules for a change of a partition."""
    return ChangeRules(
        cluster.image.metadata_version,
        cluster.min_isr(topic),
        cluster.has_eligible_leaders,
        partial(cluster.may_lead, state),
        cluster.default_directory,
    )


def default_election(cluster: Cluster, topic: TopicState) -> Election:
    """Return the election that the settings of a topic allow."""
    return Election.UNCLEAN if cluster.rules.may_elect_unclean(topic.name) else Election.ONLINE


def plan_election(cluster: Cluster, name: str, number: int, election: Election) -> PartitionChangeRecord:
    """Return the record that elects a leader of a partition.

    Parameters:
        election: preferred, or unclean.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
        ElectionNotNeededError: the partition already has the right leader.
        PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError: no replica can be the leader.
    """
    topic = cluster.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"No such topic as {name}")
    state = topic.partitions.get(number)
    if state is None:
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{number}")
    preferred = election is Election.PREFERRED
    if state.leader == state.replicas[0] if preferred else state.leader != NO_LEADER:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    change = plan_change(topic.topic_id, state, Target.of(state, election), rules_of(cluster, topic, state))
    if change is None:
        if preferred:
            raise PreferredLeaderNotAvailableError("The preferred leader was not available.")
        raise EligibleLeadersNotAvailableError("Eligible topic partition leaders are not available.")
    return change


def plan_updates(
    cluster: Cluster,
    partitions: Iterable[PartitionId],
    *,
    removed: int | None = None,
    added: int | None = None,
    crashed: int | None = None,
) -> list[PartitionChangeRecord]:
    """Return the records that adapt partitions to a change of a broker.

    Parameters:
        partitions: those that the change may concern.
        removed: a broker that leaves the in-sync sets, and no longer leads.
        added: a broker that can lead now, although the image does not say so yet.
        crashed: a broker that has lost what it had: it leaves the eligible leaders, too.
    """
    gone = (removed, crashed)

    def may_lead(state: PartitionState, node: int) -> bool:
        is_active = node not in gone and (node == added or cluster.is_active(node))
        return is_active and cluster.has_online_replica(state, node)

    changes = []
    for topic_id, number in partitions:
        topic = cluster.image.topics_by_id[topic_id]
        state = topic.partitions[number]
        target = Target.of(state, default_election(cluster, topic))
        target.isr = [node for node in state.isr if node not in gone]
        target.unclean_brokers = () if crashed is None else (crashed,)
        rules = rules_of(cluster, topic, state)._replace(may_lead=partial(may_lead, state))
        change = plan_change(topic_id, state, target, rules)
        if change is not None:
            changes.append(change)
    return changes
