"""What has broken groups elsewhere: connections, coordinators, topics, applications that fail in the wrong moment."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin
from kclient.consumer import AsyncConsumer
from kclient.errors import CommitFailedError, KafkaError, RebalanceInProgressError, RetriableCommitFailedError
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.conftest import Broker
from tests.integration.seeding import Seeder
from tests.integration.test_groups import QUICK, SECONDS, Group, Member, fill
from tests.interop.kafka.cluster import KafkaCluster
from tests.waiting import wait_until

STRATEGIES = pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])


@pytest.fixture
def seed(bootstrap_servers: str) -> Iterator[Seeder]:
    with Seeder(bootstrap_servers) as seeder:
        yield seeder


@pytest.fixture
def group(bootstrap_servers: str, topic: str) -> Iterator[Group]:
    group = Group(bootstrap_servers, topic)
    yield group
    for member in group.members:
        member.consumer.close(5.0)


@pytest.fixture
def troubled() -> Iterator[RefBroker]:
    """A broker of the test's own, to be troubled."""
    with RefBroker() as running:
        yield running


@pytest.fixture
def own(troubled: RefBroker) -> Iterator[tuple[Group, Seeder]]:
    """A group on it, with a topic of four partitions of fifty records each."""
    group = Group(troubled.bootstrap_servers, "t")
    with Seeder(troubled.bootstrap_servers) as seeder:
        seeder.create("t", partitions=4)
        fill(seeder, "t", 4, 0, 50)
        yield group, seeder
        for member in group.members:
            member.consumer.close(5.0)


def read_values(group: Group) -> list[bytes]:
    return [value for member in group.members for value in member.values]


# Connections and coordinators


@pytest.mark.refbroker_only
@pytest.mark.parametrize("when", ["before", "after"])
def test_heartbeat_in_flight_when_the_connection_drops_changes_nothing(
    troubled: RefBroker, own: tuple[Group, Seeder], when: Any
) -> None:
    group, seeder = own
    first, second = group.join(), group.join()
    group.settle(2, 2)
    heard = [list(member.log.heard) for member in (first, second)]
    fault = troubled.faults.cut("Heartbeat", when=when, count=4)
    wait_until(lambda: fault.fired >= 4)
    fill(seeder, "t", 4, 50, 50)
    group.poll_until(lambda: len(read_values(group)) >= 400)
    assert [member.log.heard for member in (first, second)] == heard
    assert max(Counter(read_values(group)).values()) == 1


@pytest.mark.refbroker_only
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"])
def test_coordinator_that_answers_not_coordinator_again_and_again_recovers(
    troubled: RefBroker, own: tuple[Group, Seeder], api: str
) -> None:
    group, _ = own
    fault = troubled.faults.fail(api, error="NOT_COORDINATOR", count=12)
    group.join()
    group.join()
    group.settle(2, 2)
    group.poll_until(lambda: len(read_values(group)) >= 200)
    group.poll_until(lambda: fault.fired >= 12)
    for member in list(group.members):
        group.leave(member)
    rest = group.join()
    group.settle(4)
    assert not rest.values, "everything was committed in spite of it"


@pytest.mark.timeout(120)
@STRATEGIES
def test_coordinator_that_restarts_in_the_middle_of_a_rebalance_ends_it(
    broker: Broker, group: Group, seed: Seeder, topic: str, strategy: str
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 50)
    first = group.join(partition_assignment_strategy=strategy)
    group.settle(4)
    group.poll_until(lambda: len(first.values) == len(expected))
    first.consumer.commit()
    second = group.join(partition_assignment_strategy=strategy)
    # The newcomer waits for the first one, which is told and not let take part: the rebalance is under way.
    joining = threading.Thread(target=second.poll, args=(2.0,))
    joining.start()
    assert first.consumer._core.group is not None
    events = first.consumer._core.group.coordination._events
    wait_until(lambda: events)
    if isinstance(broker, RefBroker):
        broker.restart()
    elif isinstance(broker, KafkaCluster) and len(broker.node_ids) == 1:
        broker.restart(broker.node_ids[0])
        broker.wait_until_ready()
    joining.join()
    group.poll_until(lambda: sorted(len(one.partitions) for one in group.members) == [2, 2], 60.0)
    expected += fill(seed, topic, 4, 50, 50)
    group.poll_until(lambda: len(read_values(group)) >= len(expected), 60.0)
    assert Counter(read_values(group)) == Counter(expected)


