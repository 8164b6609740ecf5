"""OffsetCommit, OffsetFetch and OffsetDelete: what is stored, returned, and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from kclient import errors
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from refbroker.coordinators.groups.offsets import CommittedOffset, GroupPartition
from refbroker.coordinators.runtime import CoordinatorResult
from tests.refbroker.committing import GroupHarness
from tests.support.broker_harness import START_MS

NONE = 0
NOTHING = (-1, -1, "", 0)
STRANGER = UUID(int=77)


@pytest_asyncio.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupHarness]:
    harness = GroupHarness(tmp_path / "data")
    harness.create("t", 2)
    yield harness
    harness.close()


async def test_what_is_committed_is_fetched_in_every_version(groups: GroupHarness) -> None:
    topic_id = groups.broker.metadata.image.topics["t"].topic_id
    for version in range(2, 11):
        name: str | UUID = topic_id if version == 10 else "t"
        epoch = 5 if version >= 6 else -1
        assert groups.commit({(name, 1): version}, version=version, epoch=epoch, metadata="m") == {(name, 1): NONE}
        for fetch in range(1, 11):
            wanted: str | UUID = topic_id if fetch == 10 else "t"
            told = (version, epoch if fetch >= 5 else -1, "m", 0)
            assert groups.fetch({wanted: [0, 1]}, version=fetch) == {(wanted, 0): NOTHING, (wanted, 1): told}


async def test_a_commit_is_a_record_in_kafkas_format(groups: GroupHarness) -> None:
    topic_id = groups.broker.metadata.image.topics["t"].topic_id
    groups.commit({("t", 0): 7}, epoch=3, metadata=None)
    groups.commit({("t", 0): 8}, version=2, metadata="x", retention_time_ms=1000)
    key = OffsetCommitKey("g", "t", 0)
    assert groups.stored() == [
        (key, OffsetCommitValue(7, 3, "", START_MS, -1, topic_id)),
        # The older form, which has a time to go, knows no epochs and ids.
        (key, OffsetCommitValue(8, -1, "x", START_MS, START_MS + 1000)),
    ]


async def test_all_offsets_of_a_group_and_of_several_groups(groups: GroupHarness) -> None:
    topic_id = groups.create("u")
    groups.commit({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    groups.commit({("u", 0): 9}, group="h")
    assert groups.committed() == {("t", 0): 1, ("t", 1): 2, ("u", 0): 3}
    assert groups.fetch(None, version=2)[("u", 0)] == (3, -1, "", 0)
    assert groups.fetch(None, version=10)[(topic_id, 0)] == (3, -1, "", 0)
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    answer = groups.send(OffsetFetchRequest(groups=[one(group_id=name, topics=None) for name in ("g", "h", "x")]), 8)
    assert [(group.group_id, group.error_code, len(group.topics)) for group in answer.groups] == [
        ("g", 0, 2), ("h", 0, 1), ("x", 0, 0)
    ]  # fmt: skip


async def test_a_group_that_is_not_there_has_nothing_committed(groups: GroupHarness) -> None:
    assert groups.fetch({"t": [0], "none": [0]}, group="x") == {("t", 0): NOTHING, ("none", 0): NOTHING}
    assert groups.list_groups() == {}


async def test_partitions_that_are_not_there_are_refused_each_for_itself(groups: GroupHarness) -> None:
    topic_id = groups.broker.metadata.image.topics["t"].topic_id
    unknown, unknown_id = errors.UnknownTopicOrPartitionError.code, errors.UnknownTopicIdError.code
    assert groups.commit({("t", 0): 1, ("t", 9): 1, ("none", 0): 1}) == {
        ("t", 0): NONE, ("t", 9): unknown, ("none", 0): unknown
    }  # fmt: skip
    assert groups.commit({(topic_id, 1): 2, (STRANGER, 0): 1}, version=10) == {
        (topic_id, 1): NONE, (STRANGER, 0): unknown_id
    }  # fmt: skip
    assert groups.fetch({STRANGER: [0], topic_id: [1]}, version=10) == {
        (topic_id, 1): (2, -1, "", 0), (STRANGER, 0): (-1, -1, "", unknown_id)
    }  # fmt: skip


async def test_metadata_is_measured_as_java_does(groups: GroupHarness) -> None:
    too_large = errors.OffsetMetadataTooLargeError.code
    for text, code in [("a" * 4096, NONE), ("a" * 4097, too_large), ("\U0001f600" * 2048, NONE),
                       ("\U0001f600" * 2048 + "a", too_large)]:  # fmt: skip
        assert groups.commit({("t", 0): len(text)}, metadata=text) == {("t", 0): code}
    assert groups.committed() == {("t", 0): 2048}


async def test_without_members_anybody_may_commit_who_claims_no_generation(groups: GroupHarness) -> None:
    assert groups.commit({("t", 0): 1}, member_id="who") == {("t", 0): NONE}
    unknown = errors.UnknownMemberIdError.code
    assert groups.commit({("t", 0): 2}, member_id="who", generation_id_or_member_epoch=0) == {("t", 0): unknown}
    assert groups.list_groups() == {"g": ("", "Empty", "classic")}


@pytest.mark.parametrize("generation", [0, 1])
@pytest.mark.parametrize(("version", "error"), [(8, errors.IllegalGenerationError), (9, errors.GroupIdNotFoundError)])
async def test_a_generation_of_a_group_that_is_not_there(
    groups: GroupHarness, version: int, error: type[errors.BrokerError], generation: int
) -> None:
    code = groups.commit({("t", 0): 1}, member_id="m", generation_id_or_member_epoch=generation, version=version)
    assert code == {("t", 0): error.code}


async def test_only_members_of_this_generation_may_commit(groups: GroupHarness) -> None:
    member, generation = await groups.join(topics=["t"])
    mine: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": generation}
    assert groups.commit({("t", 0): 1}, **mine) == {("t", 0): errors.RebalanceInProgressError.code}
    await groups.sync(member, generation)
    assert groups.commit({("t", 0): 2}, **mine) == {("t", 0): NONE}
    for fields, error in [
        ({}, errors.UnknownMemberIdError),
        ({"member_id": "other", "generation_id_or_member_epoch": generation}, errors.UnknownMemberIdError),
        ({"member_id": member, "generation_id_or_member_epoch": generation + 1}, errors.IllegalGenerationError),
        ({"member_id": member, "generation_id_or_member_epoch": generation - 1}, errors.IllegalGenerationError),
        ({**mine, "group_instance_id": "i"}, errors.UnknownMemberIdError),
    ]:
        assert groups.commit({("t", 0): 3}, **fields) == {("t", 0): error.code}, fields
    assert groups.committed() == {("t", 0): 2}


async def test_a_commit_is_a_sign_of_life(groups: GroupHarness) -> None:
    member, generation = await groups.join(topics=["t"])
    await groups.sync(member, generation)
    for offset in range(4):
        await groups.pass_time(9_000)
        fields = {"member_id": member, "generation_id_or_member_epoch": generation}
        assert groups.commit({("t", 0): offset}, **fields) == {("t", 0): NONE}  # type: ignore[arg-type]
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    assert groups.send(heartbeat, 3).error_code == NONE
    await groups.pass_time(11_000)
    assert groups.send(heartbeat, 3).error_code == errors.UnknownMemberIdError.code


async def test_deleted_offsets_are_gone(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1, ("t", 1): 2})
    unknown = errors.UnknownTopicOrPartitionError.code
    assert groups.delete_offsets({"t": [0, 9], "none": [0]}) == {
        ("t", 0): NONE, ("t", 9): unknown, ("none", 0): unknown
    }  # fmt: skip
    assert groups.committed() == {("t", 1): 2}
    assert groups.stored()[-1] == (OffsetCommitKey("g", "t", 0), None)
    written = len(groups.stored())
    # What is not there needs no tombstone.
    assert groups.delete_offsets({"t": [0]}) == {("t", 0): NONE}
    assert len(groups.stored()) == written
    assert groups.delete_offsets({"t": [0]}, group="x") == errors.GroupIdNotFoundError.code
    assert groups.delete_offsets({"t": [0]}, group="") == errors.InvalidGroupIdError.code


async def test_offsets_of_subscribed_topics_cannot_be_deleted(groups: GroupHarness) -> None:
    groups.create("u")
    groups.commit({("t", 0): 1, ("u", 0): 1})
    member, generation = await groups.join(topics=["t"])
    await groups.sync(member, generation)
    subscribed = errors.GroupSubscribedToTopicError.code
    assert groups.delete_offsets({"t": [0], "u": [0]}) == {("t", 0): subscribed, ("u", 0): NONE}
    assert groups.committed() == {("t", 0): 1}


async def test_offsets_of_members_that_are_no_consumers_cannot_be_deleted(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1})
    await groups.join(topics=[], protocol_type="connect")
    assert groups.delete_offsets({"t": [0]}) == errors.GroupNotEmptyError.code


async def test_a_broker_that_is_no_coordinator_says_so(tmp_path: Path) -> None:
    groups = GroupHarness(tmp_path / "data")
    groups.create("t")
    groups.broker.groups.runtime.close()
    code = errors.NotCoordinatorError.code
    assert groups.commit({("t", 0): 1}) == {("t", 0): code}
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    # Version 1 has no other place for it than the partitions.
    answer = groups.send(OffsetFetchRequest(group_id="g", topics=[topic]), 1)
    assert [one.error_code for one in answer.topics[0].partitions] == [code]
    answer = groups.send(OffsetFetchRequest(group_id="g", topics=[topic]), 7)
    assert (answer.error_code, answer.topics) == (code, [])
    [group] = groups.send(
        OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")]), 8
    ).groups
    assert (group.error_code, group.topics) == (code, [])
    assert groups.delete_offsets({"t": [0]}) == code
    assert groups.describe().error_code == code
    assert groups.delete_groups("g") == {"g": code}
    assert groups.list_groups() == {}
    groups.close()


async def test_a_failed_write_commits_nothing(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1})
    log = groups.offsets_log
    log.update_config(log.config.with_topic_configs({"max.message.bytes": "100"}))
    assert groups.commit({("t", 0): 2}, metadata="x" * 200) == {("t", 0): errors.UnknownServerError.code}
    assert groups.committed() == {("t", 0): 1}


async def test_a_request_without_partitions_asks_nobody(groups: GroupHarness) -> None:
    assert groups.send(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=5), 9).topics == []


@pytest.mark.parametrize("clean", [True, False])
async def test_a_restart_keeps_what_was_answered(groups: GroupHarness, clean: bool) -> None:
    groups.commit({("t", 0): 1, ("t", 1): 2}, epoch=4, metadata="m")
    groups.commit({("t", 0): 3})
    groups.commit({("t", 0): 5}, group="h")
    groups.delete_offsets({"t": [1]})
    await groups.restarted(clean=clean)
    assert groups.committed() == {("t", 0): 3}
    assert groups.committed("h") == {("t", 0): 5}
    assert groups.list_groups() == {"g": ("", "Empty", "classic"), "h": ("", "Empty", "classic")}


def write_in_transaction(groups: GroupHarness, offset: int, partition: int = 0) -> None:
    """Write what TxnOffsetCommit writes, by producer 7."""
    record = CommittedOffset(offset, commit_timestamp_ms=START_MS).record(GroupPartition("g", "t", partition))
    result = CoordinatorResult([record], None)
    groups.broker.groups.runtime.write(0, lambda shard: result, producer_id=7, producer_epoch=0, verified=True)


async def test_offsets_of_an_open_transaction_are_unstable_before_and_after_a_restart(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1, ("t", 1): 2})
    write_in_transaction(groups, 5)
    unstable = (-1, -1, "", errors.UnstableOffsetCommitError.code)
    chosen: list[dict[str | UUID, list[int]] | None] = [{"t": [0, 1]}, None]
    for _ in range(2):
        for topics in chosen:
            assert groups.fetch(topics, require_stable=True) == {("t", 0): unstable, ("t", 1): (2, -1, "", 0)}
            assert groups.fetch(topics) == {("t", 0): (1, -1, "", 0), ("t", 1): (2, -1, "", 0)}
        await groups.restarted(clean=False)
    [shard] = groups.broker.groups.runtime.shards()
    shard.end_transaction(7, committed=True)
    assert groups.fetch({"t": [0]}, require_stable=True) == {("t", 0): (5, -1, "", 0)}


async def test_what_an_open_transaction_is_to_change_does_not_expire_and_can_be_deleted(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 1})
    write_in_transaction(groups, 5)
    write_in_transaction(groups, 6, 1)
    await groups.pass_time(20_000 * 60_000)
    assert groups.committed() == {("t", 0): 1}
    assert groups.delete_offsets({"t": [1]}) == {("t", 1): NONE}
    assert groups.stored()[-1] == (OffsetCommitKey("g", "t", 1), None)
    assert groups.delete_groups("g") == {"g": NONE}
    [shard] = groups.broker.groups.runtime.shards()
    shard.end_transaction(7, committed=True)
    assert groups.committed() == {}
