"""Requests about topics and their records, odd ones among them, to Apache Kafka and to refbroker: the same answers.

A difference is a bug in refbroker unless it is explained here. Known ones, which are omitted:

- Where Kafka fails (UNKNOWN_SERVER_ERROR, or no answer at all) refbroker says what is wrong: a topic with neither name
  nor id in Metadata, 10,000 partitions more at once, an isolation level that does not exist, no records.
- A partition that is named twice in a Produce request: Kafka stores the last batch alone.
- Kafka reads the records of compressed batches, and refuses those that are not what their header says.
- Texts: of keys of another type than there are (FindCoordinator), of batches that a client may not send (Produce).
- Share groups have no coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.delete_records import DeleteRecordsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest
from kclient.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import BatchBuilder
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.names import unique
from tests.support.waiting import wait_until
from tests.support.wire import Wire

A, B, COMPACTED, MISSING = map(unique, ("requests-a", "requests-b", "requests-compacted", "requests-missing"))
UNKNOWN_ID, NO_ID = UUID(int=77), UUID(int=0)
KEY_TYPES = (0, 1)
NOW_MS = time.time_ns() // 1_000_000

#: Whose answers Kafka gives in an order that is defined; in others the order is that of a set, or none on purpose.
IN_ORDER = (
    CreateTopicsResponse,
    CreatePartitionsResponse,
    DescribeTopicPartitionsResponse,
    FindCoordinatorResponse,
    OffsetForLeaderEpochResponse,
)

Topic = MetadataRequest.MetadataRequestTopic
Deletion = DeleteTopicsRequest.DeleteTopicState
Creation = CreateTopicsRequest.CreatableTopic


class Side(NamedTuple):
    """A broker that is asked.

    Attributes:
        ids: of the topics there.
    """

    wire: Wire
    ids: dict[str, UUID]


@pytest.fixture(scope="module")
def sides(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Both with topics of two partitions, and one that is compacted; deleted afterwards, as others share this Kafka."""
    folder = tmp_path_factory.mktemp("refbroker-requests")
    process = BrokerProcess(folder / "data", settings={"node.id": "1"})
    with process, Wire(kafka.bootstrap_servers) as left, Wire(process.bootstrap_servers) as right:
        yield _prepared(left), _prepared(right)
        left.ask(_deleted(*(Deletion(name=name) for name in (A, B, COMPACTED))), 6)


def _has_leaders(wire: Wire, ends: Message) -> bool:
    return not any(one.error_code for one in wire.ask(ends, 7).topics[0].partitions)


def _has_coordinator(wire: Wire, coordinator: Message) -> bool:
    return not wire.ask(coordinator, 6).coordinators[0].error_code


def _prepared(wire: Wire) -> Side:
    compact = CreateTopicsRequest.CreatableTopicConfig(name="cleanup.policy", value="compact")
    topics = [Creation(name=name, num_partitions=2, replication_factor=1) for name in (A, B)]
    topics.append(Creation(name=COMPACTED, num_partitions=1, replication_factor=1, configs=[compact]))
    made = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert not any(topic.error_code for topic in made.topics)
    for name, partitions in ((A, 2), (B, 2), (COMPACTED, 1)):
        ends = _offsets(*((index, -1, -1) for index in range(partitions)), topic=name)
        wait_until(partial(_has_leaders, wire, ends))
    for kind in KEY_TYPES:
        coordinator = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
        wait_until(partial(_has_coordinator, wire, coordinator))
    answer = wire.ask(_produce(A, _batch(b"a", b"b", b"c"), _batch(b"d")), 9)
    assert not any(one.error_code for one in answer.responses[0].partition_responses)
    return Side(wire, {topic.name: topic.topic_id for topic in made.topics})


def shown(side: Side, answer: Any) -> Any:
    """An answer without what must differ: ids, addresses, and an order that is not defined."""
    in_order = isinstance(answer, IN_ORDER)
    names = {topic_id: f"id of {name}" for name, topic_id in side.ids.items()}

    def plain(value: Any) -> Any:
        if isinstance(value, UUID):
            return names.get(value, str(value))
        if isinstance(value, list):
            found = [plain(one) for one in value]
            return found if in_order else sorted(found, key=str)
        if isinstance(value, msgspec.Struct):
            skipped = {"cluster_id", "port", "throttle_time_ms", "eligible_leader_replicas", "rack"}
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__ if name not in skipped}
        return value

    return plain(answer)


def _batch(*values: bytes, compression_type: str = "none", key: bytes | None = None) -> bytes:
    builder = BatchBuilder(compression_type)
    for value in values:
        builder.append(NOW_MS, key, value)
    return bytes(builder.build())


def _produce(topic: str, *batches: bytes, **fields: Any) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(**{"acks": -1, "timeout_ms": 5000, "topic_data": topics, **fields})


def _metadata(*topics: Topic, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=list(topics), **{"allow_auto_topic_creation": False, **fields})


