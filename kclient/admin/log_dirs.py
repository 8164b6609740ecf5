"""The log directories of brokers: what is in them, and moves of replicas between those of a broker (KIP-113, KIP-827,
KIP-1066).

Every broker is asked about its own directories. A broker that the cluster does not have is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from kclient.admin.arguments import mapping, number, several, text
from kclient.admin.core import AdminCore, Outcomes, settled
from kclient.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationError,
    KafkaError,
    KafkaStorageError,
    error_from_code,
)
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kclient.types import TopicPartition

K = TypeVar("K")
R = TypeVar("R")


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class ReplicaInfo(msgspec.Struct, frozen=True):
    """A replica in a log directory.

    Attributes:
        size: the bytes of its segments, without remote storage.
        offset_lag: how many offsets its log end is behind: a current replica behind the high watermark of the
            partition, a future one behind the log end of the current one.
        is_future: whether the replica is being moved into this directory and will replace the current one.
    """

    size: int
    offset_lag: int
    is_future: bool = False


class LogDirDescription(msgspec.Struct, frozen=True):
    """A log directory of a broker.

    Attributes:
        error: why the broker cannot tell what is in it, such as KafkaStorageError for a directory that is offline;
            None if it can.
        replica_infos: the replicas by partition.
        total_bytes: the size of the volume; None from brokers before Apache Kafka 3.3 (KIP-827).
        usable_bytes: the bytes of the volume that are left to the broker; None as above.
        is_cordoned: whether the broker puts no new replicas into it (KIP-1066).
    """

    error: KafkaError | None
    replica_infos: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


class ReplicaLogDirInfo(msgspec.Struct, frozen=True):
    """Where a replica is, and where it is being moved; each is None if there is no such replica.

    Attributes:
        current_log_dir: the directory of the current replica.
        current_offset_lag: how many offsets its log end is behind the high watermark of the partition.
        future_log_dir: the directory that it is being moved to.
        future_offset_lag: how many offsets the log end of the copy there is behind that of the current replica.
    """

    current_log_dir: str | None = None
    current_offset_lag: int | None = None
    future_log_dir: str | None = None
    future_offset_lag: int | None = None


def describe_log_dirs(
    core: AdminCore, brokers: int | Iterable[int] | None, deadline: Deadline
) -> Operation[dict[int, dict[str, LogDirDescription]]]:
    named = None if brokers is None else several(brokers, int, deadline.name)
    live = yield from core.live_brokers(deadline)
    wanted = sorted(live) if named is None else named

    def ask(broker: int, keys: list[int]) -> Operation[Outcomes[int, dict[str, LogDirDescription]]]:
        return {broker: (yield from _describe(core, broker, None, deadline))}

    return settled(wanted, (yield from _by_broker(core, {each: each for each in wanted}, live, ask)))


def describe_replica_log_dirs(
    core: AdminCore, replicas: TopicPartitionReplica | Iterable[TopicPartitionReplica], deadline: Deadline
) -> Operation[dict[TopicPartitionReplica, ReplicaLogDirInfo]]:
    wanted = several(replicas, TopicPartitionReplica, deadline.name)
    live = yield from core.live_brokers(deadline)

    def ask(
        broker: int, keys: list[TopicPartitionReplica]
    ) -> Operation[Outcomes[TopicPartitionReplica, ReplicaLogDirInfo]]:
        found = yield from _describe(core, broker, [TopicPartition(key.topic, key.partition) for key in keys], deadline)
        return {key: _placed(key, found) for key in keys}

    return settled(wanted, (yield from _by_broker(core, {each: each.broker_id for each in wanted}, live, ask)))


def alter_replica_log_dirs(
    core: AdminCore, assignment: Mapping[TopicPartitionReplica, str], deadline: Deadline
) -> Operation[dict[TopicPartitionReplica, None]]:
    wanted = mapping(assignment, _replica, text, deadline.name)
    live = yield from core.live_brokers(deadline)

    def ask(broker: int, keys: list[TopicPartitionReplica]) -> Operation[Outcomes[TopicPartitionReplica, None]]:
        request = _moves({key: wanted[key] for key in keys})
        answer: AlterReplicaLogDirsResponse = yield from core.request_until_answered(
            broker, AlterReplicaLogDirsRequest, lambda version: request, deadline
        )
        return {
            TopicPartitionReplica(topic.topic_name, each.partition_index, broker): error_from_code(
                each.error_code, topic=topic.topic_name, partition=each.partition_index, broker=broker
            )
            if each.error_code
            else None
            for topic in answer.results
            for each in topic.partitions
        }

    return settled(wanted, (yield from _by_broker(core, {each: each.broker_id for each in wanted}, live, ask)))


def _by_broker(
    core: AdminCore,
    keys: Mapping[K, int],
    live: set[int],
    ask: Callable[[int, list[K]], Operation[Outcomes[K, R]]],
) -> Operation[Outcomes[K, R]]:
    """Ask each broker about its keys at once; keys of brokers that are not there have an error.

    Parameters:
        keys: the broker of each key.
        live: the brokers that are alive.
    """
    by_broker: dict[int, list[K]] = {}
    errors: dict[K, KafkaError] = {}
    for key, broker in keys.items():
        if broker in live:
            by_broker.setdefault(broker, []).append(key)
        else:
            there = ", ".join(map(str, sorted(live)))
            text = f"the cluster has no broker {broker} that is alive; there is {there}"
            errors[key] = BrokerNotAvailableError(text, broker=broker)
    answered = yield from core.gather({broker: ask(broker, asked) for broker, asked in by_broker.items()}, by_broker)
    return {**errors, **answered}


def _describe(
    core: AdminCore, broker: int, partitions: list[TopicPartition] | None, deadline: Deadline
) -> Operation[dict[str, LogDirDescription]]:
    """Request the directories of a broker, with some partitions or all."""
    kind = DescribeLogDirsRequest
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for each in partitions:
            by_topic.setdefault(each.topic, []).append(each.partition)
        topics = [kind.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]

    def attempt() -> Operation[DescribeLogDirsResponse]:
        answer: DescribeLogDirsResponse = yield from core.request(
            broker, kind, lambda version: kind(topics=topics), deadline
        )
        # Before version 3 the response has no error code, and only a refused client gets no directories.
        code = answer.error_code or (0 if answer.results else ClusterAuthorizationError.code)
        if code:
            raise error_from_code(code, broker=broker, api="DescribeLogDirs")
        return answer

    answer = yield from core.retry(attempt, deadline)
    return {result.log_dir: _description(broker, result) for result in answer.results}


def _description(broker: int, result: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        error_from_code(result.error_code, broker=broker, api="DescribeLogDirs") if result.error_code else None,
        {
            TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in result.topics
            for each in topic.partitions
        },
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        result.is_cordoned,
    )


def _placed(key: TopicPartitionReplica, found: Mapping[str, LogDirDescription]) -> ReplicaLogDirInfo | KafkaError:
    current: tuple[str | None, int | None] = (None, None)
    future: tuple[str | None, int | None] = (None, None)
    for path, description in found.items():
        if description.error is not None and not isinstance(description.error, KafkaStorageError):
            return description.error
        info = description.replica_infos.get(TopicPartition(key.topic, key.partition))
        if info is None:
            continue
        if info.is_future:
            future = (path, info.offset_lag)
        else:
            current = (path, info.offset_lag)
    return ReplicaLogDirInfo(*current, *future)


def _moves(wanted: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    kind = AlterReplicaLogDirsRequest
    by_path: dict[str, dict[str, list[int]]] = {}
    for key, path in wanted.items():
        by_path.setdefault(path, {}).setdefault(key.topic, []).append(key.partition)
    return kind(
        dirs=[
            kind.AlterReplicaLogDir(
                path=path,
                topics=[
                    kind.AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics.items()
                ],
            )
            for path, topics in by_path.items()
        ]
    )


def _replica(given: object, what: str) -> TopicPartitionReplica:
    if isinstance(given, tuple) and len(given) == 3:
        topic, index, broker = given
        return TopicPartitionReplica(text(topic, what), number(index, what), number(broker, what))
    raise TypeError(f"{what} takes a TopicPartitionReplica(topic, partition, broker_id), not {given!r}")
