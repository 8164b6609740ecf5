"""Committed offsets against a broker: where a group continues after a restart, a crash, a failure; what an application
is notified of commits; and how a consumer does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import anyio
import pytest

from kclient.consumer import AsyncConsumer, Consumer, StallReason
from kclient.consumer.group.listener import RebalanceListener
from kclient.errors import (
    CommitFailedError,
    ConfigError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetMetadataTooLargeError,
)
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.reading import read
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


def fill(seed: Seeder, topic: str, count: int, partitions: int = 1) -> None:
    seed.create(topic, partitions=partitions)
    for partition in range(partitions):
        seed.append(topic, [b"%d" % number for number in range(count)], partition=partition)


class Group:
    """Makes consumers of one group."""

    def __init__(self, bootstrap_servers: str, topic: str, protocol: str) -> None:
        self.topic = topic
        self.tp = TopicPartition(topic, 0)
        self._options: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "group_id": f"group-{topic}",
            "auto_offset_reset": "earliest",
            **({"heartbeat_interval_ms": 200} if protocol == "classic" else {"group_protocol": protocol}),
        }

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self.topic, **{**self._options, **options})

    def outside(self, **options: Any) -> Consumer:
        """One that is subscribed to nothing."""
        return Consumer(**{**self._options, **options})

    def asynchronous(self, **options: Any) -> AsyncConsumer:
        return AsyncConsumer(self.topic, **{**self._options, **options})

    def committed(self) -> int | None:
        with self.outside() as consumer:
            found = consumer.committed([self.tp])[self.tp]
        return None if found is None else found.offset


@pytest.fixture
def group(bootstrap_servers: str, topic: str, group_protocol: str) -> Group:
    return Group(bootstrap_servers, topic, group_protocol)


def read_offsets(consumer: Consumer, count: int) -> list[int]:
    """Read so many records, and return their offsets."""
    return [record.offset for record in read(consumer, count)]


def test_a_restart_continues_where_the_group_was(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)
    with group.consumer() as consumer:
        assert read_offsets(consumer, 7) == list(range(7))
    with group.consumer() as consumer:
        assert read_offsets(consumer, 13) == list(range(7, 20))
    assert group.committed() == 20


def test_leaving_iteration_repeats_its_last_record_alone(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)
    with group.consumer() as consumer:
        for record in consumer:
            if record.offset == 7:
                break
    assert group.committed() == 7


def test_a_failing_application_gets_again_what_it_was_given_last(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)

    def work() -> None:
        with group.consumer() as consumer:
            read(consumer, 5)
            assert len(consumer.poll(ANSWER, max_records=5)) == 5
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert group.committed() == 5


def test_without_automatic_commits_nothing_is_committed(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 10)
    with group.consumer(enable_auto_commit=False) as consumer:
        read(consumer, 5)
    assert group.committed() is None


def test_only_stored_offsets_are_committed_when_the_application_stores_them(
    seed: Seeder, topic: str, group: Group
) -> None:
    fill(seed, topic, 10)
    with group.consumer(enable_auto_offset_store=False) as consumer:
        records = read(consumer, 10)
        consumer.commit()
        assert group.committed() is None
        consumer.store_offsets(records[3])
        consumer.commit()
        assert group.committed() == 4
        consumer.store_offsets({group.tp: OffsetAndMetadata(6, metadata="half")})
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.store_offsets({group.tp: 9, TopicPartition(topic, 7): 1})
    with group.outside() as consumer:
        assert consumer.committed([group.tp])[group.tp] == OffsetAndMetadata(6, metadata="half")


def test_stored_offsets_of_a_partition_are_committed_before_it_is_given_up(
    seed: Seeder, topic: str, group: Group
) -> None:
    fill(seed, topic, 10)
    with group.consumer(enable_auto_offset_store=False) as consumer:
        consumer.store_offsets(read(consumer, 5)[1])
        consumer.unsubscribe()
        assert group.committed() == 2
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.store_offsets({group.tp: 9})


def test_offsets_are_stored_only_if_the_option_says_so(group: Group) -> None:
    with group.outside() as consumer, pytest.raises(IllegalStateError, match="enable_auto_offset_store=False"):
        consumer.store_offsets({group.tp: 9})
    with pytest.raises(ConfigError, match="group_id"):
        Consumer(enable_auto_offset_store=False)


def test_automatic_commits_come_while_the_application_works(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)
    with group.consumer(auto_commit_interval_ms=100) as consumer:
        read(consumer, 5)
        assert len(consumer.poll(ANSWER, max_records=5)) == 5
        wait_until(lambda: group.committed() == 5)
        sent = consumer.metrics()["commit_total"]
        wait_until(lambda: consumer.metrics()["commit_total"] >= sent + 2)
        assert group.committed() == 5, "what the application works on is not committed"


def test_automatic_commits_follow_iteration_record_by_record(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)
    with group.consumer(auto_commit_interval_ms=100) as consumer:
        for record in consumer:
            if record.offset == 4:
                wait_until(lambda: group.committed() == 4)
                break


def test_commit_takes_a_record_offsets_or_everything(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with group.consumer(enable_auto_commit=False) as consumer:
        read(consumer, 40)
        offsets: dict[TopicPartition, OffsetAndMetadata | int] = {first: 3, second: OffsetAndMetadata(4, "a note", 0)}
        consumer.commit(offsets)
        assert consumer.committed([first, second]) == {
            first: OffsetAndMetadata(3),
            second: OffsetAndMetadata(4, "a note", 0),
        }
        consumer.seek(first, 0)
        record = next(iter(consumer))
        consumer.commit(record)
        assert consumer.committed([first])[first] == OffsetAndMetadata(1, leader_epoch=record.leader_epoch)
        consumer.commit()
        found = consumer.committed([first, second])
        assert {tp: one.offset for tp, one in found.items() if one is not None} == {first: 1, second: 20}


def test_a_note_that_is_too_long_is_refused(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 5)
    with group.consumer(enable_auto_commit=False) as consumer:
        read(consumer, 5)
        with pytest.raises(OffsetMetadataTooLargeError):
            consumer.commit({group.tp: OffsetAndMetadata(3, "x" * 5_000)})
        consumer.commit({group.tp: 3})
    assert group.committed() == 3


def test_asynchronous_commits_are_reported_in_order_in_the_owners_calls(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 20)
    told: list[tuple[int, KafkaError | None]] = []
    with group.consumer(enable_auto_commit=False) as consumer:
        read(consumer, 20)
        for offset in range(1, 21):
            consumer.commit_async({group.tp: offset}, lambda offsets, e: told.append((offsets[group.tp].offset, e)))
        consumer.commit({})
        assert told == [(offset, None) for offset in range(1, 21)]
        consumer.commit_async({group.tp: 11}, lambda offsets, e: told.append((offsets[group.tp].offset, e)))
    assert told[-1] == (11, None), "close waits for it"
    assert group.committed() == 11


def test_an_orderly_rebalance_repeats_nothing(seed: Seeder, topic: str, group: Group) -> None:
    count = 50
    fill(seed, topic, count, partitions=2)
    seen: list[tuple[int, int]] = []

    def turn(consumer: Consumer) -> None:
        seen.extend((record.partition, record.offset) for record in consumer.poll(0.05, max_records=3))

    with group.consumer() as first, group.consumer() as second:
        while len(seen) < 10:
            turn(first)
        deadline = clock.monotonic() + ANSWER
        while len(seen) < 2 * count:
            assert clock.monotonic() < deadline, f"only {len(seen)} of {2 * count} records came"
            turn(second)
            turn(first)
            # However long the second one takes to join, the first one has something to read meanwhile.
            if not second.assignment() and len(seen) > 2 * count - 20:
                for partition in range(2):
                    seed.append(topic, [b"more"] * 50, partition=partition)
                count += 50
        assert second.assignment()
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(count)]


def test_a_listener_commits_what_is_revoked(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 10)

    class Committing(RebalanceListener):
        def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            consumer.commit({tp: OffsetAndMetadata(consumer.position(tp), "revoked") for tp in partitions})

    with group.outside(enable_auto_commit=False) as consumer:
        consumer.subscribe(topic, listener=Committing())
        read(consumer, 6)
    with group.outside() as reader:
        assert reader.committed([group.tp])[group.tp] == OffsetAndMetadata(6, "revoked")


def test_a_consumer_that_assigns_by_itself_keeps_its_offsets_in_the_group(
    seed: Seeder, topic: str, group: Group
) -> None:
    fill(seed, topic, 20)
    with group.outside() as consumer:
        consumer.assign([group.tp])
        assert read_offsets(consumer, 6) == list(range(6))
    with group.outside() as consumer:
        consumer.assign([group.tp])
        assert read_offsets(consumer, 3) == [6, 7, 8]
        assert consumer.group_metadata().generation_id == -1


def test_members_keep_others_from_committing(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 5)
    with group.consumer() as member, group.outside(enable_auto_commit=False) as other:
        read(member, 5)
        other.assign([group.tp])
        with pytest.raises(CommitFailedError, match="members of the group"):
            other.commit({group.tp: 1})
        with pytest.raises(CommitFailedError, match="not assigned"):
            member.commit({TopicPartition(topic, 7): 1})
    assert group.committed() == 5


def test_without_a_policy_a_new_group_says_that_it_has_no_offsets(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 5)
    with group.consumer(auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartitionError):
            read(consumer, 1)
        consumer.seek(group.tp, 2)
        assert read_offsets(consumer, 3) == [2, 3, 4]


def test_without_a_group_there_is_nothing_to_commit(bootstrap_servers: str) -> None:
    with Consumer(bootstrap_servers=bootstrap_servers) as consumer:
        for call in (consumer.commit, consumer.commit_async, consumer.group_metadata):
            with pytest.raises(InvalidGroupIdError, match="group_id"):
                call()


def test_health_tells_position_committed_offset_and_what_is_waited_for(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 10)
    with group.consumer() as consumer:
        read(consumer, 10)
        consumer.commit()
        health = consumer.health()
        one = health.partitions[group.tp]
        assert (one.position, one.committed, one.end_offset, one.lag) == (10, 10, 10, 0)
        assert one.reason is StallReason.NO_DATA
        assert health.group_state == "stable"
        assert health.commit_error is None
        consumer.pause(group.tp)
        assert consumer.health().partitions[group.tp].reason is StallReason.PAUSED
        assert consumer.metrics()[f"committed_offset{{partition=0,topic={topic}}}"] == 10


def test_an_application_that_stops_asking_is_notified_of_its_stall(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 10)
    stalls: list[Any] = []
    with group.consumer(stall_timeout_ms=300, on_stall=stalls.append) as consumer:
        read(consumer, 3)
        # Joining and the first records may take long enough to be reported as a stall too.
        wait_until(lambda: any(group.tp in one and one[group.tp].position == 3 for one in stalls))
        assert stalls[-1][group.tp].lag == 7
        assert consumer.health().stalled == (group.tp,)
        read(consumer, 7)
        assert consumer.health().stalled == ()


@pytest.mark.anyio
async def test_async_consumer_commits_and_runs_callbacks_in_its_loop(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 10)
    told: list[KafkaError | None] = []
    async with group.asynchronous(enable_auto_commit=False) as consumer:
        async for record in consumer:
            if record.offset == 4:
                await consumer.commit(record)
                assert (await consumer.committed([group.tp]))[group.tp] == OffsetAndMetadata(5, leader_epoch=0)
                consumer.commit_async(callback=lambda offsets, error: told.append(error))
                await consumer.commit({})
                assert told == [None]
                break
        assert consumer.health().partitions[group.tp].committed == 5


@pytest.mark.anyio
async def test_cancelled_commits_and_polls_lose_nothing(seed: Seeder, topic: str, group: Group) -> None:
    fill(seed, topic, 200)
    seen: list[int] = []
    async with group.asynchronous(auto_commit_interval_ms=20) as consumer:
        seconds = 0.0
        while len(seen) < 200:
            seconds = (seconds + 0.0007) % 0.02
            with anyio.move_on_after(seconds if seen else ANSWER):
                seen += [record.offset for record in await consumer.poll(1.0, max_records=3)]
            with anyio.move_on_after(seconds):
                await consumer.commit()
    assert seen == list(range(200))
    assert group.committed() == 200


READER = """
import sys, time
from kclient import Consumer
servers, topic = sys.argv[1:]
with Consumer(topic, bootstrap_servers=servers, group_id="group-" + topic, auto_offset_reset="earliest",
              auto_commit_interval_ms=300, session_timeout_ms=6000) as consumer:
    while True:
        for record in consumer.poll(1.0, max_records=5):
            print(f"{time.time()} {record.offset}", flush=True)
        time.sleep(0.01)
"""


@pytest.mark.not_simulated("kills a process")
def test_a_kill_repeats_what_one_interval_brought_at_most(
    bootstrap_servers: str, seed: Seeder, topic: str, group: Group
) -> None:
    fill(seed, topic, 20_000)
    command = [sys.executable, "-c", READER, bootstrap_servers, topic]
    lines: list[tuple[float, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as reader:
        assert reader.stdout is not None
        killed = 0.0
        for line in reader.stdout:
            when, offset = line.split()
            lines.append((float(when), int(offset)))
            if not killed and lines[-1][0] - lines[0][0] > 4.0:
                reader.send_signal(signal.SIGKILL)
                killed = time.time()
    committed = group.committed()
    assert committed is not None
    processed = max(offset for when, offset in lines if when < killed - 3.0)
    assert committed > processed, "records of more than one interval (and a margin) ago would be repeated"
    assert committed <= 1 + max(offset for _, offset in lines)