def _offsets(*wanted: tuple[int, int, int], topic: str = A, isolation_level: int = 0) -> ListOffsetsRequest:
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index, timestamp, epoch in wanted
    ]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)]
    return ListOffsetsRequest(topics=topics, isolation_level=isolation_level)


def _epochs(*wanted: tuple[int, int, int], topic: str = A) -> OffsetForLeaderEpochRequest:
    partitions = [
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        for partition, current, epoch in wanted
    ]
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=partitions)]
    return OffsetForLeaderEpochRequest(topics=topics)


def _deletion(*wanted: tuple[int, int], topic: str = B) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted
    ]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=5000)


def _pages(*names: str, cursor: tuple[str, int] | None = None, limit: int = 10) -> DescribeTopicPartitionsRequest:
    kind = DescribeTopicPartitionsRequest
    return kind(
        topics=[kind.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def _creation(**fields: Any) -> CreateTopicsRequest:
    topic = Creation(**{"name": "requests-new", "num_partitions": 1, "replication_factor": 1, **fields})
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=True)


def _creations(*names: str, num_partitions: int = 1) -> CreateTopicsRequest:
    topics = [Creation(name=name, num_partitions=num_partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=True)


def _placed(*partitions: tuple[int, list[int]], num_partitions: int = -1) -> CreateTopicsRequest:
    kind = CreateTopicsRequest.CreatableReplicaAssignment
    assignments = [kind(partition_index=index, broker_ids=brokers) for index, brokers in partitions]
    return _creation(num_partitions=num_partitions, replication_factor=-1, assignments=assignments)


def _more(name: str, count: int, *brokers: list[int]) -> CreatePartitionsRequest:
    kind = CreatePartitionsRequest
    placed = [kind.CreatePartitionsAssignment(broker_ids=one) for one in brokers] or None
    topic = kind.CreatePartitionsTopic(name=name, count=count, assignments=placed)
    return kind(topics=[topic], timeout_ms=5000, validate_only=True)


def _deleted(*topics: Deletion) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(topics), timeout_ms=5000)


def _deleted_by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=5000)


GOOD = _batch(b"v")
ODD_NAMES = [Topic(name=name) for name in ("bad name", "", ".", "x" * 250, "__cluster_metadata")]
SPECIAL = [-1, -2, -3, -4, -5, -6, -7]

