"""The same admin requests to Apache Kafka and to refbroker: what is answered, described, refused and why.

A difference is a bug in refbroker unless it is explained here. Known ones, which are omitted:

- `min.insync.replicas`: Kafka formats a cluster with eligible leader replicas, which sets it for all brokers and keeps
  it from being changed; one node has none.
- Settings in the configuration file that belong to a plugin of Kafka's (`super.users`), or that Kafka keeps to itself
  (`log.initial.task.delay.ms`), are shown by Kafka.
- `log.cleaner.threads=0` makes Kafka divide by zero, an operation of unknown number on a topic makes its controller
  fail (UNKNOWN_SERVER_ERROR): refbroker says what is wrong.
- An AlterConfigs request (the older one) that names a resource twice is never answered by Kafka; refbroker refuses it.
- refbroker does not start with an `authorizer.class.name`, which it does not implement.
- `listeners` cannot be changed on a running refbroker.
- Of two topics in one request whose names collide Kafka makes both; refbroker refuses the second, as it would later.
- The names of loggers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kclient.protocol import Message
from kclient.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest as Reassign
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest
from kclient.protocol.messages.describe_producers import DescribeProducersRequest
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest
from kclient.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kclient.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.interop.admin_requests import (
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    TOPIC,
    Change,
    answers,
    incremental,
    renamed,
    replacing,
    single_changes,
)
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.names import unique
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until
from tests.support.wire import Wire

NAMES = unique("admin-differences")
STATIC = 4
UNKNOWN_TYPE = 0

#: What the two configuration files say of the brokers themselves, or see above.
DIFFERENT = {
    "advertised.listeners",
    "authorizer.class.name",
    "broker.rack",
    "controller.listener.names",
    "controller.quorum.voters",
    "listeners",
    "log.dir",
    "log.dirs",
    "log.initial.task.delay.ms",
    "min.insync.replicas",
    "process.roles",
    "unclean.leader.election.interval.ms",
}


class Both(NamedTuple):
    """Connections to Apache Kafka and to refbroker."""

    kafka: Wire
    refbroker: Wire

    def ask(self, request: Message, version: int) -> tuple[Any, Any]:
        return self.kafka.ask(request, version), self.refbroker.ask(request, version)


@pytest.fixture(scope="module")
def both(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The two with the same settings in their files, as far as refbroker knows them."""
    folder = tmp_path_factory.mktemp("refbroker-differences")
    with Wire(kafka.bootstrap_servers) as wire:
        described = describe(wire, BROKER, "1")
    settings = {
        name: entry.value
        for name, entry in described.items()
        if entry.config_source == STATIC and entry.value is not None and name not in DIFFERENT
    }
    process = BrokerProcess(folder / "data", settings=settings)
    with process, Wire(kafka.bootstrap_servers) as left, Wire(process.bootstrap_servers) as right:
        yield Both(left, right)


@pytest.fixture(scope="module")
def made(both: Both) -> Iterator[str]:
    """A topic of one partition at both, deleted afterwards: other modules share this Kafka."""
    topic = CreateTopicsRequest.CreatableTopic(name=NAMES, num_partitions=1, replication_factor=1)
    for answer in both.ask(CreateTopicsRequest(topics=[topic]), 7):
        assert answer.topics[0].error_code == 0
    producers = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=NAMES, partition_indexes=[0])]
    )
    # Kafka's broker applies it a little after its controller has responded.
    wait_until(lambda: not any(answer.topics[0].partitions[0].error_code for answer in both.ask(producers, 0)))
    yield NAMES
    both.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=NAMES)], timeout_ms=10_000), 6)


def describe(wire: Wire, kind: int, name: str) -> dict[str, Any]:
    one = DescribeConfigsRequest
    wanted = one.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = wire.ask(one(resources=[wanted], include_synonyms=True), 4).results[0]
    assert (answer.error_code, answer.error_message) == (0, "")
    return {entry.name: entry for entry in answer.configs}


def shown(wire: Wire, kind: int, name: str) -> dict[str, Any]:
    """Everything that is described of a resource but what must differ."""
    return {
        key: (
            entry.value, entry.read_only, entry.config_source, entry.is_sensitive, entry.config_type,
            [(one.name, one.value, one.source) for one in entry.synonyms],
        )
        for key, entry in describe(wire, kind, name).items()
        if key not in DIFFERENT and not (entry.config_type == UNKNOWN_TYPE and entry.config_source == STATIC)
    }  # fmt: skip


