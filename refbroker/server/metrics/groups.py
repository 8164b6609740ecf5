"""The metrics of groups: their number by protocol and state, their rebalances, and their offsets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.states import ConsumerGroupState
from refbroker.metrics import table
from refbroker.metrics.counters import GroupStats
from refbroker.metrics.samples import Samples

if TYPE_CHECKING:
    from refbroker.coordinators.groups.coordinator import GroupCoordinator

_BY_STATE = {
    GroupState.EMPTY: table.GROUPS_EMPTY,
    GroupState.PREPARING_REBALANCE: table.GROUPS_PREPARING,
    GroupState.COMPLETING_REBALANCE: table.GROUPS_COMPLETING,
    GroupState.STABLE: table.GROUPS_STABLE,
    GroupState.DEAD: table.GROUPS_DEAD,
}


def collect(coordinator: GroupCoordinator, stats: GroupStats, samples: Samples) -> None:
    """Add the metrics of groups, without those in partitions that are being loaded."""
    shards = coordinator.runtime.shards(complete=False)
    states = Counter(group.state for shard in shards for group in shard.groups.values())
    samples.add(table.GROUPS, states.total())
    for state, metric in _BY_STATE.items():
        samples.add(metric, states[state])
    consumer_states = Counter(group.state for shard in shards for group in shard.consumers.values())
    samples.add(table.GROUPS_BY_PROTOCOL, states.total(), "classic")
    samples.add(table.GROUPS_BY_PROTOCOL, consumer_states.total(), "consumer")
    for consumer_state in ConsumerGroupState:
        samples.add(table.CONSUMER_GROUPS, consumer_states[consumer_state], consumer_state.value)
    samples.add(table.REBALANCES, stats.rebalances)
    samples.add(table.CONSUMER_REBALANCES, stats.consumer_rebalances)
    samples.add(table.OFFSETS, sum(len(shard.offsets) for shard in shards))
    samples.add(table.OFFSETS_COMMITTED, stats.offsets_committed)
    samples.add(table.OFFSETS_DELETED, stats.offsets_deleted)
    samples.add(table.OFFSETS_EXPIRED, stats.offsets_expired)
