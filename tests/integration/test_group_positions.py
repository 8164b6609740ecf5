"""Where members continue: after a pause, a seek, another member, a failing coordinator, a topic created again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from kclient import Admin
from kclient.errors import GroupAuthorizationError
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.conftest import SETTINGS
from tests.integration.consumers import EVERY_WAY, Group, fill
from tests.support.patience import ANSWER, CHANGE
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until


def test_a_paused_partition_keeps_fetched_records_until_resume_and_skips_none(
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


@pytest.mark.parametrize("pause_first", [False, True], ids=["seek-pause-resume", "pause-seek-resume"])
def test_seek_of_a_paused_partition_holds_when_it_is_resumed(
    group: Group, seed: Seeder, topic: str, pause_first: bool
) -> None:
    seed.create(topic, partitions=1)
    fill(seed, topic, 1, 0, 100)
    member = group.join(max_poll_records=5)
    group.poll_until(lambda: len(member.values) >= 10)
    tp = TopicPartition(topic, 0)
    if pause_first:
        member.consumer.pause(tp)
        member.consumer.seek(tp, 90)
    else:
        member.consumer.seek(tp, 90)
        member.consumer.pause(tp)
    for _ in range(5):
        assert not member.consumer.poll(0.02)
    assert member.consumer.position(tp) == 90
    member.consumer.resume(tp)
    member.values.clear()
    group.poll_until(lambda: len(member.values) >= 10)
    assert member.values == [b"0-%d" % number for number in range(90, 100)]


@EVERY_WAY
def test_a_paused_partition_that_returns_starts_unpaused_at_the_committed_offset(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=1)
    fill(seed, topic, 1, 0, 30)
    first = group.join(enable_auto_commit=False)
    group.settle(1)
    tp = TopicPartition(topic, 0)
    group.poll_until(lambda: len(first.values) >= 10)
    first.consumer.pause(tp)
    # The subscription ends without a word about what was read; the other one commits in the meantime.
    first.consumer.unsubscribe()
    assert not first.consumer.assignment()
    second = group.join(enable_auto_commit=False)
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


@EVERY_WAY
def test_a_paused_partition_returns_unpaused_where_another_member_stopped(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 30)
    first = group.join(max_poll_records=3)
    group.settle(2)
    group.poll_until(lambda: len(first.values) >= 12)
    first.consumer.pause(*first.consumer.assignment())
    before = list(first.values)
    second = group.join(max_poll_records=3)
    group.settle(1, 1)
    moved = second.partitions
    group.poll_until(lambda: len(second.values) >= 6)
    group.leave(second)
    group.settle(2)
    # What stayed is paused still, unless the member gave up everything.
    stayed = {tp.partition for tp in first.consumer.paused()}
    assert stayed == (set() if group.strategy == "range" else {0, 1} - moved)
    first.consumer.resume(*first.consumer.paused())
    group.poll_until(lambda: len(first.values) + len(second.values) >= len(expected))
    assert Counter(first.values + second.values) == Counter(expected)
    assert first.values[: len(before)] == before


# Committed offsets that are not there, or cannot be had


@pytest.fixture
def failing() -> Iterator[RefBroker]:
    """Yield a broker for tests that inject faults."""
    with RefBroker(settings=SETTINGS) as running:
        yield running


@pytest.mark.refbroker_only
@EVERY_WAY
@pytest.mark.parametrize(
    "error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT", "GROUP_AUTHORIZATION_FAILED"]
)
def test_failure_to_fetch_offsets_never_ends_in_the_reset_policy(
    failing: RefBroker, group_protocol: str, strategy: str | None, error: str
) -> None:
    group = Group(failing.bootstrap_servers, "t", group_protocol, strategy)
    with Seeder(failing.bootstrap_servers) as seeder:
        seeder.create("t", partitions=1)
        fill(seeder, "t", 1, 0, 30)
        first = group.join(enable_auto_commit=False)
        group.settle(1)
        first.consumer.commit({TopicPartition("t", 0): 20})
        group.leave(first)
        fault = failing.faults.fail(OffsetFetchRequest.api_key, error=error, count=5)
        second = group.join()

        def read_on() -> bool:
            # The network thread may have had the last of the failures before the first poll raises one.
            try:
                second.poll()
            except GroupAuthorizationError:
                assert error == "GROUP_AUTHORIZATION_FAILED"
            return len(second.values) >= 10

        wait_until(read_on, ANSWER)
        assert fault.fired == 5
        assert second.values == [b"0-%d" % number for number in range(20, 30)]
    group.close()


@EVERY_WAY
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_only_partitions_without_committed_offsets_start_by_the_reset_policy(
    group: Group, seed: Seeder, topic: str, policy: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 30)
    first = group.join(enable_auto_commit=False)
    group.settle(2)
    first.consumer.commit({TopicPartition(topic, 0): 20})
    group.leave(first)
    second = group.join(auto_offset_reset=policy)
    group.settle(2)
    positions = {tp.partition: second.consumer.position(tp) for tp in second.consumer.assignment()}
    expected = [b"0-%d" % number for number in range(20, 30)]
    if policy == "earliest":
        expected += [b"1-%d" % number for number in range(30)]
    elif not second.values:
        assert positions == {0: 20, 1: 30}
    expected += fill(seed, topic, 2, 30, 5)
    group.poll_until(lambda: len(second.values) >= len(expected))
    assert Counter(second.values) == Counter(expected)


# Topics


def test_topic_that_is_deleted_and_created_again_is_read_from_its_beginning(
    bootstrap_servers: str, group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 30)
    # Otherwise the member itself may create the topic again, with the broker's default of partitions.
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
    group.poll_until(lambda: len(member.values) >= 10, CHANGE)
    assert Counter(member.values) == Counter(expected)


@EVERY_WAY
def test_a_deleted_topic_delays_no_other_and_its_successor_inherits_no_offsets(
    bootstrap_servers: str, group: Group, seed: Seeder, topic: str
) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        seed.create(name, partitions=2)
        fill(seed, name, 2, 0, 30)
    member = group.join([topic, other], metadata_max_age_ms=300, allow_auto_create_topics=False)
    group.poll_until(lambda: len(member.values) == 120)
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.delete_topics([topic])
    group.poll_until(lambda: {tp.topic for tp in member.consumer.assignment()} == {other})
    member.values.clear()
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 1000, 5)
    group.poll_until(lambda: len(member.values) >= 10)
    assert Counter(member.values) == Counter(expected)
