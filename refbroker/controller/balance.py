"""Elections at intervals: preferred leaders, and leaders for partitions that have none.

With `auto.leader.rebalance.enable`, the preferred leaders of all partitions that others lead are elected every
`leader.imbalance.check.interval.seconds`, however few they are: Kafka 4 no longer has a percentage per broker. Every
`unclean.leader.election.interval.ms`, partitions without a leader get one from outside the in-sync set if the topic
allows that. A check returns a limited number of elections; the next one follows at once if there may be more.

Source: `maybeBalancePartitionLeaders` and `maybeElectUncleanLeaders` of Kafka's `ReplicationControlManager`.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import KafkaError
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.elections import plan_election, rules_of
from refbroker.controller.partition_changes import Election, Target, plan_change

MOST_ELECTIONS = 1_000
"""The maximum of elections in one check, so that other requests do not wait for long."""


class BalancePlan(NamedTuple):
    """The outcome of a check.

    Attributes:
        records: to be stored.
        has_more: whether the next check should follow at once.
    """

    records: list[PartitionChangeRecord]
    has_more: bool


def plan_preferred_leaders(cluster: Cluster, most: int = MOST_ELECTIONS) -> BalancePlan:
    """Return the elections of preferred leaders that are possible.

    Parameters:
        most: the maximum of elections.
    """
    records: list[PartitionChangeRecord] = []
    for topic_id, number in cluster.index.imbalanced():
        if len(records) >= most:
            break
        topic = cluster.image.topics_by_id[topic_id]
        state = topic.partitions[number]
        target = Target.of(state, Election.PREFERRED)
        change = plan_change(topic_id, state, target, rules_of(cluster, topic, state))
        records += [] if change is None else [change]
    return BalancePlan(records, len(records) >= most)


def plan_unclean_leaders(cluster: Cluster, most: int = MOST_ELECTIONS) -> BalancePlan:
    """Return the unclean elections that are possible and allowed.

    Parameters:
        most: the maximum of elections.
    """
    records: list[PartitionChangeRecord] = []
    for topic_id, number in cluster.index.leaderless():
        if len(records) >= most:
            break
        name = cluster.image.topics_by_id[topic_id].name
        if not cluster.rules.may_elect_unclean(name):
            continue
        try:
            records.append(plan_election(cluster, name, number, Election.UNCLEAN))
        except KafkaError:
            # No replica is alive.
            continue
    return BalancePlan(records, len(records) >= most)
