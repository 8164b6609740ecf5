"""Log directories: each broker is asked about its own, and the answers are put together."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.log_dirs import (
    LogDirDescription,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
    alter_replica_log_dirs,
    describe_log_dirs,
    describe_replica_log_dirs,
)
from kclient.errors import (
    AdminError,
    BrokerNotAvailableError,
    ClusterAuthorizationError,
    DisconnectedError,
    KafkaError,
    KafkaStorageError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
    UnknownServerError,
)
from kclient.protocol import Message
from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, nodes_asked, soon

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Answer = DescribeLogDirsResponse


def directory(path: str, *partitions: Answer.DescribeLogDirsPartition, **fields: Any) -> Answer.DescribeLogDirsResult:
    topics = [Answer.DescribeLogDirsTopic(name="t", partitions=list(partitions))] if partitions else []
    return Answer.DescribeLogDirsResult(log_dir=path, topics=topics, **fields)


def replica(partition: int, size: int, lag: int = 0, future: bool = False) -> Answer.DescribeLogDirsPartition:
    return Answer.DescribeLogDirsPartition(
        partition_index=partition, partition_size=size, offset_lag=lag, is_future_key=future
    )


def core_with(answers: dict[int, Message | KafkaError], **core: Any) -> ScriptedCore:
    """Brokers 1 and 2 with these answers to DescribeLogDirs."""
    return ScriptedCore(Cluster(DescribeLogDirs=lambda node, request: answers[node]), **core)


ONE = Answer(
    results=[
        directory("/a", replica(0, 100), replica(1, 7, 3), total_bytes=1000, usable_bytes=400),
        directory("/b", replica(0, 60, 5, future=True), is_cordoned=True),
    ]
)
TWO = Answer(results=[directory("/c", error_code=KafkaStorageError.code)])


def test_all_brokers_are_asked_for_all_their_replicas() -> None:
    core = core_with({1: ONE, 2: TWO})
    found = finished(describe_log_dirs(core, None, soon()))
    assert found[1] == {
        "/a": LogDirDescription(None, {T0: ReplicaInfo(100, 0), T1: ReplicaInfo(7, 3)}, 1000, 400),
        "/b": LogDirDescription(None, {T0: ReplicaInfo(60, 5, True)}, is_cordoned=True),
    }
    assert isinstance(found[2]["/c"].error, KafkaStorageError)
    assert nodes_asked(core, DescribeLogDirsRequest) == [1, 2]
    assert [r.topics for _, r, _ in core.asked if isinstance(r, DescribeLogDirsRequest)] == [None, None]


def test_a_broker_that_is_not_there_is_an_error_that_names_the_others() -> None:
    core = core_with({1: ONE, 2: TWO})
    with pytest.raises(AdminError) as caught:
        finished(describe_log_dirs(core, [1, 9], soon()))
    assert list(caught.value.results) == [1]
    assert isinstance(caught.value.errors[9], BrokerNotAvailableError)
    assert "no broker 9 that is alive; there is 1, 2" in str(caught.value.errors[9])
    assert nodes_asked(core, DescribeLogDirsRequest) == [1]


@pytest.mark.parametrize(
    ("answer", "version"),
    [(Answer(error_code=ClusterAuthorizationError.code), 5), (Answer(), 2)],
    ids=["says so", "before version 3"],
)
def test_a_broker_may_refuse(answer: Answer, version: int) -> None:
    core = core_with({1: ONE, 2: answer}, newest={DescribeLogDirsRequest: version})
    with pytest.raises(AdminError) as caught:
        finished(describe_log_dirs(core, None, soon()))
    assert isinstance(caught.value.errors[2], ClusterAuthorizationError)
    assert list(caught.value.results) == [1]


def test_a_lost_connection_is_no_reason_to_give_up() -> None:
    left: list[Message | KafkaError] = [DisconnectedError(), DisconnectedError(), ONE]
    core = ScriptedCore(Cluster(DescribeLogDirs=lambda node, request: left.pop(0)))
    assert set(finished(describe_log_dirs(core, 1, soon()))[1]) == {"/a", "/b"}


def test_a_replica_has_the_directory_it_is_in_and_the_one_it_moves_to() -> None:
    here, moving, gone = (
        TopicPartitionReplica("t", 1, 1),
        TopicPartitionReplica("t", 0, 1),
        TopicPartitionReplica("t", 0, 2),
    )
    core = core_with({1: ONE, 2: TWO})
    found = finished(describe_replica_log_dirs(core, [moving, here, gone], soon()))
    assert found == {
        moving: ReplicaLogDirInfo("/a", 0, "/b", 5),
        here: ReplicaLogDirInfo("/a", 3),
        gone: ReplicaLogDirInfo(),
    }
    asked = {node: r.topics for node, r, _ in core.asked if isinstance(r, DescribeLogDirsRequest)}
    assert {node: [(t.topic, t.partitions) for t in topics or ()] for node, topics in asked.items()} == {
        1: [("t", [0, 1])],
        2: [("t", [0])],
    }


def test_a_directory_that_failed_otherwise_is_an_error_of_the_replica() -> None:
    broken = Answer(results=[directory("/c", error_code=UnknownServerError.code)])
    with pytest.raises(AdminError) as caught:
        finished(describe_replica_log_dirs(core_with({1: broken}), [TopicPartitionReplica("t", 0, 1)], soon()))
    (error,) = caught.value.errors.values()
    assert isinstance(error, UnknownServerError)


def moves(core: ScriptedCore, assignment: Any) -> Any:
    return finished(alter_replica_log_dirs(core, assignment, soon("alter_replica_log_dirs")))


def mover(codes: dict[TopicPartitionReplica, int]) -> ScriptedCore:
    def alter(node: int, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        kind = AlterReplicaLogDirsResponse
        return kind(
            results=[
                kind.AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[
                        kind.AlterReplicaLogDirPartitionResult(
                            partition_index=number,
                            error_code=codes.get(TopicPartitionReplica(topic.name, number, node), 0),
                        )
                        for number in topic.partitions
                    ],
                )
                for each in request.dirs
                for topic in each.topics
            ]
        )

    return ScriptedCore(Cluster(AlterReplicaLogDirs=alter))


def test_moves_are_sent_to_the_brokers_of_the_replicas() -> None:
    a, b, c = (TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 1, 1), TopicPartitionReplica("t", 0, 2))
    core = mover({})
    assert moves(core, {a: "/x", b: "/y", c: "/x"}) == {a: None, b: None, c: None}
    sent = {
        node: {each.path: [(topic.name, topic.partitions) for topic in each.topics] for each in request.dirs}
        for node, request, _ in core.asked
        if isinstance(request, AlterReplicaLogDirsRequest)
    }
    assert sent == {1: {"/x": [("t", [0])], "/y": [("t", [1])]}, 2: {"/x": [("t", [0])]}}


def test_a_move_that_is_refused_is_not_repeated() -> None:
    a, b, c = (TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 1, 1), TopicPartitionReplica("t", 0, 9))
    core = mover({a: ReplicaNotAvailableError.code, b: LogDirNotFoundError.code})
    with pytest.raises(AdminError) as caught:
        moves(core, {a: "/x", b: "/x", c: "/x"})
    assert {key: type(each) for key, each in caught.value.errors.items()} == {
        a: ReplicaNotAvailableError,
        b: LogDirNotFoundError,
        c: BrokerNotAvailableError,
    }
    assert nodes_asked(core, AlterReplicaLogDirsRequest) == [1]
    assert "describe_log_dirs shows those that it has. [topic t, partition 1, broker 1]" in str(caught.value.errors[b])


@pytest.mark.parametrize("key", [("t", 0), "t-0-1", ("t", "0", 1)])
def test_a_key_that_is_no_replica_is_refused(key: Any) -> None:
    core = mover({})
    with pytest.raises(TypeError, match="alter_replica_log_dirs takes"):
        moves(core, {key: "/x"})
    assert core.asked == []