def compare(both: Both, kind: int, name: str, *, within: float = 0) -> dict[str, Any]:
    """See that both describe a resource alike, or do so within some seconds; gives what they describe.

    Kafka's broker learns of changes a little later than its controller answers, and takes them one after the other.
    """
    deadline = time.monotonic() + within
    found = shown(both.refbroker, kind, name)
    while found != (kafkas := shown(both.kafka, kind, name)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == kafkas
    return found


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [(TOPIC, NAMES, 32), (BROKER, "1", 329), (BROKER, "", 0), (METRICS, "unheard", 3), (GROUP, "unheard", 17)],
    ids=["topic", "broker", "every broker", "metrics", "group"],
)
def test_settings_are_described_alike(both: Both, made: str, kind: int, name: str, count: int) -> None:
    assert len(compare(both, kind, name)) >= count


def test_read_only_sensitive_and_types_are_alike_where_values_differ(both: Both) -> None:
    kafka, refbroker = describe(both.kafka, BROKER, "1"), describe(both.refbroker, BROKER, "1")
    for name in DIFFERENT & refbroker.keys() & kafka.keys():
        for attribute in ("read_only", "is_sensitive", "config_type"):
            assert getattr(refbroker[name], attribute) == getattr(kafka[name], attribute), name


ON_TOPIC = [
    ("cleanup.policy", " compact , compact "), ("preallocate", "TRUE"), ("retention.ms", "+7"), ("segment.ms", "9"),
    ("min.cleanable.dirty.ratio", "1e-4"), ("compression.type", " gzip"),
    ("leader.replication.throttled.replicas", "0:1, 1:1"),
]  # fmt: skip
ON_EVERY_BROKER = [
    ("group.consumer.assignment.interval.ms", "2000"), ("log.retention.ms", "-5"), ("message.max.bytes", " 2000000 "),
    ("log.roll.ms", "700000"), ("log.cleaner.delete.retention.ms", "55"),
]  # fmt: skip
ON_BROKER = [
    ("log.roll.jitter.ms", "9"), ("foo.bar", "x"), ("leader.replication.throttled.rate", "+1000"),
    ("listener.name.plaintext.max.connections", "77"), ("log.cleaner.io.max.bytes.per.second", "1e8"),
    ("log.cleanup.policy", "compact,delete"), ("log.segment.bytes", "+2000000"), ("log.flush.interval.ms", "500"),
    ("log.retention.ms", "600000"), ("listener.name.plaintext.ssl.keystore.password", "secret"),
]  # fmt: skip
ON_GROUP = [("share.auto.offset.reset", " earliest"), ("consumer.session.timeout.ms", "+50000")]
ON_METRICS = [("metrics", " a, b ,a"), ("interval.ms", "+5000"), ("match", "client_id=x")]


def test_settings_that_were_changed_are_described_alike(both: Both, made: str) -> None:
    changes: list[tuple[int, str, list[tuple[str, str]]]] = [
        (TOPIC, made, ON_TOPIC), (BROKER, "", ON_EVERY_BROKER), (BROKER, "1", ON_BROKER),
        (GROUP, "g", ON_GROUP), (METRICS, "m", ON_METRICS),
    ]  # fmt: skip
    try:
        for kind, name, values in changes:
            for key, value in values:
                request = incremental(Change(kind, name, [(key, SET, value)]), dry=False)
                assert [answers(one) for one in both.ask(request, 1)] == [[(kind, name, 0, None)]] * 2
            compare(both, kind, name, within=ANSWER)
            # What is set on brokers shows on topics and groups too.
            for other, other_name, _ in changes:
                compare(both, other, other_name, within=ANSWER)
    finally:
        undo = [Change(kind, name, [(key, DELETE, None) for key, _ in values]) for kind, name, values in changes]
        both.ask(incremental(*undo, dry=False), 1)
    for kind, name, _ in changes:
        compare(both, kind, name, within=ANSWER)


def test_changes_are_refused_and_allowed_alike(both: Both, made: str) -> None:
    differences = []
    for change in single_changes():
        request = incremental(renamed(change, made))
        kafka, refbroker = (answers(one) for one in both.ask(request, 1))
        if kafka != refbroker:
            differences.append((change, kafka, refbroker))
    assert differences == []