# Rebalances


@STRATEGIES
def test_every_partition_still_flows_after_repeated_rebalances(
    group: Group, seed: Seeder, topic: str, strategy: str
) -> None:
    seed.create(topic, partitions=6)
    expected = fill(seed, topic, 6, 0, 10)
    for _ in range(3):
        group.join(partition_assignment_strategy=strategy)
    group.settle(2, 2, 2)
    for number in range(8):
        member = group.members[number % 3]
        rebalances = len(member.log.heard)
        member.consumer.enforce_rebalance("a test")
        group.poll_until(lambda member=member, rebalances=rebalances: len(member.log.heard) > rebalances)  # type: ignore[misc]
        expected += fill(seed, topic, 6, 10 * (number + 1), 10)
    group.settle(2, 2, 2)
    group.poll_until(lambda: len(read_values(group)) >= len(expected))
    assert Counter(read_values(group)) == Counter(expected)


@STRATEGIES
def test_asynchronous_commits_in_flight_when_the_generation_changes_are_told_in_order_and_typed(
    group: Group, seed: Seeder, topic: str, strategy: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 500)
    told: list[tuple[int, KafkaError | None]] = []
    first = group.join(partition_assignment_strategy=strategy, enable_auto_commit=False, max_poll_records=3)
    group.settle(2)
    others: list[Member] = []
    number = 0

    def commit() -> None:
        nonlocal number
        first.poll(0.0)
        for _ in range(5):
            sent, number = number, number + 1
            first.consumer.commit_async(callback=lambda offsets, error, sent=sent: told.append((sent, error)))

    for _ in range(3):
        others.append(group.join(partition_assignment_strategy=strategy, enable_auto_commit=False))
        deadline = time.monotonic() + SECONDS
        while len(first.partitions) != 1:
            assert time.monotonic() < deadline
            commit()
            others[-1].poll(0.01)
        group.leave(others[-1])
        while len(first.partitions) != 2:
            assert time.monotonic() < deadline
            commit()
    first.consumer.commit({})
    assert [sent for sent, _ in told] == list(range(number))
    allowed = (RebalanceInProgressError, CommitFailedError, RetriableCommitFailedError)
    assert all(error is None or isinstance(error, allowed) for _, error in told)
    assert sum(error is None for _, error in told) >= 5


def test_partition_that_was_paused_and_comes_back_starts_unpaused_at_the_committed_offset(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=1)
    fill(seed, topic, 1, 0, 30)
    options = {"enable_auto_commit": False, "partition_assignment_strategy": "cooperative-sticky"}
    first = group.join(**options)
    group.settle(1)
    tp = TopicPartition(topic, 0)
    group.poll_until(lambda: len(first.values) >= 10)
    first.consumer.pause(tp)
    # The subscription ends without a word about what was read; the other one commits in the meantime.
    first.consumer.unsubscribe()
    assert not first.consumer.assignment()
    second = group.join(**options)
    group.members.remove(first)
    group.settle(1)
    second.consumer.commit({tp: 20})
    group.leave(second)
    group.members.append(first)
    first.values.clear()
    first.consumer.subscribe(topic, listener=first.log)
    group.poll_until(lambda: len(first.values) >= 10)
    assert not first.consumer.paused()
    assert first.values == [b"0-%d" % number for number in range(20, 30)]


