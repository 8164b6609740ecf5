"""Plans of reassignments in the JSON format of Kafka's kafka-reassign-partitions.sh, read and written.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}

Elsewhere: what a plan contains when it is generated (`replica_placement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import typer

from kclient.admin import TopicPartitionReplica
from kclient.types import TopicPartition

S = TypeVar("S", bound=msgspec.Struct)

_VERSION = 1
_ANY = "any"


class Plan(NamedTuple):
    """Where partitions shall be.

    Attributes:
        replicas: by partition the ids of its brokers, the preferred leader first.
        log_dirs: the directories of those replicas for which the plan names one.
    """

    replicas: dict[TopicPartition, tuple[int, ...]]
    log_dirs: dict[TopicPartitionReplica, str]

    @property
    def brokers(self) -> set[int]:
        """The ids of all brokers of the plan."""
        return {broker for replicas in self.replicas.values() for broker in replicas}


class _Partition(msgspec.Struct):
    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] | None = None


class _PlanFile(msgspec.Struct):
    partitions: list[_Partition]
    version: int = _VERSION


class _Topic(msgspec.Struct):
    topic: str


class _TopicsFile(msgspec.Struct):
    topics: list[_Topic]
    version: int = _VERSION


def read_plan(file: Path) -> Plan:
    """Return the plan of a file.

    Raises:
        typer.BadParameter: the file is not a plan, or the plan contradicts itself.
    """
    entries = _decoded(file, _PlanFile).partitions
    plan = Plan({}, {})
    for entry in entries:
        key = TopicPartition(entry.topic, entry.partition)
        log_dirs = [_ANY] * len(entry.replicas) if entry.log_dirs is None else entry.log_dirs
        if key in plan.replicas:
            raise _error(file, f"{key} occurs twice")
        if not entry.replicas:
            raise _error(file, f"{key} has no replicas")
        if repeated := [broker for broker, count in Counter(entry.replicas).items() if count > 1]:
            raise _error(file, f"{key} has more than one replica on broker {repeated[0]}")
        if len(log_dirs) != len(entry.replicas):
            raise _error(file, f"{key} has {len(entry.replicas)} replicas, but {len(log_dirs)} log_dirs")
        plan.replicas[key] = tuple(entry.replicas)
        for broker, path in zip(entry.replicas, log_dirs):
            if path != _ANY:
                plan.log_dirs[TopicPartitionReplica(*key, broker)] = path
    if not plan.replicas:
        raise _error(file, "it has no partitions")
    return plan


def read_topics(file: Path) -> list[str]:
    """Return the topics of a file such as `{"topics": [{"topic": "orders"}], "version": 1}`.

    Raises:
        typer.BadParameter: the file is not in this format.
    """
    return [each.topic for each in _decoded(file, _TopicsFile).topics]


def plan_document(
    replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[TopicPartitionReplica, str] | None = None
) -> dict[str, Any]:
    """Return a plan as a JSON value, sorted by partition.

    Parameters:
        log_dirs: the directories of replicas; for the others the broker chooses.
    """
    known = log_dirs or {}
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": key.topic,
                "partition": key.partition,
                "replicas": list(brokers),
                "log_dirs": [known.get(TopicPartitionReplica(*key, broker), _ANY) for broker in brokers],
            }
            for key, brokers in sorted(replicas.items())
        ],
    }


def _decoded(file: Path, kind: type[S]) -> S:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise _error(file, str(error)) from None
    version = getattr(found, "version", _VERSION)
    if version != _VERSION:
        raise _error(file, f"it has the version {version}, and only version {_VERSION} is known")
    return found


def _error(file: Path, reason: str) -> typer.BadParameter:
    return typer.BadParameter(f"{file} is not usable: {reason}")
