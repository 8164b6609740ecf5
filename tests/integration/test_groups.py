"""Members of one group: who reads what when members come, go, die and come back; no record is lost or doubled."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.consumer.group.listener import RebalanceListener
from kclient.errors import (
    ConcurrentUseError,
    FencedInstanceIdError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    MaxPollIntervalExceededError,
    WakeupError,
)
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.integration.consumers import CLASSIC, EVERY_WAY, Group, Log, fill
from tests.support import clock
from tests.support.patience import ANSWER, NEVER_MS
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until


@CLASSIC
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_and_take_over_in_order_without_losing_or_repeating_a_record(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=6)
    expected = fill(seed, topic, 6, 0, 50)
    first = group.join()
    group.settle(6)
    group.poll_until(lambda: len(first.values) >= 100)
    second = group.join()
    group.settle(3, 3)
    expected += fill(seed, topic, 6, 50, 50)
    group.poll_until(lambda: len(first.values) + len(second.values) >= 600)
    group.leave(first)
    group.settle(6)
    expected += fill(seed, topic, 6, 100, 10)
    group.poll_until(lambda: len(first.values) + len(second.values) >= 660)
    assert Counter(first.values + second.values) == Counter(expected)
    assert not first.log.owned
    assert all(kind != "lost" for kind, _ in first.log.heard + second.log.heard)


@CLASSIC
def test_cooperative_members_give_up_only_what_moves(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=6)
    fill(seed, topic, 6, 0, 10)
    first = group.join(partition_assignment_strategy=["cooperative-sticky"])
    group.settle(6)
    second = group.join(partition_assignment_strategy=["cooperative-sticky"])
    group.settle(3, 3)
    revoked = set().union(*(partitions for kind, partitions in first.log.heard if kind == "revoked"))
    assert revoked == second.partitions
    assert len(revoked) == 3
    assert first.log.owned == first.consumer.assignment()


@CLASSIC
def test_members_go_over_from_eager_to_cooperative_one_by_one(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=4)
    steps = ["range", "range,cooperative-sticky", "cooperative-sticky"]
    for strategy in steps:
        for _ in range(2):
            if len(group.members) == 2:
                group.leave(group.members[0])
            group.join(partition_assignment_strategy=strategy)
            group.settle(*([2, 2] if len(group.members) == 2 else [4]))
    assert all(one.consumer._core.group.coordination.strategy.cooperative for one in group.members)  # type: ignore[union-attr]


@CLASSIC
def test_members_without_an_assignor_in_common_are_notified(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=1)
    group.join(partition_assignment_strategy="range")
    group.settle(1)
    other = group.join(partition_assignment_strategy="roundrobin")
    with pytest.raises(InconsistentGroupProtocolError):
        group.poll_until(lambda: other.partitions)
    group.members.remove(other)
    other.consumer.close(5.0)


def test_partitions_of_a_member_that_dies_go_to_others_when_its_session_is_over(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 20)
    first, second = group.join(), group.join()
    group.settle(2, 2)
    group.poll_until(lambda: len(first.values) + len(second.values) == len(expected))
    started = clock.monotonic()
    group.die(first)
    expected += fill(seed, topic, 4, 20, 20)
    group.settle(4)
    assert clock.monotonic() - started > 3.0
    group.poll_until(lambda: set(expected) <= set(first.values + second.values))


@CLASSIC
def test_static_member_gets_its_partitions_back_without_a_rebalance(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=4)
    first, second = group.join(group_instance_id="a"), group.join(group_instance_id="b")
    group.settle(2, 2)
    had, heard = second.partitions, len(first.log.heard)
    group.leave(second)
    second = group.join(group_instance_id="b")
    group.settle(2, 2)
    assert second.partitions == had
    assert len(first.log.heard) == heard
    # The leader came back, and keeps watching over the topics.
    had = first.partitions
    group.leave(first)
    first = group.join(group_instance_id="a", metadata_max_age_ms=300)
    group.settle(2, 2)
    assert first.partitions == had
    seed.grow(topic, 6)
    for member in group.members:
        member.consumer._core.engine.metadata.request_update()
    group.settle(3, 3)
    group.leave(second, leave_group=True)
    group.settle(6)


@CLASSIC
def test_a_static_member_with_another_subscription_causes_a_rebalance(group: Group, seed: Seeder, topic: str) -> None:
    other = f"{topic}-other"
    seed.create(topic, partitions=2)
    seed.create(other, partitions=2)
    first = group.join([topic, other], group_instance_id="a")
    group.settle(4)
    second = group.join([other], group_instance_id="b")
    group.poll_until(lambda: second.consumer.assignment())
    group.leave(second)
    second = group.join([topic], group_instance_id="b")

    def divided() -> bool:
        mine, others = first.consumer.assignment(), second.consumer.assignment()
        return len(mine) == 3 and {tp.topic for tp in others} == {topic}

    group.poll_until(divided)
    # Given its predecessor's partitions it joins again, and not again and again.
    assert second.consumer.metrics()["rebalance_total"] <= 4


@CLASSIC
def test_second_member_with_the_same_instance_id_fences_the_first(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    first = group.join(group_instance_id="a")
    group.settle(2)
    second = group.join(group_instance_id="a")
    group.members.remove(first)
    group.poll_until(lambda: len(second.partitions) == 2)
    fenced = 0
    deadline = clock.monotonic() + ANSWER
    while first.log.owned or fenced < 3:
        assert clock.monotonic() < deadline
        second.poll()
        try:
            first.poll()
        except FencedInstanceIdError:
            fenced += 1
    assert first.log.heard[-1] == ("lost", {0, 1})
    assert second.log.owned == second.consumer.assignment()
    first.consumer.close(5.0)


@CLASSIC
def test_member_that_joins_again_while_it_is_fenced_raises_so_from_poll(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    first = group.join(group_instance_id="a", heartbeat_interval_ms=10)
    group.settle(2)
    second = group.join(group_instance_id="a")
    group.members.remove(first)
    fenced = 0
    deadline = clock.monotonic() + ANSWER
    while first.log.owned or fenced < 3:
        assert clock.monotonic() < deadline
        second.poll(0.01)
        try:
            first.consumer.enforce_rebalance()
            first.poll(0.01)
        except FencedInstanceIdError:
            fenced += 1
    group.poll_until(lambda: len(second.partitions) == 2)
    first.consumer.close(5.0)


def test_pattern_lets_new_topics_join_and_omits_what_is_excluded(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(f"{topic}-a", partitions=2)
    seed.create(f"{topic}-not")
    pattern = [re.compile(re.escape(topic) + "-.*")]
    options: dict[str, Any] = {"metadata_max_age_ms": 300, "exclude": re.compile(".*-not")}
    group.join(pattern, **options)
    group.join(pattern, **options)
    group.settle(1, 1)
    seed.create(f"{topic}-b", partitions=4)
    seed.create(f"{topic}-b-not", partitions=3)
    group.settle(3, 3)
    assert group.members[0].consumer.subscription() == {f"{topic}-a", f"{topic}-b"}


def test_topic_that_grows_is_divided_again(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    group.join(metadata_max_age_ms=300)
    group.join(metadata_max_age_ms=300)
    group.settle(1, 1)
    seed.grow(topic, 6)
    group.settle(3, 3)


def test_members_beyond_the_partitions_idle_and_take_over(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    for _ in range(3):
        group.join()
    group.settle(0, 1, 1)
    group.leave(next(one for one in group.members if one.partitions))
    group.settle(1, 1)


def test_two_groups_each_get_everything(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 10)
    one, other = group.join(), group.join(group_id=f"other-{topic}")
    group.poll_until(lambda: len(one.values) == len(other.values) == 20)
    assert sorted(one.values) == sorted(other.values) == sorted(expected)


def test_change_of_the_subscription_starts_a_rebalance_and_keeps_what_stays(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(f"{topic}-a", partitions=2)
    seed.create(f"{topic}-b", partitions=2)
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"} if group.protocol == "classic" else {}
    member = group.join(f"{topic}-a", **cooperative)
    group.settle(2)
    member.consumer.pause((f"{topic}-a", 1))
    member.consumer.subscribe([f"{topic}-a", f"{topic}-b"], listener=member.log)
    group.settle(4)
    assert member.consumer.paused() == {TopicPartition(f"{topic}-a", 1)}
    # Of the second topic the coordinator of the consumer protocol may hear a moment later.
    assert [what for what in member.log.heard if what[1]] == [("assigned", {0, 1}), ("assigned", {0, 1})]
    member.consumer.unsubscribe()
    assert not member.log.owned
    assert not member.consumer.assignment()
    with pytest.raises(IllegalStateError, match="nothing to read"):
        member.consumer.poll(0.0)
    member.consumer.subscribe(f"{topic}-b", listener=member.log)
    group.settle(2)


def test_a_slow_application_loses_its_partitions_gets_one_error_and_rejoins(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 5)
    slow = group.join(max_poll_interval_ms=1_000)
    group.settle(2)
    core = slow.consumer._core.group
    assert core is not None
    # It is no longer a member a moment before it says so, and until then a poll may return records.
    wait_until(lambda: core.member.generation_now() is None and bool(core.mailbox))
    with pytest.raises(MaxPollIntervalExceededError, match=r"max_poll_interval_ms \(1000 ms\)"):
        slow.poll()
    assert slow.log.heard[-1] == ("lost", {0, 1})
    assert not slow.partitions
    group.settle(2)
    assert slow.log.heard[-1] == ("assigned", {0, 1})


@CLASSIC
def test_enforced_rebalance_runs_with_the_next_poll(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=1)
    member = group.join()
    group.settle(1)
    member.consumer.enforce_rebalance("a test wants it")
    group.poll_until(lambda: len(member.log.heard) == 3)
    assert member.log.heard == [("assigned", {0}), ("revoked", {0}), ("assigned", {0})]


def test_iteration_in_the_middle_of_a_chunk_takes_part_in_a_rebalance(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 2_000)
    slow = group.join()
    group.settle(2)
    records = iter(slow.consumer)
    slow.values += [next(records).value or b"" for _ in range(100 - len(slow.values) % 100)]
    other = group.join()
    group.members.remove(slow)
    done = threading.Event()

    def iterate() -> None:
        while not done.is_set():
            try:
                for record in records:
                    slow.values.append(record.value or b"")
                    # It takes its time, so that the rebalance comes in the middle.
                    if len(other.values) == 0:
                        done.wait(0.005)
            except WakeupError:
                continue

    thread = threading.Thread(target=iterate)
    thread.start()
    try:
        group.poll_until(lambda: other.partitions)
        assert len(slow.values) < len(expected)
        group.poll_until(lambda: len(slow.values) + len(other.values) >= len(expected))
    finally:
        done.set()
        slow.consumer.wakeup()
        thread.join()
        slow.consumer.close(5.0)
    assert Counter(slow.values + other.values) == Counter(expected)


class Busy(Log):
    """Does what a listener may do."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: Consumer | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.error: Exception | None = None

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        super().on_assigned(partitions)
        assert self.consumer is not None
        for tp in partitions:
            self.consumer.seek(tp, 3)
            self.positions[tp] = self.consumer.position(tp)
        self.consumer.pause(*[tp for tp in partitions if tp.partition == 1])
        if self.error is not None and partitions:
            raise self.error
        with pytest.raises(IllegalStateError, match="cannot ask for records"):
            self.consumer.poll(0.0)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        super().on_revoked(partitions)
        assert self.consumer is not None
        self.consumer.commit()


