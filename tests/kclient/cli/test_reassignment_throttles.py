"""Throttles of reassignments: which replicas they apply to, as Kafka's tool sets them."""

from __future__ import annotations

from typing import Any, cast

from kclient.admin import Admin, AlterConfig, ConfigResource, PartitionReassignment
from kclient.cli.reassignment_throttles import (
    Move,
    limit_log_dirs,
    limit_replication,
    planned_moves,
    remove_throttles,
    throttled_replicas,
)
from kclient.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Recorder:
    """An admin client that keeps the changes of settings."""

    def __init__(self) -> None:
        self.changes: dict[str, dict[str, Any]] = {}

    def incremental_alter_configs(self, changes: dict[ConfigResource, list[AlterConfig]]) -> None:
        for resource, each in changes.items():
            self.changes.setdefault(str(resource), {}).update({change.name: change.value for change in each})


def moves(*sources: int, to: tuple[int, ...] = ()) -> Move:
    return Move(frozenset(sources), frozenset(to))


def test_a_plan_moves_from_the_present_replicas_to_those_that_are_new() -> None:
    found = planned_moves({}, {T0: (2, 3), T1: (1, 2)}, {T0: (1, 2), T1: (1, 2)})
    assert found == {T0: moves(1, 2, to=(3,)), T1: moves(1, 2)}


def test_a_move_in_progress_keeps_its_sources_and_takes_the_new_target() -> None:
    ongoing = {
        T0: PartitionReassignment((3, 1, 2), (3,), (1,)),
        U0: PartitionReassignment((5, 4), (5,), (4,)),
    }
    found = planned_moves(ongoing, {T0: (4, 2)}, {T0: (3, 1, 2)})
    assert found == {T0: moves(1, 2, to=(4,)), U0: moves(4, to=(5,))}


def test_throttled_replicas_are_listed_by_topic_as_kafka_lists_them() -> None:
    found = throttled_replicas({T0: moves(1, 2, to=(3,)), T1: moves(2, to=(10,)), U0: moves(4)})
    assert found == {"t": ("0:1,0:2,1:2", "0:3,1:10"), "u": ("0:4", "")}


def test_replication_is_limited_on_the_topics_and_on_brokers_that_are_alive() -> None:
    client = Recorder()
    limit_replication(cast("Admin", client), {T0: moves(1, 2, to=(3,))}, 1_000_000, {1, 3, 4})
    rates = {
        "leader.replication.throttled.rate": 1_000_000,
        "follower.replication.throttled.rate": 1_000_000,
    }
    assert client.changes == {
        "topic t": {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        },
        "broker 1": rates,
        "broker 3": rates,
    }


def test_moves_between_directories_are_limited_on_their_brokers() -> None:
    client = Recorder()
    limit_log_dirs(cast("Admin", client), {2, 1}, 500)
    assert client.changes == {
        f"broker {broker}": {"replica.alter.log.dirs.io.max.bytes.per.second": 500} for broker in (1, 2)
    }


def test_all_throttles_are_removed() -> None:
    client = Recorder()
    limit_replication(cast("Admin", client), {T0: moves(1, to=(3,))}, 1, {1, 3})
    limit_log_dirs(cast("Admin", client), {1}, 1)
    remove_throttles(cast("Admin", client), {"t"}, {1, 3})
    assert {name: value for each in client.changes.values() for name, value in each.items()} == {
        "leader.replication.throttled.rate": None,
        "follower.replication.throttled.rate": None,
        "replica.alter.log.dirs.io.max.bytes.per.second": None,
        "leader.replication.throttled.replicas": None,
        "follower.replication.throttled.replicas": None,
    }
