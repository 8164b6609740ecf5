"""The same requests about offsets and groups to Apache Kafka and to refbroker, in every version: the same answers.

A difference is a bug in refbroker unless it is explained here. Known ones:

- Groups, topics and partitions are compared whatever their order, which in Kafka is that of a hash table.
- A commit all of whose partitions are refused (their metadata is too long) leaves Kafka with a group that has nothing,
  until it looks for what expires; refbroker makes the group with its first offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from kclient.protocol import Message
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.list_groups import ListGroupsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest as Commit
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest as Delete
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest as Fetch
from kclient.protocol.messages.records.consumer_offsets import OffsetCommitValue
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.records import read_batches
from refbroker.coordinators.records import decode_record
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.names import unique
from tests.support.waiting import wait_until
from tests.support.wire import Wire

TOPIC, OTHER, MISSING = map(unique, ("group-differences", "group-differences-other", "group-differences-missing"))
STRANGER = UUID(int=99)
NOT_COORDINATOR, LOADING = 16, 14


class Broker(NamedTuple):
    """A connection to one of the two, and the ids that it gave to the topics."""

    name: str
    wire: Wire
    ids: dict[str, UUID]

    def ask(self, request: Message, version: int) -> Any:
        return self.wire.ask(request, version)


class Member(NamedTuple):
    """The only member of a group."""

    member_id: str
    generation: int


@pytest.fixture(scope="module")
def both(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    folder = tmp_path_factory.mktemp("refbroker-groups")
    settings = {"group.initial.rebalance.delay.ms": "0"}
    process = BrokerProcess(folder / "data", settings=settings)
    with process, Wire(kafka.bootstrap_servers) as left, Wire(process.bootstrap_servers) as right:
        brokers = [Broker("kafka", left, {}), Broker("refbroker", right, {})]
        for broker in brokers:
            _make_topics(broker, TOPIC, OTHER)
            broker.ids[MISSING] = STRANGER
        yield brokers
        # Other modules share this Kafka.
        named = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in (TOPIC, OTHER)]
        left.ask(DeleteTopicsRequest(topics=named, timeout_ms=10_000), 6)


def _make_topics(broker: Broker, *names: str) -> None:
    topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    for made in broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7).topics:
        assert made.error_code == 0
        broker.ids[made.name] = made.topic_id
    # Kafka's broker applies them a little after its controller has responded.
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    wait_until(lambda: all(one.topic_id == broker.ids[one.name] for one in broker.ask(request, 12).topics))


def coordinate(broker: Broker, group: str) -> None:
    """Wait until the broker coordinates a group."""

    def found() -> bool:
        [one] = broker.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
        return bool(one.error_code == 0)

    wait_until(found)
    one = Fetch.OffsetFetchRequestGroup(group_id=group, topics=None)
    wait_until(lambda: broker.ask(Fetch(groups=[one]), 8).groups[0].error_code not in (NOT_COORDINATOR, LOADING))


def answers(both: list[Broker], make: Any, version: int) -> tuple[Any, Any]:
    """What the two answer to what `make` gives for each, in a form that can be compared."""
    kafka, refbroker = (plain(broker.ask(make(broker), version), broker) for broker in both)
    return kafka, refbroker


def plain(message: Any, broker: Broker) -> Any:
    """An answer as lists and dicts, ids of topics as their names, lists in an order of their own."""
    names = {topic_id: name for name, topic_id in broker.ids.items()}

    def simplify(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: simplify(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return sorted(map(simplify, value), key=repr)
        return names.get(value, value) if isinstance(value, UUID) else value

    return simplify(msgspec.to_builtins(message, builtin_types=(bytes, UUID)))


def join(broker: Broker, group: str, *, protocol_type: str = "consumer", sync: bool = True) -> Member:
    """Make a member, subscribed to TOPIC, and give it its assignment."""
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=[TOPIC]), 0)
    joined = broker.ask(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)],
        ),
        3,
    )
    assert joined.error_code == 0
    member = Member(joined.member_id, joined.generation_id)
    if sync:
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")
        answer = broker.ask(
            SyncGroupRequest(
                group_id=group, generation_id=member.generation, member_id=member.member_id, assignments=[assignment]
            ),
            3,
        )
        assert answer.error_code == 0
    return member


def commit(broker: Broker, version: int, group: str, *topics: tuple[str, list[int]], **fields: Any) -> Commit:
    metadata = fields.pop("metadata", "m")
    offset = fields.pop("offset", 5)
    return Commit(
        group_id=group,
        topics=[
            Commit.OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=broker.ids[name] if version >= 10 else UUID(int=0),
                partitions=[
                    Commit.OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset + number,
                        committed_leader_epoch=3 if version >= 6 else -1,
                        committed_metadata=metadata,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in topics
        ],
        **fields,
    )


def fetch(
    broker: Broker, version: int, group: str, topics: list[tuple[str, list[int]]] | None, *, stable: bool = False
) -> Fetch:
    if version < 8:
        old = None if topics is None else [
            Fetch.OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in topics
        ]  # fmt: skip
        return Fetch(group_id=group, topics=old, require_stable=stable)
    new = None if topics is None else [
        Fetch.OffsetFetchRequestTopics(
            name=name if version < 10 else "",
            topic_id=broker.ids[name] if version >= 10 else UUID(int=0),
            partition_indexes=numbers,
        )
        for name, numbers in topics
    ]  # fmt: skip
    wanted = [Fetch.OffsetFetchRequestGroup(group_id=name, topics=new) for name in (group, "nobodys")]
    return Fetch(groups=wanted, require_stable=stable)


EVERYTHING = [(TOPIC, [0, 1, 7]), (OTHER, [1]), (MISSING, [0])]


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_and_what_is_fetched_then(both: list[Broker], version: int) -> None:
    group = f"commits-{version}"
    for broker in both:
        coordinate(broker, group)
        coordinate(broker, "nobodys")
    kafka, refbroker = answers(both, lambda broker: commit(broker, version, group, *EVERYTHING), version)
    assert refbroker == kafka
    for fetched in range(1, 11):
        stable = fetched >= 7
        for topics in (EVERYTHING, [], None) if fetched > 1 else (EVERYTHING, []):

            def make(broker: Broker, topics: Any = topics, fetched: int = fetched, stable: bool = stable) -> Fetch:
                return fetch(broker, fetched, group, topics, stable=stable)

            kafka, refbroker = answers(both, make, fetched)
            assert refbroker == kafka, (fetched, topics)


@pytest.mark.parametrize("version", range(2, 11))
def test_who_may_commit(both: list[Broker], version: int) -> None:
    groups = {state: f"{state}-{version}" for state in ("none", "simple", "stable", "syncing", "connect")}
    members: dict[str, dict[str, Member]] = {}
    for broker in both:
        for group in groups.values():
            coordinate(broker, group)
        assert broker.ask(commit(broker, 9, groups["simple"], (TOPIC, [0])), 9).topics[0].partitions[0].error_code == 0
        members[broker.name] = {
            "none": Member("nobody", 1),
            "simple": Member("nobody", 1),
            "stable": join(broker, groups["stable"]),
            "syncing": join(broker, groups["syncing"], sync=False),
            "connect": join(broker, groups["connect"], protocol_type="connect"),
        }
    for state, group in groups.items():
        for case in ("mine", "older", "newer", "stranger", "anonymous", "no generation", "no member"):

            def make(broker: Broker, state: str = state, group: str = group, case: str = case) -> Commit:
                mine = members[broker.name][state]
                who = {
                    "mine": mine,
                    "older": Member(mine.member_id, mine.generation - 1),
                    "newer": Member(mine.member_id, mine.generation + 1),
                    "stranger": Member("stranger", mine.generation),
                    "anonymous": Member("", -1),
                    "no generation": Member(mine.member_id, -1),
                    "no member": Member("", mine.generation),
                }[case]
                fields = {"member_id": who.member_id, "generation_id_or_member_epoch": who.generation}
                return commit(broker, version, group, (TOPIC, [0, 9]), **fields)

            if state == "none" and case in ("anonymous", "no generation"):
                # That would make the group.
                continue
            kafka, refbroker = answers(both, make, version)
            assert refbroker == kafka, (state, case)


@pytest.mark.parametrize(
    "metadata",
    [None, "", "x" * 4096, "x" * 4097, "\U0001f600" * 2048, "\U0001f600" * 2049],
    ids=["null", "empty", "4096 letters", "4097 letters", "2048 surrogate pairs", "2049 surrogate pairs"],
)
def test_metadata(both: list[Broker], metadata: str | None) -> None:
    group = "metadata"
    for broker in both:
        coordinate(broker, group)
    kafka, refbroker = answers(both, lambda broker: commit(broker, 9, group, (TOPIC, [1]), metadata=metadata), 9)
    assert refbroker == kafka
    kafka, refbroker = answers(both, lambda broker: fetch(broker, 9, group, None), 9)
    assert refbroker == kafka


def test_deleting_offsets(both: list[Broker]) -> None:
    for broker in both:
        for group in ("od-simple", "od-stable", "od-connect", "od-none", ""):
            coordinate(broker, group)
        for group in ("od-simple", "od-stable", "od-connect", ""):
            broker.ask(commit(broker, 9, group, (TOPIC, [0, 1]), (OTHER, [0])), 9)
        join(broker, "od-stable")
        join(broker, "od-connect", protocol_type="connect")
    for group in ("od-simple", "od-stable", "od-connect", "od-none", ""):
        for topics in ([(TOPIC, [0, 7]), (OTHER, [0, 1]), (MISSING, [0])], [(MISSING, [0])], []):
            request = Delete(
                group_id=group,
                topics=[
                    Delete.OffsetDeleteRequestTopic(
                        name=name,
                        partitions=[Delete.OffsetDeleteRequestPartition(partition_index=one) for one in numbers],
                    )
                    for name, numbers in topics
                ],
            )
            kafka, refbroker = answers(both, lambda broker, request=request: request, 0)
            assert refbroker == kafka, (group, topics)
        kafka, refbroker = answers(both, lambda broker, group=group: fetch(broker, 9, group, None), 9)
        assert refbroker == kafka, group


def without_names(described: Any) -> Any:
    """What is described of groups, without the ids that a broker gives to members."""
    for group in described["groups"]:
        for member in group["members"]:
            member["member_id"] = member["member_id"].partition("-")[0]
    return described


@pytest.mark.parametrize("version", range(7))
def test_describing_groups(both: list[Broker], version: int) -> None:
    groups = [f"{state}-{version}" for state in ("d-none", "d-simple", "d-stable", "d-syncing", "d-connect")]
    for broker in both:
        for group in groups:
            coordinate(broker, group)
        broker.ask(commit(broker, 9, groups[1], (TOPIC, [0])), 9)
        join(broker, groups[2])
        join(broker, groups[3], sync=False)
        join(broker, groups[4], protocol_type="connect")
    request = DescribeGroupsRequest(groups=[*groups, ""], include_authorized_operations=version >= 3)
    kafka, refbroker = (without_names(each) for each in answers(both, lambda broker: request, version))
    assert refbroker == kafka


@pytest.mark.parametrize(
    ("version", "states", "types"),
    [
        *((version, [], []) for version in range(6)),
        (4, ["Stable"], []), (4, [" eMPTY ", "Stable"], []), (4, ["nonsense"], []), (5, [], ["classic"]),
        (5, ["Empty"], ["Classic", "consumer"]), (5, [], ["consumer"]), (5, [], ["nonsense"]), (5, [], [" classic"]),
    ],
)  # fmt: skip
def test_listing_groups(both: list[Broker], version: int, states: list[str], types: list[str]) -> None:
    for broker in both:
        for group in ("l-simple", "l-stable"):
            coordinate(broker, group)
        broker.ask(commit(broker, 9, "l-simple", (TOPIC, [0])), 9)
        if not broker.ask(DescribeGroupsRequest(groups=["l-stable"]), 5).groups[0].members:
            join(broker, "l-stable")
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    kafka, refbroker = (_listed(each, "l-") for each in answers(both, lambda broker: request, version))
    assert refbroker == kafka


def _listed(answer: Any, prefix: str) -> Any:
    """Without the groups of others, who use the same Kafka."""
    return {**answer, "groups": [group for group in answer["groups"] if group["group_id"].startswith(prefix)]}


@pytest.mark.parametrize("version", range(3))
def test_deleting_groups(both: list[Broker], version: int) -> None:
    groups = [f"{state}-{version}" for state in ("x-none", "x-simple", "x-stable")]
    for broker in both:
        for group in groups:
            coordinate(broker, group)
        broker.ask(commit(broker, 9, groups[1], (TOPIC, [0, 1])), 9)
        join(broker, groups[2])
    request = DeleteGroupsRequest(groups_names=[*groups, groups[1]])
    for _ in range(2):
        kafka, refbroker = answers(both, lambda broker: request, version)
        assert refbroker == kafka
    kafka, refbroker = answers(both, lambda broker: fetch(broker, 8, groups[1], None), 8)
    assert refbroker == kafka


def _has_offsets_of_one_topic(broker: Broker, group: str) -> bool:
    return len(broker.ask(fetch(broker, 9, group, None), 9).groups[0].topics) == 1


def test_offsets_of_a_topic_that_is_deleted_and_created_again(both: list[Broker]) -> None:
    group, topic = "again", "group-differences-again"
    for broker in both:
        coordinate(broker, group)
        _make_topics(broker, topic)
        committed = broker.ask(commit(broker, 10, group, (topic, [0]), (TOPIC, [0])), 10)
        assert [one.partitions[0].error_code for one in committed.topics] == [0, 0]
        state = DeleteTopicsRequest.DeleteTopicState(name=topic)
        assert broker.ask(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6).responses[0].error_code == 0
        # Kafka's coordinator learns of it a little later.
        wait_until(partial(_has_offsets_of_one_topic, broker, group))
        _make_topics(broker, topic)
    for version in (9, 10):
        for topics in (None, [(topic, [0]), (TOPIC, [0])]):

            def make(broker: Broker, topics: Any = topics, version: int = version) -> Fetch:
                return fetch(broker, version, group, topics)

            kafka, refbroker = answers(both, make, version)
            assert refbroker == kafka, (version, topics)


@pytest.mark.usefixtures("needs_kafka")
def test_the_log_is_the_same_but_for_times_and_ids(tmp_path: Path) -> None:
    one_partition = {"offsets.topic.num.partitions": "1"}
    kafka = KafkaCluster(directory=tmp_path / "kafka", config=one_partition)
    with kafka:
        _write_records(kafka.bootstrap_servers)
    refbroker = BrokerProcess(tmp_path / "data", settings=one_partition)
    with refbroker:
        _write_records(refbroker.bootstrap_servers)
    stored = [_stored(directory) for directory in (kafka.data_directory(), refbroker.data_directory)]
    assert stored[0] == stored[1]
    assert [len(records) for _, records in stored[0]] == [2, 1, 1, 1, 4]


def _write_records(bootstrap_servers: str) -> None:
    """Two offsets, one by a topic's id, one with a time to go; one is deleted, then the group."""
    group = "g"
    with Wire(bootstrap_servers) as wire:
        broker = Broker("one of the two", wire, {})
        _make_topics(broker, TOPIC, OTHER)
        coordinate(broker, group)
        broker.ask(commit(broker, 8, group, (TOPIC, [0, 1])), 8)
        broker.ask(commit(broker, 10, group, (OTHER, [1])), 10)
        broker.ask(commit(broker, 3, group, (OTHER, [0]), retention_time_ms=5_000), 3)
        partition = Delete.OffsetDeleteRequestPartition(partition_index=1)
        topic = Delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[partition])
        broker.ask(Delete(group_id=group, topics=[topic]), 0)
        broker.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def _stored(directory: Path) -> list[Any]:
    """The batches: their headers, and the records in an order of their own."""
    [path] = [log for log in directory.glob("__consumer_offsets-*/*.log") if log.stat().st_size]
    found = []
    for batch in read_batches(path.read_bytes()):
        records = []
        for record in batch.records("__consumer_offsets", 0):
            value = record.value
            if value is not None:
                _, decoded = decode_record(record.key or b"", value, "__consumer_offsets")
                assert isinstance(decoded, OffsetCommitValue)
                kept = decoded.expire_timestamp - decoded.commit_timestamp if decoded.expire_timestamp >= 0 else None
                offset = (decoded.offset, decoded.leader_epoch, decoded.metadata, kept, decoded.topic_id.int != 0)
                value = repr((value[:2], len(value), offset)).encode()
            records.append((record.key, value))
        header = (
            batch.base_offset, batch.next_offset, batch.size_in_bytes, batch.partition_leader_epoch, batch.producer_id,
            batch.producer_epoch, batch.base_sequence, batch.is_transactional, batch.compression_type,
        )  # fmt: skip
        found.append((header, sorted(records, key=repr)))
    return found
