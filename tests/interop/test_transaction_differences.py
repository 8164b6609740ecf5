"""The same transactional requests to Apache Kafka and to refbroker: what is answered, and what is in the partitions.

Producer ids are compared by when they were given out, times not at all. Kafka completes a transaction after it has
answered; each play waits for that where it makes a difference. A difference is a bug in refbroker unless it is
explained here:

- With records that no client may send refbroker tells what is wrong with them, Kafka the code alone; and of those that
  are no whole batch refbroker's log, which says where it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.records import COMMIT, control_batch
from tests.interop.transaction_plays import TransactionPlay, differences, two_coordinators
from tests.support.raw_producer import TIMESTAMP_MS, RawProducer, produce_request
from tests.support.waiting import wait_until

INT32_MAX = 2**31 - 1


@pytest.fixture(scope="module")
def both(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with two_coordinators(tmp_path_factory.mktemp("transactions")) as pair:
        yield pair


Compare = Callable[[Callable[[TransactionPlay], None]], None]


@pytest.fixture
def compare(both: tuple[str, str], request: pytest.FixtureRequest) -> Compare:
    name = request.node.name.replace("[", "-").rstrip("]")

    def run(play: Callable[[TransactionPlay], None]) -> None:
        different = differences(both, name, play)
        assert not different, "\n".join(different)

    return run


def begin(play: TransactionPlay, producer: RawProducer, *partitions: int) -> None:
    """What producers of version 1 have to do before they send records."""
    if not producer.is_v2:
        assert producer.add(play.topic, *partitions or (0,)) is not None


# Records


@pytest.mark.parametrize("transactions", [1, 2])
def test_transactions_that_are_committed_and_aborted(compare: Compare, transactions: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=transactions)
        for commit in (True, False, True, False):
            begin(at, producer, 0, 1)
            producer.send(at.topic, b"a", b"b")
            producer.send(at.topic, b"c", partition=1)
            at.offsets()
            at.producers()
            at.read(committed=True)
            producer.send(at.topic, b"d")
            at.end_transaction(producer, commit=commit)
            at.offsets()
            at.producers()
        for partition in (0, 1):
            at.read(committed=True, partition=partition)
            at.read(committed=False, partition=partition)
        at.read(committed=True, offset=6)

    compare(play)


def test_transactions_that_overlap(compare: Compare) -> None:
    def play(at: TransactionPlay) -> None:
        one, two, plain = at.new("one"), at.new("two"), at.new(idempotent=True)
        one.send(at.topic, b"1")
        two.send(at.topic, b"2")
        plain.send(at.topic, b"3")
        at.end_transaction(two, commit=False)
        at.read(committed=True)
        at.offsets()
        at.end_transaction(one, commit=False)
        at.read(committed=True)
        two.send(at.topic, b"4")
        at.read(committed=True)
        at.end_transaction(two, commit=True)
        at.read(committed=True, offset=2)

    compare(play)


@pytest.mark.parametrize("version", [3, 9, 10, 11, 12])
def test_records_of_unknown_transactions(compare: Compare, version: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=1)
        producer.send(at.topic, version=version)
        producer.add(at.topic, 1)
        producer.send(at.topic, version=version)
        producer.send(at.topic, partition=1, version=version)
        for fields in ({"producer_epoch": 5}, {"producer_id": 4711}, {"producer_id": 4711, "producer_epoch": 1}):
            producer.send(at.topic, partition=1, version=version, **fields)
        unknown = RawProducer(at.ask, "nobody")
        unknown.producer_id, unknown.epoch = producer.producer_id, 0
        unknown.send(at.topic, partition=0, version=version)
        nobody = RawProducer(at.ask, "")
        nobody.producer_id, nobody.epoch = producer.producer_id, 0
        nobody.send(at.topic, partition=0, version=version)
        at.end_transaction(producer, commit=True)
        # Its end is known here, too.
        producer.send(at.topic, partition=1, version=version)
        at.read(committed=False, partition=1)
        at.producers()

    compare(play)


@pytest.mark.parametrize("transactions", [1, 2])
def test_a_producer_that_another_one_has_fenced(compare: Compare, transactions: int) -> None:
    def play(at: TransactionPlay) -> None:
        old = at.new(transactions=transactions)
        begin(at, old)
        old.send(at.topic, b"old")
        new = RawProducer(at.ask, old.transactional_id, transactions=transactions)
        new.init()
        at.settle(new)
        at.read(committed=True)
        for version in (9, 10, 11, 12):
            old.send(at.topic, version=version)
            old.send(at.topic, partition=1, version=version)
        for version in (0, 1, 2, 3):
            old.add(at.topic, version=version)
            old.add_offsets(at.group, version=version)
        for version in (0, 1, 2, 3, 4, 5):
            old.commit_offsets(at.group, {(at.topic, 0): 1}, version=version)
            old.end(commit=True, version=version)
        begin(at, new)
        new.send(at.topic, b"new")
        at.end_transaction(new, commit=True)
        at.read(committed=True)

    compare(play)


@pytest.mark.parametrize("transactions", [0, 1, 2])
def test_sequences(compare: Compare, transactions: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=transactions or 1, idempotent=not transactions)
        if transactions:
            begin(at, producer, 0, 1)
        # The first one is not 0.
        producer.send(at.topic, sequence=7)
        producer.send(at.topic, partition=1, sequence=0)
        for sequence in (8, 9, 9, 11, 10, 11, 12, 13, 14, 8, 9, 10, 14, 16, 15):
            producer.send(at.topic, b"x", sequence=sequence)
        producer.send(at.topic, b"two", b"records", sequence=15)
        producer.send(at.topic, b"two", b"records", sequence=14)
        # The same epoch continues in the next transaction of version 1, another begins.
        if transactions:
            at.end_transaction(producer, commit=True)
            begin(at, producer)
        producer.send(at.topic, sequence=1)
        producer.send(at.topic, sequence=16)
        producer.send(at.topic, sequence=0)
        # An epoch that nobody has given out; of transactions the coordinator knows.
        for sequence in (3, 0, 1):
            producer.send(at.topic, sequence=sequence, producer_epoch=producer.epoch + 1)
        producer.send(at.topic, sequence=17)
        at.producers()
        at.read(committed=False)

    compare(play)


@pytest.mark.parametrize("transactions", [0, 1])
def test_sequences_that_wrap(compare: Compare, transactions: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=1, idempotent=not transactions)
        if transactions:
            begin(at, producer)
        producer.send(at.topic, b"a", b"b", sequence=INT32_MAX - 2)
        producer.send(at.topic, b"c", b"d", b"e", sequence=INT32_MAX)
        producer.send(at.topic, b"c", b"d", b"e", sequence=INT32_MAX)
        producer.send(at.topic, sequence=1)
        producer.send(at.topic, sequence=2)
        at.producers()

    compare(play)


@pytest.mark.parametrize("version", [9, 11, 12])
def test_requests_that_no_producer_makes(compare: Compare, version: int) -> None:
    def play(at: TransactionPlay) -> None:
        one, two = at.new("one"), at.new("two")

        def send(*batches: bytes, transactional_id: str | None) -> None:
            parts = [
                ProduceRequest.PartitionProduceData(index=number, records=records)
                for number, records in enumerate(batches)
            ]
            topic = ProduceRequest.TopicProduceData(name=at.topic, partition_data=parts)
            request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[topic])
            at.ask(request, version)

        first, second = one.batch(at.topic, b"v"), two.batch(at.topic, b"v", partition=1)
        send(first, transactional_id=None)
        send(first, second, transactional_id="one")
        send(one.batch(at.topic, b"v", is_transactional=False), second, transactional_id=two.transactional_id)
        send(first[:-3], transactional_id=one.transactional_id)
        marker = control_batch(
            COMMIT, producer_id=one.producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=TIMESTAMP_MS
        )
        send(marker, transactional_id=one.transactional_id)
        # Not part of the transaction, though one is open.
        two.send(at.topic, partition=1, sequence=1, is_transactional=False)
        two.send(at.topic, partition=1, sequence=1)
        for topic in ("__transaction_state", "__consumer_offsets"):
            at.ask(produce_request(topic, one.batch(topic, b"v", is_transactional=False)), version)
        at.producers()

    compare(play)


# Markers


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_markers(compare: Compare, transaction_version: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=1)
        plan = [
            # Epoch, coordinator's epoch.
            (0, 0), (0, 0), (1, 0), (1, 0), (0, 0), (1, 3), (1, 2), (3, 3), (2, 3),
        ]  # fmt: skip
        for number, (epoch, coordinator_epoch) in enumerate(plan):
            if number in (0, 3, 5):
                producer.add(at.topic)
                producer.send(at.topic, version=11)
            producer.mark(
                (at.topic, 0), (at.topic, 9), ("nothing", 0),
                producer_epoch=epoch, coordinator_epoch=coordinator_epoch, transaction_version=transaction_version,
            )  # fmt: skip
            at.offsets()
            at.producers()
        producer.mark((at.topic, 1), producer_id=4711, producer_epoch=7, transaction_version=transaction_version)
        producer.mark((at.topic, 1), producer_id=4711, producer_epoch=7, version=1)
        producer.mark(commit=True)
        at.read(committed=True)
        at.read(committed=False, partition=1)
        at.producers()

    compare(play)


@pytest.mark.parametrize("transactions", [1, 2])
def test_a_marker_behind_a_later_epoch_stays_refused(compare: Compare, transactions: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=transactions)
        producer.send(at.topic, sequence=0, producer_epoch=3, is_transactional=False)
        producer.add(at.topic, 0, 1)
        producer.end(commit=True)
        # One request has both markers.
        wait_until(lambda: at.ends(1)[0].offset == 1)
        at.offsets()
        at.producers()
        assert at.state(producer) == "PrepareCommit"

    compare(play)


# Offsets


@pytest.mark.parametrize("transactions", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_their_transaction_is_committed(compare: Compare, transactions: int, commit: bool) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=transactions)
        places = {(at.topic, 0): 5, (at.topic, 1): 6}
        for round_ in (commit, commit, not commit):
            if transactions == 1:
                producer.commit_offsets(at.group, places)
                producer.add_offsets(at.group)
            producer.commit_offsets(at.group, places)
            at.committed()
            at.end_transaction(producer, commit=round_)
            at.committed()
            places = {(at.topic, 0): 50}

    compare(play)


@pytest.mark.parametrize("version", range(6))
def test_offsets_that_are_refused(compare: Compare, version: int) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new(transactions=2 if version == 5 else 1)

        def commit(**fields: Any) -> None:
            group = fields.pop("group", at.group)
            places = fields.pop("places", {(at.topic, 0): 1})
            producer.commit_offsets(group, places, version=version, **fields)

        commit()
        commit(group="")
        producer.add_offsets(at.group, version=3)
        commit(places={(at.topic, 0): 1, (at.topic, 9): 1, ("nothing", 0): 1})
        commit(places={("nothing", 0): 1})
        commit(metadata="x" * 5000)
        commit(metadata=None)
        commit(producer_epoch=4)
        commit(producer_id=4711)
        commit(transactional_id="nobody")
        commit(transactional_id="")
        if version >= 3:
            commit(generation_id=3)
            commit(generation_id=3, member_id="m")
            commit(member_id="m")
            commit(group_instance_id="i")
        at.committed()
        at.end_transaction(producer, commit=True, version=None if version == 5 else 3)
        at.committed()

    compare(play)


def test_offsets_of_members(compare: Compare) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new()
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=[at.topic]), 0)
        joined = at.ask_quietly(
            JoinGroupRequest(
                group_id=at.group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)],
            ),
            3,
        )
        member, generation = joined.member_id, joined.generation_id
        place = {(at.topic, 0): 1}
        for synced in (False, True):
            if synced:
                assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
                at.ask(
                    SyncGroupRequest(
                        group_id=at.group, generation_id=generation, member_id=member, assignments=[assignment]
                    ),
                    3,
                )
            producer.commit_offsets(at.group, place)
            producer.commit_offsets(at.group, place, member_id=member, generation_id=generation)
            producer.commit_offsets(at.group, place, member_id=member, generation_id=generation + 1)
            producer.commit_offsets(at.group, place, member_id=member)
            producer.commit_offsets(at.group, place, member_id="stranger", generation_id=generation)
            producer.commit_offsets(at.group, place, generation_id=generation)
            producer.commit_offsets(
                at.group, place, member_id=member, generation_id=generation, group_instance_id="nobody"
            )
        at.end_transaction(producer, commit=True)
        at.committed()

    compare(play)


def test_offsets_of_members_of_a_consumer_group(compare: Compare) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new()
        place = {(at.topic, 0): 1}

        def beat(epoch: int, **fields: Any) -> int:
            request = ConsumerGroupHeartbeatRequest(group_id=at.group, member_id="m", member_epoch=epoch, **fields)
            answer = at.ask_quietly(request, 1)
            assert answer.error_code == 0
            return int(answer.member_epoch)

        epoch = beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=[at.topic], topic_partitions=[])
        for member, generation in (("m", epoch), ("m", epoch + 1), ("m", epoch - 1), ("m", -1), ("n", epoch), ("", 1)):
            producer.commit_offsets(at.group, place, member_id=member, generation_id=generation)
        producer.commit_offsets(at.group, place)
        at.end_transaction(producer, commit=True)
        at.committed()

    compare(play)


def test_offsets_and_groups_that_are_deleted_under_a_transaction(compare: Compare) -> None:
    def play(at: TransactionPlay) -> None:
        producer = at.new()

        def delete_offset() -> None:
            one = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
            topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=at.topic, partitions=[one])
            at.ask(OffsetDeleteRequest(group_id=at.group, topics=[topic]), 0)

        for delete in (delete_offset, lambda: at.ask(DeleteGroupsRequest(groups_names=[at.group]), 2)):
            producer.commit_offsets(at.group, {(at.topic, 0): 1, (at.topic, 1): 2})
            delete()
            at.committed()
            at.end_transaction(producer, commit=True)
            at.committed()

    compare(play)
