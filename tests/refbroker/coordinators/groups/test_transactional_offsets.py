"""Offsets that are committed in a transaction: when they count, who may commit them, and what may not go meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from tests.refbroker.committing import GroupHarness
from tests.support.raw_producer import RawProducer

NONE, NOT_AVAILABLE, LOADING, ILLEGAL_GENERATION, UNKNOWN_MEMBER = 0, 15, 14, 22, 25
INVALID_GROUP, UNKNOWN_TOPIC, TOO_LARGE, INVALID_EPOCH, INVALID_TXN_STATE = 24, 3, 12, 47, 48
INVALID_MAPPING, FENCED_INSTANCE, UNSTABLE, ABORTABLE = 49, 82, 88, 120
TRANSACTION = 1
MINUTE_MS, CHECK_MS = 60_000, 5_000
PLACE = ("t", 0)


@pytest_asyncio.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupHarness]:
    harness = GroupHarness(
        tmp_path / "data",
        offsets_retention_minutes="1",
        offsets_retention_check_interval_ms=str(CHECK_MS),
        transaction_state_log_num_partitions="1",
    )
    harness.send(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["t"]), 4)
    harness.create("t", 2)
    yield harness
    harness.close()


def producer(groups: GroupHarness, transactional_id: str = "t", *, transactions: int = 2) -> RawProducer:
    made = RawProducer(groups.send, transactional_id, transactions=transactions)
    assert made.init().error_code == NONE
    return made


def found(groups: GroupHarness, *, stable: bool = True) -> tuple[int, int]:
    """The offset of the place, and its error code."""
    one = groups.fetch({"t": [0]}, require_stable=stable)[PLACE]
    return one[0], one[3]


@pytest.mark.parametrize("transactions", [1, 2])
@pytest.mark.parametrize("crash", [False, True])
async def test_they_count_with_the_end_of_the_transaction(groups: GroupHarness, transactions: int, crash: bool) -> None:
    one = producer(groups, transactions=transactions)
    groups.commit({PLACE: 1})
    for commit, offset in ((True, 5), (False, 6), (True, 7)):
        before = found(groups)[0]
        if transactions == 1:
            assert one.commit_offsets("g", {PLACE: offset}) == [ABORTABLE]
            one.add_offsets("g")
        assert one.commit_offsets("g", {PLACE: offset}) == [NONE]
        assert (found(groups), found(groups, stable=False)) == ((-1, UNSTABLE), (before, NONE))
        if crash:
            await groups.restarted(clean=False)
            assert (found(groups), found(groups, stable=False)) == ((-1, UNSTABLE), (before, NONE))
        assert one.end(commit=commit).error_code == NONE
        assert found(groups) == (offset if commit else before, NONE)
        if crash:
            await groups.restarted(clean=False)
            assert found(groups) == (offset if commit else before, NONE)


async def test_their_records_are_kafkas(groups: GroupHarness) -> None:
    one = producer(groups)
    one.commit_offsets("g", {PLACE: 5}, metadata="text")
    [(key, value)] = groups.stored()
    assert key == OffsetCommitKey("g", "t", 0)
    assert isinstance(value, OffsetCommitValue)
    # Which topic it is does not stand in them.
    assert (value.offset, value.metadata, value.expire_timestamp, value.topic_id.int) == (5, "text", -1, 0)
    [header] = [header for segment in groups.offsets_log.segments for header in segment.headers()]
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (one.producer_id, 0, True)


async def test_a_later_commit_of_no_transaction_goes_before(groups: GroupHarness) -> None:
    one = producer(groups)
    one.commit_offsets("g", {PLACE: 5})
    groups.commit({PLACE: 9})
    assert found(groups, stable=False) == (9, NONE)
    one.end(commit=True)
    assert found(groups) == (9, NONE)


async def test_two_producers_do_not_disturb_each_other(groups: GroupHarness) -> None:
    one, two = producer(groups, "one"), producer(groups, "two")
    one.commit_offsets("g", {PLACE: 1})
    two.commit_offsets("g", {PLACE: 2})
    two.end(commit=True)
    assert (found(groups), found(groups, stable=False)) == ((-1, UNSTABLE), (2, NONE))
    one.end(commit=True)
    assert found(groups) == (2, NONE), "which was written later"


# Who may commit


@pytest.mark.parametrize("version", range(6))
async def test_what_is_refused_by_version(groups: GroupHarness, version: int) -> None:
    one = producer(groups, transactions=2 if version == 5 else 1)

    def commit(**fields: Any) -> list[int]:
        return one.commit_offsets(fields.pop("group", "g"), fields.pop("places", {PLACE: 1}), version=version, **fields)

    if version < 5:
        assert commit() == [INVALID_TXN_STATE if version < 4 else ABORTABLE]
        one.add_offsets("g")
    assert commit(group="") == [INVALID_GROUP]
    assert commit(producer_epoch=7) == [INVALID_EPOCH]
    assert commit(producer_id=4711) == [INVALID_MAPPING]
    assert commit(transactional_id="nobody") == [INVALID_MAPPING]
    assert sorted(commit(places={PLACE: 1, ("t", 9): 1, ("u", 0): 1})) == [NONE, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
    assert commit(metadata="x" * 4097) == [TOO_LARGE]
    one.end(commit=True, version=None if version == 5 else 1)
    assert groups.committed() == {PLACE: 1}


@pytest.mark.parametrize("version", range(6))
async def test_while_the_group_is_being_loaded(groups: GroupHarness, version: int) -> None:
    one = producer(groups, transactions=2 if version == 5 else 1)
    one.add_offsets("g")
    assert one.commit_offsets("g", {PLACE: 1}) == [NONE]
    groups.restart(clean=False)
    # The transaction is open in the partition, so that nobody has to be asked for it.
    assert one.commit_offsets("g", {PLACE: 1}, version=version) == [NOT_AVAILABLE if version < 2 else LOADING]


async def test_a_member_must_be_one_and_of_this_generation(groups: GroupHarness) -> None:
    one = producer(groups)
    member, generation = await groups.join(topics=["t"])

    def commit(**fields: Any) -> int:
        [code] = one.commit_offsets("g", {PLACE: 1}, **fields)
        return code

    for synced in (False, True):
        if synced:
            await groups.sync(member, generation)
        # In a rebalance too, and by somebody who does not say who it is.
        assert commit() == NONE
        assert commit(member_id=member, generation_id=generation) == NONE
        assert commit(member_id=member, generation_id=generation + 1) == ILLEGAL_GENERATION
        assert commit(member_id=member) == ILLEGAL_GENERATION
        assert commit(member_id="stranger", generation_id=generation) == UNKNOWN_MEMBER
        assert commit(generation_id=generation) == UNKNOWN_MEMBER
        assert commit(member_id=member, generation_id=generation, group_instance_id="i") == UNKNOWN_MEMBER
    groups.leave(member)
    assert commit(member_id="stranger", generation_id=-1) == NONE, "there is nobody whom it could disturb"
    assert commit(member_id=member, generation_id=generation) == UNKNOWN_MEMBER
    [code] = one.commit_offsets("another", {PLACE: 1}, generation_id=1, member_id=member)
    assert code == ILLEGAL_GENERATION


async def test_a_commit_is_no_sign_of_life_of_the_member(groups: GroupHarness) -> None:
    one = producer(groups)
    member, generation = await groups.join(topics=["t"])
    await groups.sync(member, generation)
    for _ in range(3):
        await groups.pass_time(4_000)
        one.commit_offsets("g", {PLACE: 1}, member_id=member, generation_id=generation)
    assert groups.describe().group_state == "Empty"


async def test_members_of_consumer_groups_say_their_epoch(groups: GroupHarness) -> None:
    one = producer(groups)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    answer = groups.send(request, 1)
    assert answer.error_code == NONE
    epoch = answer.member_epoch

    def commit(**fields: Any) -> int:
        [code] = one.commit_offsets("g", {PLACE: 1}, **fields)
        return code

    assert commit() == NONE
    assert commit(member_id="m", generation_id=epoch) == NONE
    assert commit(member_id="m", generation_id=epoch + 1) == ILLEGAL_GENERATION
    assert commit(member_id="m", generation_id=epoch - 1) == ILLEGAL_GENERATION, "it did not have the partition then"
    assert commit(member_id="stranger", generation_id=epoch) == UNKNOWN_MEMBER


# What must not go meanwhile, and what may


async def test_what_a_transaction_is_to_change_does_not_expire(groups: GroupHarness) -> None:
    one = producer(groups)
    groups.commit({PLACE: 1, ("t", 1): 1})
    one.commit_offsets("g", {PLACE: 5})
    await groups.pass_time(MINUTE_MS + CHECK_MS)
    assert groups.committed() == {PLACE: 1}
    one.end(commit=False)
    await groups.pass_time(CHECK_MS)
    assert (groups.committed(), groups.list_groups()) == ({}, {})


async def test_a_group_that_a_transaction_is_to_make_stays(groups: GroupHarness) -> None:
    one = producer(groups)
    one.commit_offsets("g", {PLACE: 5})
    await groups.pass_time(MINUTE_MS + CHECK_MS)
    assert list(groups.list_groups()) == ["g"]
    one.end(commit=True)
    assert groups.committed() == {PLACE: 5}


async def test_what_is_deleted_is_not_brought_back_by_the_transaction(groups: GroupHarness) -> None:
    one = producer(groups)
    one.commit_offsets("g", {PLACE: 5, ("t", 1): 6})
    assert groups.delete_offsets({"t": [0]}) == {PLACE: NONE}
    assert found(groups) == (-1, NONE)
    one.end(commit=True)
    assert groups.committed() == {("t", 1): 6}
    one.commit_offsets("g", {PLACE: 5})
    assert groups.delete_groups("g") == {"g": NONE}
    one.end(commit=True)
    assert groups.committed() == {}
    await groups.restarted(clean=False)
    assert groups.committed() == {}


async def test_the_offsets_of_a_topic_that_is_deleted_do_not_come_back(groups: GroupHarness) -> None:
    one = producer(groups)
    one.commit_offsets("g", {PLACE: 5})
    topic = DeleteTopicsRequest.DeleteTopicState(name="t")
    assert groups.send(DeleteTopicsRequest(topics=[topic]), 6).responses[0].error_code == NONE
    assert one.end(commit=True).error_code == NONE
    assert groups.committed() == {}
