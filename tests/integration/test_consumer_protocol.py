"""Groups whose partitions the brokers divide (KIP-848): what the classic protocol does not have, or does otherwise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from kclient import Admin, SubscriptionPattern
from kclient.consumer import AsyncConsumer, RebalanceListener
from kclient.errors import (
    CommitFailedError,
    IllegalStateError,
    InvalidRegularExpressionError,
    KafkaError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.types import TopicPartition
from tests.integration.consumers import Group, Log, Member, fill
from tests.integration.unruly_network import Cuts
from tests.support import clock
from tests.support.seeding import Seeder

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("group_protocol", ["consumer"], indirect=True)]


def raised(group: Group, member: Member, error: type[KafkaError]) -> KafkaError:
    """The error that polling raises, in the end."""
    with pytest.raises(error) as caught:
        group.poll_until(lambda: False)
    group.members.remove(member)
    return caught.value


def test_only_what_moves_is_interrupted_and_no_record_is_lost_or_repeated(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=6)
    expected = fill(seed, topic, 6, 0, 50)
    first = group.join()
    group.settle(6)
    group.poll_until(lambda: len(first.values) >= 100)
    second = group.join()
    group.settle(3, 3)
    assert set().union(*(what for kind, what in first.log.heard if kind == "revoked")) == second.partitions
    expected += fill(seed, topic, 6, 50, 50)
    group.poll_until(lambda: len(first.values) + len(second.values) >= 600)
    group.leave(first)
    group.settle(6)
    expected += fill(seed, topic, 6, 100, 10)
    group.poll_until(lambda: len(first.values) + len(second.values) >= 660)
    assert Counter(first.values + second.values) == Counter(expected)
    assert not first.log.owned
    assert all(kind == "assigned" for kind, _ in second.log.heard)


def test_brokers_match_a_pattern_against_whole_names_now_and_later(group: Group, seed: Seeder, topic: str) -> None:
    for name in (f"{topic}-a", f"{topic}-a-not", f"not-{topic}-a"):
        seed.create(name, partitions=2)
    pattern = SubscriptionPattern(re.escape(topic) + "-[a-z]")
    first, second = group.join(pattern), group.join(pattern)
    group.settle(1, 1)
    seed.create(f"{topic}-b", partitions=2)
    expected = fill(seed, f"{topic}-a", 2, 0, 5) + fill(seed, f"{topic}-b", 2, 5, 5)
    # Brokers look for new topics when a member joins, and every ten minutes otherwise.
    group.join(pattern)
    group.settle(1, 1, 2)
    group.poll_until(lambda: len(group.values) == 20)
    assert Counter(group.values) == Counter(expected)
    first.consumer.subscribe(f"{topic}-a-not", listener=first.log)
    group.poll_until(lambda: {tp.topic for tp in first.consumer.assignment()} == {f"{topic}-a-not"})
    assert second.consumer.subscription() == frozenset()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pattern_is_removed_although_the_connection_drops_at_that_heartbeat(
    cuts: Cuts, group: Group, seed: Seeder, topic: str, when: str
) -> None:
    for name in ("a", "b"):
        seed.create(f"{topic}-{name}", partitions=2)
    member = group.join(SubscriptionPattern(re.escape(topic) + "-[a-z]"))
    group.settle(4)
    cuts.at(ConsumerGroupHeartbeatRequest, when, 1)
    member.consumer.subscribe(f"{topic}-b", listener=member.log)
    group.settle(2)
    assert cuts.done == 1
    assert {tp.topic for tp in member.consumer.assignment()} == {f"{topic}-b"}


def test_an_invalid_expression_is_fatal_until_another_subscription(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    member = group.join(SubscriptionPattern("(" + topic))
    raised(group, member, InvalidRegularExpressionError)
    with pytest.raises(InvalidRegularExpressionError):
        member.poll()
    member.consumer.unsubscribe()
    member.consumer.subscribe(SubscriptionPattern(re.escape(topic)), listener=member.log)
    group.members.append(member)
    group.settle(1)


def test_assignor_of_the_brokers_is_chosen_by_name(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=3)
    group.join(group_remote_assignor="range")
    group.join(group_remote_assignor="range")
    group.settle(1, 2)
    other = group.join(group_remote_assignor="of my own")
    raised(group, other, UnsupportedAssignorError)
    other.consumer.close(5.0)


def test_a_static_member_returns_to_its_partitions_which_stay_unassigned_until_then(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=4)
    first, second = group.join(group_instance_id="a"), group.join(group_instance_id="b")
    group.settle(2, 2)
    had, heard = second.partitions, len(first.log.heard)
    other = group.join(group_instance_id="b")
    raised(group, other, UnreleasedInstanceIdError)
    other.consumer.close(5.0)
    group.leave(second)
    second = group.join(group_instance_id="b")
    group.settle(2, 2)
    assert second.partitions == had
    assert len(first.log.heard) == heard
    group.leave(second, leave_group=True)
    group.settle(4)


def test_a_dynamic_member_that_vanishes_is_removed_after_its_session_timeout(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    group.join()
    second = group.join()
    group.settle(1, 1)
    started = clock.monotonic()
    group.leave(second, leave_group=False)
    group.settle(2)
    assert clock.monotonic() - started > 3.0


def test_nobody_can_enforce_a_rebalance(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    member = group.join()
    group.settle(1)
    with pytest.raises(IllegalStateError, match="the coordinator decides"):
        member.consumer.enforce_rebalance()


def test_commits_carry_the_epoch_of_their_moment(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=4)
    fill(seed, topic, 4, 0, 10)
    first = group.join(enable_auto_commit=False)
    group.settle(4)
    group.poll_until(lambda: len(first.values) == 40)
    before = first.consumer.group_metadata()
    told: list[KafkaError | None] = []
    first.consumer.commit_async(callback=lambda offsets, error: told.append(error))
    group.join(enable_auto_commit=False)
    group.settle(2, 2)
    first.consumer.commit()
    after = first.consumer.group_metadata()
    assert told == [None]
    assert (after.member_id, after.group_id) == (before.member_id, before.group_id)
    assert after.generation_id > before.generation_id
    gone = next(TopicPartition(topic, number) for number in range(4) if number not in first.partitions)
    with pytest.raises(CommitFailedError):
        first.consumer.commit({gone: 1})


def test_member_that_an_admin_removes_loses_everything_and_joins_again(
    group: Group, seed: Seeder, topic: str, bootstrap_servers: str
) -> None:
    seed.create(topic, partitions=2)
    member = group.join(group_instance_id="a")
    group.settle(2)
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.remove_group_members(f"group-{topic}", everyone=True)
    group.poll_until(lambda: ("lost", {0, 1}) in member.log.heard)
    group.settle(2)
    assert [what for what in member.log.heard if what[1]] == [
        ("assigned", {0, 1}),
        ("lost", {0, 1}),
        ("assigned", {0, 1}),
    ]


def test_group_goes_over_from_the_classic_protocol_member_by_member(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 20)
    values: list[bytes] = []
    for protocol in ("classic", "classic", "consumer", "consumer", "classic", "classic"):
        if len(group.members) == 2:
            values += group.members[0].values
            group.leave(group.members[0])
            group.settle(4)
        group.protocol = protocol
        options: dict[str, Any] = {"partition_assignment_strategy": "range"} if protocol == "classic" else {}
        group.join(**options)
        group.settle(*([2, 2] if len(group.members) == 2 else [4]))
        expected += fill(seed, topic, 4, len(expected), 5)
    total = len(expected)
    group.poll_until(lambda: len(values) + len(group.values) >= total)
    assert Counter(values + group.values) == Counter(expected)


class Awaiting(RebalanceListener):
    def __init__(self) -> None:
        self.log = Log()

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.log.on_assigned(partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.log.on_revoked(partitions)


@pytest.mark.anyio
async def test_async_consumer_takes_part(bootstrap_servers: str, seed: Seeder, topic: str, group_protocol: str) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 5)
    options: dict[str, Any] = {"group_id": f"group-{topic}", "group_protocol": group_protocol}
    listener = Awaiting()
    async with AsyncConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.subscribe(topic, listener=listener)
        values = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 10:
                break
    # A coordinator that does not know the topic yet assigns nothing at first.
    assert [what for what in listener.log.heard if what[1]] == [("assigned", {0, 1}), ("revoked", {0, 1})]
