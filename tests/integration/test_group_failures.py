"""What has broken groups elsewhere: connections, coordinators and rebalances that fail in the wrong moment.

Omits positions (`test_group_positions`) and applications (`test_group_applications`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kclient import Admin, NewTopic, Producer
from kclient.consumer.group.classic.states import MemberState
from kclient.consumer.group.consumer_protocol.states import ConsumerState
from kclient.errors import CommitFailedError, KafkaError, RebalanceInProgressError, RetriableCommitFailedError
from kclient.protocol import API_NAMES, Message
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from refbroker.testing import RefBroker
from tests.conftest import SETTINGS, Broker
from tests.integration.consumers import EVERY_WAY, Group, Member, fill
from tests.integration.unruly_network import REQUESTS, Cuts
from tests.support import clock
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import ANSWER, CHANGE, PROCESS
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until

HEARTBEATS: dict[str, type[Message]] = {"classic": HeartbeatRequest, "consumer": ConsumerGroupHeartbeatRequest}
EVERY_REQUEST = pytest.mark.parametrize(
    ("group_protocol", "request_type"),
    [(protocol, kind) for protocol, kinds in REQUESTS.items() for kind in kinds],
    indirect=["group_protocol"],
    ids=[f"{protocol}-{API_NAMES[kind.api_key]}" for protocol, kinds in REQUESTS.items() for kind in kinds],
)


@pytest.fixture
def failing() -> Iterator[RefBroker]:
    """Yield a broker for tests that inject faults."""
    with RefBroker(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def own(failing: RefBroker, group_protocol: str, strategy: str | None) -> Iterator[Group]:
    """A group on it, with a topic of four partitions of fifty records each."""
    group = Group(failing.bootstrap_servers, "t", group_protocol, strategy)
    with Seeder(failing.bootstrap_servers) as seeder:
        seeder.create("t", partitions=4)
        fill(seeder, "t", 4, 0, 50)
    yield group
    group.close()


# Connections and coordinators


@EVERY_WAY
@pytest.mark.parametrize("when", ["before", "after"])
def test_heartbeat_in_flight_when_the_connection_drops_changes_nothing(
    cuts: Cuts, group: Group, seed: Seeder, topic: str, when: str
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 50)
    first, second = group.join(), group.join()
    group.settle(2, 2)
    heard = [list(member.log.heard) for member in (first, second)]
    cuts.at(HEARTBEATS[group.protocol], when, 4)
    group.poll_until(lambda: cuts.done >= 4)
    expected += fill(seed, topic, 4, 50, 50)
    group.poll_until(lambda: len(group.values) >= len(expected))
    assert [member.log.heard for member in (first, second)] == heard
    assert Counter(group.values) == Counter(expected)


@EVERY_REQUEST
@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_that_drops_at_each_kind_of_request_loses_and_doubles_nothing(
    cuts: Cuts, group: Group, seed: Seeder, topic: str, request_type: type[Message], when: str
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 50)
    cuts.at(request_type, when, 2)
    group.join()
    group.join()
    group.settle(2, 2)
    group.poll_until(lambda: len(group.values) >= len(expected))
    group.poll_until(lambda: cuts.done == 2 or request_type is LeaveGroupRequest)
    assert Counter(group.values) == Counter(expected)
    for member in list(group.members):
        group.leave(member)
    assert cuts.done == 2
    rest = group.join()
    group.settle(4)
    late = fill(seed, topic, 4, 50, 1)
    group.poll_until(lambda: len(rest.values) >= len(late))
    assert Counter(rest.values) == Counter(late), "everything was committed in spite of it"


@pytest.mark.refbroker_only
@EVERY_REQUEST
def test_coordinator_that_answers_not_coordinator_again_and_again_recovers(
    failing: RefBroker, own: Group, request_type: type[Message]
) -> None:
    error = "NOT_COORDINATOR" if request_type is not FindCoordinatorRequest else "COORDINATOR_NOT_AVAILABLE"
    fault = failing.faults.fail(request_type.api_key, error=error, count=12)
    quick = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100}
    own.join(**quick)
    own.join(**quick)
    own.settle(2, 2)
    own.poll_until(lambda: len(own.values) >= 200)
    for member in list(own.members):
        own.leave(member)
    rest = own.join(**quick)
    own.settle(4)
    own.poll_until(lambda: fault.fired >= (12 if request_type is not LeaveGroupRequest else 2))
    assert not rest.values, "everything was committed in spite of it"


@pytest.mark.kafka3
@pytest.mark.slow
@EVERY_WAY
def test_group_continues_while_its_coordinators_stop_one_after_the_other(
    broker: KafkaCluster, group: Group, topic: str
) -> None:
    servers, name = broker.bootstrap_servers, f"group-{topic}"
    expected: list[bytes] = []
    coordinators = []
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=3)])
        for _ in range(3):
            group.join()
        group.settle(1, 1, 2)
        for number in range(3):
            node = admin.describe_groups([name])[name].coordinator.node_id
            coordinators.append(node)
            broker.stop(node)
            values = [b"%d-%d" % (number, each) for each in range(200)]
            expected += values
            for each, value in enumerate(values):
                producer.send(topic, value, partition=each % 4)
            group.poll_until(lambda number=number: len(group.values) >= 200 * (number + 1), CHANGE)  # type: ignore[misc]
            starting = threading.Thread(target=broker.start, args=(node,))
            starting.start()
            group.poll_until(lambda starting=starting: not starting.is_alive(), PROCESS)  # type: ignore[misc]
            starting.join()
    assert len(set(coordinators)) > 1
    group.settle(1, 1, 2)
    assert Counter(group.values) == Counter(expected)
    assert all(kind != "lost" for member in group.members for kind, _ in member.log.heard)


def rebalance_has_begun(member: Member) -> Callable[[], bool]:
    """Return whether a member that does not poll has to take part in a rebalance."""
    core = member.consumer._core.group
    assert core is not None
    return lambda: bool(core.mailbox)


def takes_part(member: Member) -> bool:
    """Whether a member has joined for the rebalance that is under way, and waits for the others."""
    core = member.consumer._core.group
    assert core is not None
    state: Any = core.member.state
    return state in (MemberState.PREPARING, ConsumerState.STABLE)


@EVERY_WAY
def test_coordinator_that_restarts_in_the_middle_of_a_rebalance_ends_it(
    broker: Broker, group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 50)
    first = group.join()
    group.settle(4)
    group.poll_until(lambda: len(first.values) == len(expected))
    first.consumer.commit()
    second = group.join()
    # The new member waits for the first one, which may not take part yet: the rebalance is in progress.
    joining = threading.Thread(target=second.poll, args=(2.0,))
    joining.start()
    wait_until(rebalance_has_begun(first))
    if isinstance(broker, RefBroker):
        broker.restart()
    elif isinstance(broker, KafkaCluster) and len(broker.node_ids) == 1:
        broker.restart(broker.node_ids[0])
    joining.join()
    group.poll_until(lambda: sorted(len(one.partitions) for one in group.members) == [2, 2], CHANGE)
    expected += fill(seed, topic, 4, 50, 50)
    group.poll_until(lambda: len(group.values) >= len(expected), CHANGE)
    assert Counter(group.values) == Counter(expected)


# Rebalances


@EVERY_WAY
def test_every_partition_still_flows_after_repeated_rebalances(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=6)
    expected = fill(seed, topic, 6, 0, 10)
    for _ in range(3):
        group.join()
    group.settle(2, 2, 2)
    for number in range(5):
        # Who leaves the subscription and comes back makes two rebalances of any protocol.
        member = group.members.pop(0)
        member.consumer.unsubscribe()
        if number % 2:
            group.settle(3, 3)
        member.consumer.subscribe(topic, listener=member.log)
        group.members.append(member)
        group.settle(2, 2, 2)
        expected += fill(seed, topic, 6, 10 * (number + 1), 10)
    group.poll_until(lambda: len(group.values) >= len(expected))
    assert Counter(group.values) == Counter(expected)


@EVERY_WAY
def test_asynchronous_commits_in_flight_at_a_rebalance_are_reported_in_order(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 500)
    told: list[tuple[int, KafkaError | None]] = []
    first = group.join(enable_auto_commit=False, max_poll_records=3)
    group.settle(2)
    number = 0

    def committed(sent: int, offsets: object, error: KafkaError | None) -> None:
        told.append((sent, error))

    def commit() -> None:
        nonlocal number
        first.poll(0.002)  # commits take about as long
        for _ in range(5):
            sent, number = number, number + 1
            first.consumer.commit_async(callback=partial(committed, sent))

    generations = set()
    for _ in range(3):
        generations.add(first.consumer.group_metadata().generation_id)
        other = group.join(enable_auto_commit=False)
        deadline = clock.monotonic() + ANSWER
        while len(first.partitions) != 1:
            assert clock.monotonic() < deadline
            commit()
            other.poll(0.01)
        group.leave(other)
        while len(first.partitions) != 2:
            assert clock.monotonic() < deadline
            commit()
    first.consumer.commit({})
    assert len(generations) == 3
    assert [sent for sent, _ in told] == list(range(number))
    allowed = (RebalanceInProgressError, CommitFailedError, RetriableCommitFailedError)
    assert all(error is None or isinstance(error, allowed) for _, error in told)
    assert sum(error is None for _, error in told) >= 5


@EVERY_WAY
def test_poll_interval_that_ends_during_a_rebalance_lets_the_others_continue(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    slow = group.join(max_poll_interval_ms=1_500)
    group.settle(2)
    other = group.join()
    group.members.remove(slow)
    # The slow one is notified of the rebalance, and does not poll.
    group.poll_until(lambda: len(other.partitions) == 2)
    with pytest.raises(KafkaError, match="max_poll_interval_ms"):
        slow.poll()
    assert slow.log.heard[-1][0] == "lost"
    group.members.append(slow)
    group.settle(1, 1)


@pytest.mark.parametrize(
    ("group_protocol", "strategy"),
    [("classic", "cooperative-sticky"), ("consumer", None)],
    indirect=["group_protocol"],
    ids=["cooperative-sticky", "consumer-protocol"],
)
def test_partitions_that_stay_are_never_revoked_and_read_during_the_rebalance(
    group: Group, seed: Seeder, topic: str
) -> None:
    partitions = 20
    seed.create(topic, partitions=partitions)
    for _ in range(9):
        group.join()
    group.settle(*[2] * 7, *[3] * 2)
    members = list(group.members)
    before = {member: member.partitions for member in members}
    heard = {member: len(member.log.heard) for member in members}
    # Those with one too many do not ask for records, so the rebalance for the tenth can begin, and not end.
    slow = [member for member in members if len(before[member]) == 3]
    newcomer = group.join()
    for member in slow:
        group.members.remove(member)
    begun = [rebalance_has_begun(member) for member in slow]
    group.poll_until(lambda: all(condition() for condition in begun) and all(map(takes_part, group.members)))
    read_by_others = set().union(*(before[member] for member in members if member not in slow))
    expected: list[bytes] = []
    for number in range(5):
        batch = fill(seed, topic, partitions, number, 1)
        expected += batch
        arriving = {value for value in batch if int(value.split(b"-")[0]) in read_by_others}
        group.poll_until(lambda arriving=arriving: arriving <= set(group.values))  # type: ignore[misc]
        assert not newcomer.partitions
        assert all(condition() for condition in begun)
    group.members += slow
    group.settle(*[2] * 10)
    group.poll_until(lambda: len(group.values) >= len(expected))
    assert Counter(group.values) == Counter(expected)
    moved = set()
    for member in members:
        gone = [partitions for kind, partitions in member.log.heard[heard[member] :] if kind != "assigned"]
        assert set().union(*gone) == before[member] - member.partitions
        moved |= set().union(*gone)
    assert moved == newcomer.partitions