def test_poll_interval_that_ends_during_a_rebalance_lets_the_others_go_on(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    slow = group.join(max_poll_interval_ms=1_500)
    group.settle(2)
    other = group.join()
    group.members.remove(slow)
    # The slow one is told of the rebalance, and does not poll.
    group.poll_until(lambda: len(other.partitions) == 2)
    with pytest.raises(KafkaError, match="max_poll_interval_ms"):
        slow.poll()
    assert slow.log.heard[-1] == ("lost", {0, 1})
    group.members.append(slow)
    group.settle(1, 1)


# Positions


def test_pause_with_fetched_records_hands_out_none_of_them_until_resume_and_skips_none(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 200)
    member = group.join(max_poll_records=5)
    group.poll_until(lambda: len(member.values) >= 20)
    paused = TopicPartition(topic, 0)
    member.consumer.pause(paused)
    before = [value for value in member.values if value.startswith(b"0-")]
    group.poll_until(lambda: sum(value.startswith(b"1-") for value in member.values) == 200)
    assert [value for value in member.values if value.startswith(b"0-")] == before
    member.consumer.resume(paused)
    group.poll_until(lambda: len(member.values) >= len(expected))
    assert Counter(member.values) == Counter(expected)


def test_seek_of_a_paused_partition_holds_when_it_is_resumed(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=1)
    fill(seed, topic, 1, 0, 100)
    member = group.join(max_poll_records=5)
    group.poll_until(lambda: len(member.values) >= 10)
    tp = TopicPartition(topic, 0)
    member.consumer.seek(tp, 90)
    member.consumer.pause(tp)
    for _ in range(5):
        assert not member.consumer.poll(0.02)
    assert member.consumer.position(tp) == 90
    member.consumer.resume(tp)
    member.values.clear()
    group.poll_until(lambda: len(member.values) >= 10)
    assert member.values == [b"0-%d" % number for number in range(90, 100)]


@pytest.mark.timeout(120)
def test_topic_that_is_deleted_and_created_anew_is_read_from_its_beginning(
    bootstrap_servers: str, group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 30)
    # Else the member itself may make the topic anew, with as many partitions as the broker likes.
    member = group.join(metadata_max_age_ms=300, allow_auto_create_topics=False)
    group.poll_until(lambda: len(member.values) == 60)
    member.consumer.commit()
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.delete_topics([topic])
        group.poll_until(lambda: topic not in admin.list_topics())
    member.values.clear()

    def created() -> bool:
        try:
            seed.create(topic, partitions=2)
        except AssertionError:
            member.poll()
            return False
        return True

    group.poll_until(created)
    expected = fill(seed, topic, 2, 1000, 5)
    group.poll_until(lambda: len(member.values) >= 10, 60.0)
    assert Counter(member.values) == Counter(expected)


@STRATEGIES
@pytest.mark.timeout(120)
def test_topic_that_is_gone_holds_up_no_other_and_leaves_its_offsets_to_no_successor(
    bootstrap_servers: str, group: Group, seed: Seeder, topic: str, strategy: str
) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        seed.create(name, partitions=2)
        fill(seed, name, 2, 0, 30)
    member = group.join(
        [topic, other],
        metadata_max_age_ms=300,
        allow_auto_create_topics=False,
        partition_assignment_strategy=[strategy],
    )
    group.poll_until(lambda: len(member.values) == 120)
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.delete_topics([topic])
    group.poll_until(lambda: {tp.topic for tp in member.consumer.assignment()} == {other})
    member.values.clear()
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 1000, 5)
    group.poll_until(lambda: len(member.values) >= 10)
    assert Counter(member.values) == Counter(expected)


# Applications


@pytest.mark.slow
async def test_application_that_blocks_its_event_loop_for_longer_than_the_session_stays_a_member(
    bootstrap_servers: str, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 20)
    options: Any = {**QUICK, "session_timeout_ms": 6_000}
    async with AsyncConsumer(
        topic, bootstrap_servers=bootstrap_servers, group_id=topic, auto_offset_reset="earliest", **options
    ) as consumer:
        values: list[bytes | None] = []
        while len(values) < 10:
            values += [record.value for record in await consumer.poll(1.0, max_records=5)]
        before = consumer.group_metadata()
        time.sleep(options["session_timeout_ms"] / 1000 + 1.5)  # noqa: ASYNC251 - this is what the test is about
        while len(values) < 40:
            values += [record.value for record in await consumer.poll(1.0)]
        assert consumer.group_metadata() == before
        assert len(set(values)) == 40
