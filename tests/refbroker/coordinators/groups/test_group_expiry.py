"""What goes by itself: offsets after their time, groups that have nothing left, offsets of topics that are deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult
from tests.refbroker.committing import GroupHarness
from tests.support.broker_harness import START_MS, turns

MINUTE = 60_000
CHECK_MS = 5_000


@pytest_asyncio.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupHarness]:
    harness = GroupHarness(
        tmp_path / "data", offsets_retention_minutes="1", offsets_retention_check_interval_ms=str(CHECK_MS)
    )
    harness.create("t", 2)
    harness.create("u")
    yield harness
    harness.close()


def write(groups: GroupHarness, *records: CoordinatorRecord) -> None:
    """Write records that another broker may have written."""
    groups.broker.groups.write("g", lambda shard: CoordinatorResult(records, None))


async def test_offsets_of_a_group_without_members_ever_go_by_their_commit(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1})
    await groups.pass_time(MINUTE // 2)
    groups.commit({("t", 1): 2})
    await groups.pass_time(MINUTE // 2 - 1)
    assert groups.committed() == {("t", 0): 1, ("t", 1): 2}
    await groups.pass_time(CHECK_MS)
    assert groups.committed() == {("t", 1): 2}
    await groups.pass_time(MINUTE // 2)
    assert groups.committed() == {}
    assert groups.list_groups() == {}
    assert groups.stored()[-3:] == [
        (OffsetCommitKey("g", "t", 0), None), (OffsetCommitKey("g", "t", 1), None), (GroupMetadataKey("g"), None)
    ]  # fmt: skip
    assert groups.broker.metrics.groups.offsets_expired == 2


async def test_offsets_of_a_group_that_had_members_go_by_when_it_became_empty(groups: GroupHarness) -> None:
    member, generation = await groups.join(topics=["t"])
    await groups.sync(member, generation)
    groups.commit({("t", 0): 1}, member_id=member, generation_id_or_member_epoch=generation)
    for _ in range(8):
        # It stays in the group for longer than offsets are kept.
        await groups.pass_time(9_000)
        groups.commit({("t", 1): 1}, member_id=member, generation_id_or_member_epoch=generation)
    groups.leave(member)
    assert groups.describe().group_state == "Empty"
    await groups.pass_time(MINUTE - 1)
    assert groups.committed() == {("t", 0): 1, ("t", 1): 1}
    await groups.restarted()
    await groups.pass_time(CHECK_MS)
    assert groups.committed() == {}
    assert groups.list_groups() == {}


async def test_only_topics_without_subscribers_go_from_a_stable_group(groups: GroupHarness) -> None:
    member, generation = await groups.join(topics=["t"])
    await groups.sync(member, generation)
    fields = {"member_id": member, "generation_id_or_member_epoch": generation}
    groups.commit({("t", 0): 1, ("u", 0): 1}, **fields)  # type: ignore[arg-type]
    for offset in range(9):
        assert ("u", 0) in groups.committed()
        await groups.pass_time(7_000)
        groups.commit({("t", 1): offset}, **fields)  # type: ignore[arg-type]
    assert groups.committed() == {("t", 0): 1, ("t", 1): 8}
    assert groups.describe().group_state == "Stable"


async def test_members_that_are_no_consumers_keep_all_offsets(groups: GroupHarness) -> None:
    groups.commit({("u", 0): 1})
    member, generation = await groups.join(topics=[], protocol_type="connect")
    await groups.sync(member, generation)
    for _ in range(10):
        await groups.pass_time(7_000)
        fields = {"member_id": member, "generation_id_or_member_epoch": generation}
        groups.commit({("t", 0): 2}, **fields)  # type: ignore[arg-type]
    assert groups.committed() == {("t", 0): 2, ("u", 0): 1}


async def test_a_client_may_say_when_its_offset_goes(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1}, version=4, retention_time_ms=5 * MINUTE)
    groups.commit({("t", 1): 2}, version=4, retention_time_ms=1_000)
    await groups.pass_time(CHECK_MS)
    assert groups.committed() == {("t", 0): 1}
    await groups.pass_time(4 * MINUTE)
    assert groups.committed() == {("t", 0): 1}
    await groups.pass_time(MINUTE)
    assert groups.committed() == {}


async def test_a_record_that_does_not_say_since_when_a_group_is_empty(groups: GroupHarness) -> None:
    """Brokers before 2.1 did not: the offset's commit counts."""
    old = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    committed = OffsetCommitValue(5, commit_timestamp=START_MS - MINUTE + CHECK_MS, metadata="")
    write(
        groups,
        CoordinatorRecord(GroupMetadataKey("g"), old, 1),
        CoordinatorRecord(OffsetCommitKey("g", "t", 0), committed, 3),
    )
    assert groups.committed() == {("t", 0): 5}
    await groups.pass_time(CHECK_MS)
    assert groups.committed() == {}


async def test_a_group_with_neither_members_nor_offsets_goes_at_once(groups: GroupHarness) -> None:
    member, _ = await groups.join(topics=["t"])
    groups.leave(member)
    assert groups.list_groups() == {"g": ("consumer", "Empty", "classic")}
    await groups.pass_time(CHECK_MS)
    assert groups.list_groups() == {}


async def test_offsets_of_a_deleted_topic_go_with_it(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    groups.commit({("t", 0): 4}, group="h")
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")])
    assert groups.send(request, 6).responses[0].error_code == 0
    assert groups.committed() == {("u", 0): 3}
    assert groups.committed("h") == {}
    groups.create("t", 2)
    assert groups.committed() == {("u", 0): 3}
    await groups.restarted()
    assert groups.committed() == {("u", 0): 3}


async def test_a_deletion_that_a_crash_cut_short_is_made_good(groups: GroupHarness) -> None:
    """The topic is gone, and created again, and its offsets are still there: as when the broker dies in between."""
    groups.commit({("t", 0): 1, ("u", 0): 3})
    legacy = CoordinatorRecord(OffsetCommitKey("g", "gone", 0), OffsetCommitValue(9, metadata=""), 3)
    write(groups, legacy)
    follow = groups.broker.groups.follow
    groups.broker.metadata.listeners.remove(follow)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")])
    assert groups.send(request, 6).responses[0].error_code == 0
    groups.create("t")
    assert groups.committed() == {("t", 0): 1, ("u", 0): 3, ("gone", 0): 9}
    await groups.restarted(clean=False)
    assert groups.committed() == {("u", 0): 3}
    await turns()
    assert groups.stored()[-2:] == [(OffsetCommitKey("g", "t", 0), None), (OffsetCommitKey("g", "gone", 0), None)]