def test_replacements_and_repeated_resources_are_refused_alike(both: Both, made: str) -> None:
    valid, invalid = ("retention.ms", SET, "5"), ("nope", SET, "1")
    for make, version in ((incremental, 1), (replacing, 2)):
        requests: list[list[Change]] = [
            [Change(TOPIC, made, [valid, invalid])],
            [Change(TOPIC, made, [valid, valid])],
            [Change(TOPIC, made, [("retention.ms", SET, None)])],
            [Change(77, "x", [valid])],
            [Change(BROKER, "1", [("node.id", SET, "5")]), Change(BROKER, "", [("message.max.bytes", SET, "x")])],
            [Change(TOPIC, made, [valid]), Change(TOPIC, "none", []), Change(METRICS, "", [])],
        ]
        for changes in requests:
            kafka, refbroker = (answers(one) for one in both.ask(make(*changes), version))
            assert refbroker == kafka, changes
    loggers = replacing(Change(LOGGER, "1", [("root", SET, "INFO")]))
    twice = incremental(Change(TOPIC, made, [valid]), Change(TOPIC, "none", []), Change(TOPIC, made, [valid]))
    for request, version in ((loggers, 2), (twice, 1)):
        kafka, refbroker = (answers(one) for one in both.ask(request, version))
        assert refbroker == kafka


def _election(topics: dict[str, list[int]] | None, kind: int = 0) -> ElectLeadersRequest:
    one = ElectLeadersRequest
    named = None if topics is None else [one.TopicPartitions(topic=t, partitions=p) for t, p in topics.items()]
    return one(election_type=kind, topic_partitions=named)


def _move(replicas: list[int] | None, topic: str = NAMES, partition: int = 0, **more: Any) -> Reassign:
    wanted = Reassign.ReassignablePartition(partition_index=partition, replicas=replicas)
    return Reassign(topics=[Reassign.ReassignableTopic(name=topic, partitions=[wanted])], **more)


def _described(*resources: tuple[int, str]) -> DescribeConfigsRequest:
    one = DescribeConfigsRequest
    return one(
        resources=[
            one.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
            for kind, name in resources
        ]
    )


MISSING = {NAMES: [0, 9], "none": [0]}
REQUESTS: list[tuple[Message, list[int]]] = [
    (_election(MISSING), [0, 1, 2]),
    (_election(MISSING, 1), [1, 2]),
    (_election(MISSING, 7), [1, 2]),
    (_election({}), [0, 2]),
    *((_move(replicas), [0, 1]) for replicas in ([1], [1, 1], [], [2], [1, 2], [2, 1, 2], None)),
    *((_move(replicas, allow_replication_factor_change=False), [1]) for replicas in ([1], [1, 1], [])),
    (_move([1], partition=9), [0]),
    (_move([1], "none"), [0]),
    (Reassign(), [0, 1]),
    (ListPartitionReassignmentsRequest(topics=None), [0]),
    (
        ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in MISSING.items()
            ]
        ),
        [0],
    ),
    (
        DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
                for name, numbers in {**MISSING, "bad name": [0], "": [1]}.items()
            ]
        ),
        [0],
    ),
    *(
        (ListConfigResourcesRequest(resource_types=kinds), [1])
        for kinds in ([METRICS], [BROKER, LOGGER], [3], [TOPIC, 99])
    ),
    (ListConfigResourcesRequest(), [0]),
    *(
        (_described(resource), [1, 4])
        for resource in (
            (TOPIC, "none"), (TOPIC, "bad name"), (TOPIC, ""), (BROKER, "7"), (BROKER, "x"), (LOGGER, ""),
            (LOGGER, "7"), (LOGGER, "x"), (METRICS, ""), (GROUP, ""),
        )
    ),
    (_described((77, "x"), (TOPIC, NAMES)), [4]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        pytest.param(request, version, id=f"{index}-{type(request).__name__}-v{version}")
        for index, (request, versions) in enumerate(REQUESTS)
        for version in versions
    ],
)
def test_answers_are_alike(both: Both, made: str, request_: Message, version: int) -> None:
    kafka, refbroker = both.ask(request_, version)
    assert refbroker == kafka


def _sorted_resources(answer: Any) -> list[tuple[int, str]]:
    return sorted((one.resource_type, one.resource_name) for one in answer.config_resources)


def test_resources_appear_in_the_list_with_their_first_setting_and_go_with_the_last(both: Both, made: str) -> None:
    names = [(METRICS, "listed", "interval.ms", "5000"), (GROUP, "listed", "share.delivery.count.limit", "4")]

    def listing() -> tuple[Any, Any]:
        return both.ask(ListConfigResourcesRequest(resource_types=[METRICS, GROUP]), 1)

    def both_have(wanted: list[tuple[int, str]]) -> Callable[[], bool]:
        return lambda: all(_sorted_resources(answer) == wanted for answer in listing())

    both.ask(incremental(*(Change(kind, name, [(key, SET, value)]) for kind, name, key, value in names), dry=False), 1)
    wait_until(both_have([(kind, name) for kind, name, _, _ in names]))
    both.ask(incremental(*(Change(kind, name, [(key, DELETE, None)]) for kind, name, key, _ in names), dry=False), 1)
    wait_until(both_have([]))
