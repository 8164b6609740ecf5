"""Throttles of replication for reassignments (KIP-73, KIP-455): which topics and brokers have them, set and removed.

A throttle is a rate on each broker, and a list of replicas on each topic to which the rate applies. The lists and the
rates are those that Kafka's kafka-reassign-partitions.sh sets, so that either tool removes those of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kclient.admin import Admin, AlterConfig, ConfigResource, PartitionReassignment
from kclient.types import TopicPartition

_LEADER_RATE = "leader.replication.throttled.rate"
_FOLLOWER_RATE = "follower.replication.throttled.rate"
_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADER_REPLICAS = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """The brokers between which a partition moves."""

    sources: frozenset[int]
    destinations: frozenset[int]


def planned_moves(
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    planned: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Return the moves of a plan and of reassignments in progress, to which the same throttle applies.

    Parameters:
        ongoing: the reassignments in progress.
        planned: the new replicas.
        current: the replicas of the planned partitions.
    """
    moves = {}
    for key, reassignment in ongoing.items():
        adding = frozenset(reassignment.adding_replicas)
        moves[key] = Move(frozenset(reassignment.replicas) - adding, adding)
    for key, replicas in planned.items():
        sources = moves[key].sources if key in moves else frozenset(current[key])
        moves[key] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Return by topic the lists of throttled replicas of leaders and of followers, such as "0:1,0:2"."""
    lists: dict[str, tuple[set[str], set[str]]] = {}
    for key, move in moves.items():
        leaders, followers = lists.setdefault(key.topic, (set(), set()))
        leaders.update(f"{key.partition}:{broker}" for broker in move.sources)
        followers.update(f"{key.partition}:{broker}" for broker in move.destinations)
    return {
        topic: (",".join(sorted(leaders)), ",".join(sorted(followers))) for topic, (leaders, followers) in lists.items()
    }


def limit_replication(client: Admin, moves: Mapping[TopicPartition, Move], rate: int, alive: Collection[int]) -> None:
    """Limit the replication of the moves to a rate in bytes per second on each broker that is alive.

    Only a broker itself accepts its settings, and one that is not alive is often the reason for a move.
    """
    brokers = {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}
    client.incremental_alter_configs(
        {
            ConfigResource.topic(topic): [
                AlterConfig.set(_LEADER_REPLICAS, leaders),
                AlterConfig.set(_FOLLOWER_REPLICAS, followers),
            ]
            for topic, (leaders, followers) in throttled_replicas(moves).items()
        }
    )
    rates = [AlterConfig.set(_LEADER_RATE, rate), AlterConfig.set(_FOLLOWER_RATE, rate)]
    client.incremental_alter_configs(
        {ConfigResource.broker(broker): rates for broker in sorted(brokers.intersection(alive))}
    )


def limit_log_dirs(client: Admin, brokers: Iterable[int], rate: int) -> None:
    """Limit moves between the directories of brokers to a rate in bytes per second on each broker."""
    change = AlterConfig.set(_LOG_DIRS_RATE, rate)
    client.incremental_alter_configs({ConfigResource.broker(broker): [change] for broker in sorted(brokers)})


def remove_throttles(client: Admin, topics: Collection[str], brokers: Collection[int]) -> None:
    """Remove all throttles of brokers, and those of topics: the sources of a finished move are no longer known."""
    rates = [AlterConfig.delete(name) for name in (_LEADER_RATE, _FOLLOWER_RATE, _LOG_DIRS_RATE)]
    lists = [AlterConfig.delete(name) for name in (_LEADER_REPLICAS, _FOLLOWER_REPLICAS)]
    changes = {ConfigResource.broker(broker): rates for broker in sorted(brokers)}
    client.incremental_alter_configs(changes | {ConfigResource.topic(topic): lists for topic in sorted(topics)})