REQUESTS: list[tuple[Message, list[int]]] = [
    (_metadata(Topic(name=A), Topic(name=A), Topic(name=MISSING), Topic(name=MISSING)), [4, 9, 10, 12, 13]),
    (_metadata(Topic(name=MISSING), *ODD_NAMES, include_topic_authorized_operations=True), [8, 10, 12, 13]),
    (_metadata(Topic(name=None)), [10, 11]),
    (_metadata(Topic(name=None, topic_id=UNKNOWN_ID), Topic(name=A)), [10, 11, 12, 13]),
    (_metadata(Topic(name=A, topic_id=UNKNOWN_ID)), [11, 12]),
    (_metadata(*[Topic(name=None, topic_id=UNKNOWN_ID)] * 2, include_topic_authorized_operations=True), [12, 13]),
    (_metadata(), [4, 13]),
    *((_offsets((0, timestamp, -1)), [1, 4, 7, 8, 9, 11]) for timestamp in (*SPECIAL, 0, NOW_MS, NOW_MS + 1)),
    *((_offsets((0, timestamp, -1), topic=B), [1, 7, 11]) for timestamp in SPECIAL),
    (_offsets((0, -1, -1), (1, -1, -1), (0, -2, -1), (9, -1, -1)), [1, 11]),
    (_offsets((0, -1, 0), (1, -1, 5), isolation_level=1), [4, 11]),
    (_offsets((0, -1, -1), topic="bad name"), [1, 11]),
    (_epochs((0, -1, 0), (1, 0, 0), (9, -1, 0)), [2, 3, 4]),
    (_epochs((0, 5, 0), (1, -1, 5)), [2, 4]),
    (_epochs((0, -1, -1)), [4]),
    (_epochs((0, -1, 0), topic=MISSING), [4]),
    (_deletion((0, 5), (1, -2), (9, 0)), [0, 2]),
    (_deletion((0, 5), (0, 0)), [0, 2]),
    *((_deletion((0, 0), topic=topic), [1]) for topic in (COMPACTED, MISSING, "__consumer_offsets")),
    (_pages(A, B, A, "none", "bad name", cursor=(A, 1)), [0]),
    (_pages(A, B, "requests-b-none", COMPACTED, limit=4), [0]),
    *((_pages(A, COMPACTED, cursor=cursor), [0]) for cursor in ((A, -1), (B, 0), ("zzz", 0), (A, 9))),
    *((_pages(A, limit=limit), [0]) for limit in (1, 0, -1)),
    (_creation(name=A), [2, 7]),
    *((_creation(name=name), [7]) for name in ("bad name", "", ".", "x" * 250, "__cluster_metadata")),
    *((_creation(num_partitions=count), [5]) for count in (0, -2)),
    *((_creation(replication_factor=count), [7]) for count in (0, -2, 2)),
    (CreateTopicsRequest(topics=[Creation(name="n", num_partitions=1, replication_factor=1)] * 2), [7]),
    (_placed((0, [1]), (0, [1])), [2, 7]),
    (_placed((0, [9]), (0, [1])), [7]),
    (_placed((0, [1]), (0, [1]), (1, [])), [7]),
    (_placed((0, [1]), (1, []), (1, [1])), [7]),
    (_placed((0, [1]), (1, [9, 1])), [7]),
    (_placed((0, [1]), (2, [9, 7])), [7]),
    (_placed((0, [1]), (2, [1])), [7]),
    *((_placed(placed), [7]) for placed in ((1, [1]), (0, [1, 1]), (0, [9]), (0, []), (0, [9, 7]), (0, [9, 1, 1]))),
    (_creations("__cluster_metadata", "n", "n", A, "bad name"), [7]),
    (_creations("__cluster_metadata", "n", "n", num_partitions=6_000), [7]),
    (_creations("n", "n", "o", "p", num_partitions=6_000), [7]),
    (_placed((0, [1]), num_partitions=1), [7]),
    *((_more(A, count), [0, 3]) for count in (1, 2, -1, 3)),
    *((_more(name, 3), [3]) for name in (MISSING, "bad name")),
    *((_more(A, 3, brokers), [3]) for brokers in ([1], [7], [], [1, 1], [7, 5])),
    (_more(A, 4, [1]), [3]),
    (_more(A, 20_000, [1]), [3]),
    (_deleted_by_name(MISSING, MISSING, "bad name", "", A, A), [1, 5]),
    (_deleted(Deletion(name=A), Deletion(name=A), Deletion(name=A, topic_id=UNKNOWN_ID)), [6]),
    (_deleted(Deletion(topic_id=UNKNOWN_ID)), [6]),
    (_deleted(*[Deletion(topic_id=UNKNOWN_ID)] * 2, Deletion()), [6]),
    (_produce(MISSING, GOOD), [3, 9, 12]),
    (_produce(COMPACTED, GOOD), [5, 8]),
    (_produce(COMPACTED, _batch(b"v", key=b"k"), GOOD), [8]),
    (_produce(A, _batch(b"v", compression_type="zstd")), [3, 6]),
    (_produce(A, GOOD[:-1] + bytes([GOOD[-1] ^ 1])), [3, 9]),
    (_produce(A), [3, 9]),
    (_produce(A, GOOD, acks=2), [3, 9]),
    (_produce(B, topic_data=[]), [9]),
    (_produce("__consumer_offsets", GOOD), [9]),
    *((DescribeClusterRequest(endpoint_type=kind), [1, 2]) for kind in (1, 2, 3, 0)),
    *((FindCoordinatorRequest(key_type=kind, coordinator_keys=["", "g", "g"]), [4, 6]) for kind in KEY_TYPES),
]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        pytest.param(request, version, id=f"{index}-{type(request).__name__}-v{version}")
        for index, (request, versions) in enumerate(REQUESTS)
        for version in versions
    ],
)
def test_answers_are_alike(sides: tuple[Side, Side], request_: Message, version: int) -> None:
    kafka, refbroker = (shown(side, side.wire.ask(request_, version)) for side in sides)
    assert refbroker == kafka


def test_topics_are_found_by_the_ids_they_have(sides: tuple[Side, Side]) -> None:
    def answers(side: Side, version: int) -> Any:
        by_id = Topic(name=None, topic_id=side.ids[A])
        odd = [Topic(name=B, topic_id=side.ids[A]), Topic(name=B), Topic(name=None)]
        return [shown(side, side.wire.ask(_metadata(*topics), version)) for topics in ([by_id, by_id], [by_id, *odd])]

    for version in (10, 11, 12, 13):
        kafka, refbroker = (answers(side, version) for side in sides)
        assert refbroker == kafka


def test_topics_that_are_named_twice_are_not_deleted(sides: tuple[Side, Side]) -> None:
    def answer(side: Side) -> Any:
        by_id, by_name = Deletion(topic_id=side.ids[A]), Deletion(name=A)
        requests = [_deleted(by_id, by_name), _deleted(by_id, by_id, by_name), _deleted(by_id, by_id)]
        given = [shown(side, side.wire.ask(request, 6)) for request in requests]
        return given, shown(side, side.wire.ask(_metadata(Topic(name=A)), 12))

    kafka, refbroker = (answer(side) for side in sides)
    assert refbroker == kafka


@pytest.mark.parametrize("version", [3, 4])
def test_supported_features_are_asked_to_the_same_clients(sides: tuple[Side, Side], version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    kafka, refbroker = (
        {one.name: (one.min_version, one.max_version) for one in side.wire.ask(request, version).supported_features}
        for side in sides
    )
    assert refbroker.items() <= kafka.items()
    assert refbroker.keys() == kafka.keys() & {"metadata.version", "group.version", "transaction.version"}