def test_listener_may_seek_pause_commit_and_ask_but_not_poll(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 5)
    member, busy = group.join(enable_auto_commit=False), Busy()
    busy.consumer = member.consumer
    member.consumer.subscribe(topic, listener=busy)
    group.poll_until(lambda: len(member.values) == 2)
    assert member.values == [b"0-3", b"0-4"]
    assert busy.positions == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 3}
    member.consumer.resume((topic, 1))
    group.poll_until(lambda: len(member.values) == 4)
    group.leave(member)
    other = group.join()
    group.settle(2)
    fill(seed, topic, 2, 5, 1)
    group.poll_until(lambda: len(other.values) == 2)
    assert sorted(other.values) == [b"0-5", b"1-5"]


def test_what_a_listener_raises_comes_out_of_poll_once_and_the_assignment_stands(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    member, busy = group.join(), Busy()
    busy.consumer, busy.error = member.consumer, ZeroDivisionError("a bug")
    member.consumer.subscribe(topic, listener=busy)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        group.poll_until(lambda: False)
    assert member.partitions == {0, 1}
    member.poll()


def test_listener_with_coroutines_is_refused_by_the_blocking_consumer(group: Group, seed: Seeder, topic: str) -> None:
    class Asynchronous(RebalanceListener):
        async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise AssertionError("never run")

    seed.create(topic)
    member = group.join()
    member.consumer.subscribe(topic, listener=Asynchronous())
    with pytest.raises(TypeError, match="on_assigned is a coroutine function"):
        group.poll_until(lambda: False)


def test_wakeup_interrupts_joining_and_the_next_poll_continues(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 50)
    member = group.join()
    deadline = clock.monotonic() + ANSWER
    while len(member.values) < len(expected):
        assert clock.monotonic() < deadline
        member.consumer.wakeup()
        with pytest.raises(WakeupError):
            member.consumer.poll(5.0)
        member.values += [record.value or b"" for record in member.consumer.poll(0.001, max_records=7)]
    assert Counter(member.values) == Counter(expected)


def test_close_is_refused_while_another_thread_polls(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    member = group.join()
    group.settle(1)
    group.members.clear()
    interrupted = []

    def poll() -> None:
        try:
            member.consumer.poll(ANSWER)
        except WakeupError as error:
            interrupted.append(error)

    polling = threading.Thread(target=poll)
    polling.start()
    # Trying it out would take the consumer away from the thread, if that comes late.
    wait_until(lambda: member.consumer._core.poll_tracker.within)
    with pytest.raises(ConcurrentUseError):
        member.consumer.close()
    member.consumer.wakeup()
    polling.join()
    assert interrupted
    member.consumer.close(5.0)


def test_close_returns_by_its_deadline_with_every_broker_down() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{nobody.getsockname()[1]}"
        consumer = Consumer("t", bootstrap_servers=servers, group_id="g", default_api_timeout_ms=NEVER_MS)
        assert not consumer.poll(0.1)
        consumer.close(0.5)


@pytest.mark.refbroker_only
@EVERY_WAY
def test_a_member_without_brokers_polls_and_closes_in_time_and_calls_its_listener(
    group_protocol: str, strategy: str | None
) -> None:
    with RefBroker() as broker:
        with Seeder(broker.bootstrap_servers) as seed:
            seed.create("t", partitions=2)
            fill(seed, "t", 2, 0, 10)
        group = Group(broker.bootstrap_servers, "t", group_protocol, strategy)
        member = group.join()
        group.poll_until(lambda: len(member.values) == 20)
    member.consumer.poll(0.3)
    member.consumer.subscribe(["t", "u"], listener=member.log)
    member.consumer.poll(0.3)
    member.consumer.poll(0.0)
    member.consumer.close(0.5)
    assert not member.log.owned


class AsyncLog(RebalanceListener):
    def __init__(self, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.heard: list[tuple[str, dict[int, int]]] = []

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await self._note("assigned", partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._note("revoked", partitions)

    async def _note(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        self.heard.append((kind, {tp.partition: await self.consumer.position(tp) for tp in partitions}))


@pytest.mark.anyio
async def test_async_consumer_awaits_its_listener(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 5)
    async with AsyncConsumer(
        bootstrap_servers=bootstrap_servers, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        log = AsyncLog(consumer)
        consumer.subscribe(topic, listener=log)
        values = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 10:
                break
        assert log.heard == [("assigned", {0: 0, 1: 0})]
        await consumer.unsubscribe()
        assert log.heard[1:] == [("revoked", {0: 5, 1: 5})]
