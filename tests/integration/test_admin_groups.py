"""The admin client and groups: what they are, what they have committed, how far behind they are; both faces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kclient import Admin, AsyncAdmin, OffsetAndMetadata, TopicPartition
from kclient.admin import GroupState, GroupType, MemberIdentity, OffsetChange, OffsetReset, PartitionLag
from kclient.errors import (
    AdminError,
    ConfigError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    GroupSubscribedToTopicError,
    IllegalStateError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from tests.support.group_members import CLIENT_ID, GroupMembers
from tests.support.seeding import Seeder

pytestmark = pytest.mark.kafka

START = 1_600_000_000_000


@pytest.fixture
def members(bootstrap_servers: str) -> Iterator[GroupMembers]:
    with GroupMembers(bootstrap_servers) as made:
        yield made


@pytest.fixture
def filled(bootstrap_servers: str, topic: str) -> str:
    """A topic of two partitions with ten records in each, a millisecond apart from START on; 0 and 1 are deleted."""
    with Seeder(bootstrap_servers) as seeder, Admin(bootstrap_servers=bootstrap_servers) as admin:
        seeder.create(topic, 2)
        for partition in range(2):
            seeder.append(topic, [b"value"] * 10, partition=partition, timestamp=START)
        admin.delete_records({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 2})
    return topic


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def both(topic: str) -> tuple[TopicPartition, TopicPartition]:
    return TopicPartition(topic, 0), TopicPartition(topic, 1)


def test_offsets_are_committed_read_and_deleted(admin: Admin, filled: str, group: str) -> None:
    first, second = both(filled)
    admin.alter_group_offsets(group, {first: OffsetAndMetadata(4, "noted", 0), second: 5})
    assert admin.list_group_offsets(group) == {
        group: {first: OffsetAndMetadata(4, "noted", 0), second: OffsetAndMetadata(5)}
    }
    assert admin.delete_group_offsets(group, [first]) == {first: None}
    assert admin.list_group_offsets({group: [first, second]}) == {group: {first: None, second: OffsetAndMetadata(5)}}


def test_offsets_of_several_groups_come_in_one_call(admin: Admin, filled: str, group: str) -> None:
    first, _ = both(filled)
    names = [f"{group}-{number}" for number in range(3)]
    for number, name in enumerate(names):
        admin.alter_group_offsets(name, {first: number})
    found = admin.list_group_offsets([*names, f"{group}-none"], require_stable=True)
    assert [found[name] for name in names] == [{first: OffsetAndMetadata(number)} for number in range(3)]
    assert found[f"{group}-none"] == {}


def test_offsets_of_what_does_not_exist_are_not_committed(admin: Admin, filled: str, group: str) -> None:
    first, missing = TopicPartition(filled, 0), TopicPartition(f"{filled}-none", 0)
    with pytest.raises(AdminError) as caught:
        admin.alter_group_offsets(group, {first: 3, missing: 3})
    assert caught.value.results == {first: None}
    assert isinstance(caught.value.errors[missing], UnknownTopicOrPartitionError)
    assert admin.list_group_offsets(group)[group] == {first: OffsetAndMetadata(3)}


def test_groups_are_listed_by_state_and_type(admin: Admin, members: GroupMembers, filled: str, group: str) -> None:
    members.join(f"{group}-stable", both(filled))
    admin.alter_group_offsets(f"{group}-empty", {TopicPartition(filled, 0): 3})

    def listed(**filters: object) -> set[str]:
        return {name for name in admin.list_groups(**filters) if name.startswith(group)}  # type: ignore[arg-type]

    assert listed() == {f"{group}-stable", f"{group}-empty"}
    assert listed(states=[GroupState.STABLE]) == {f"{group}-stable"}
    assert listed(states=[GroupState.EMPTY], types=[GroupType.CLASSIC]) == {f"{group}-empty"}
    assert listed(types=[GroupType.SHARE]) == set()
    stable, empty = (admin.list_groups()[f"{group}-{state}"] for state in ("stable", "empty"))
    assert (stable.type, stable.state, stable.protocol_type) == (GroupType.CLASSIC, GroupState.STABLE, "consumer")
    assert (empty.type, empty.state, empty.protocol_type) == (GroupType.CLASSIC, GroupState.EMPTY, "")


def test_a_classic_group_is_described_with_what_each_member_reads(
    admin: Admin, members: GroupMembers, filled: str, group: str
) -> None:
    member_id = members.join(group, both(filled), instance_id="one")
    found = admin.describe_groups(group)[group]
    assert (found.type, found.state, found.protocol_type) == (GroupType.CLASSIC, GroupState.STABLE, "consumer")
    assert found.assignor == "range"
    assert found.coordinator.node_id in admin.describe_cluster().brokers
    (member,) = found.members
    assert (member.member_id, member.instance_id, member.client_id) == (member_id, "one", CLIENT_ID)
    assert (member.topics, member.assignment, member.rack) == ((filled,), both(filled), "r1")
    assert member.target_assignment is None
    assert member.host


def test_groups_that_do_not_exist_are_named(admin: Admin, filled: str, group: str) -> None:
    admin.alter_group_offsets(group, {TopicPartition(filled, 0): 1})
    with pytest.raises(AdminError) as caught:
        admin.describe_groups([group, f"{group}-none"])
    assert caught.value.results[group].state is GroupState.EMPTY
    assert isinstance(caught.value.errors[f"{group}-none"], GroupIdNotFoundError)
    with pytest.raises(AdminError) as caught:
        admin.delete_group_offsets(f"{group}-none", [TopicPartition(filled, 0)])
    assert isinstance(caught.value.errors[TopicPartition(filled, 0)], GroupIdNotFoundError)


def test_groups_with_members_are_not_deleted(admin: Admin, members: GroupMembers, filled: str, group: str) -> None:
    members.join(f"{group}-stable", both(filled))
    admin.alter_group_offsets(f"{group}-empty", {TopicPartition(filled, 0): 3})
    with pytest.raises(AdminError) as caught:
        admin.delete_groups([f"{group}-stable", f"{group}-empty", f"{group}-none"])
    assert caught.value.results == {f"{group}-empty": None}
    assert {name: type(error) for name, error in caught.value.errors.items()} == {
        f"{group}-stable": GroupNotEmptyError,
        f"{group}-none": GroupIdNotFoundError,
    }
    assert admin.list_group_offsets(f"{group}-empty") == {f"{group}-empty": {}}


def test_offsets_of_a_group_with_members_stay(admin: Admin, members: GroupMembers, filled: str, group: str) -> None:
    first, second = both(filled)
    members.join(group, [first])
    with pytest.raises(AdminError) as caught:
        admin.alter_group_offsets(group, {first: 3})
    assert isinstance(caught.value.errors[first], UnknownMemberIdError)
    assert "the group has members" in str(caught.value.errors[first])
    with pytest.raises(AdminError) as caught:
        admin.delete_group_offsets(group, [first])
    assert isinstance(caught.value.errors[first], GroupSubscribedToTopicError)
    for dry_run in (True, False):
        with pytest.raises(GroupNotEmptyError, match="Stable and has 1 members"):
            admin.reset_group_offsets(group, OffsetReset.earliest(), partitions=[second], dry_run=dry_run)


def test_members_are_removed_by_either_id(admin: Admin, members: GroupMembers, filled: str, group: str) -> None:
    member_id = members.join(group, both(filled))
    with pytest.raises(AdminError) as caught:
        admin.remove_group_members(group, member_ids=[member_id, "nobody"], reason="a test")
    assert caught.value.results == {MemberIdentity(member_id): None}
    assert isinstance(caught.value.errors[MemberIdentity("nobody")], UnknownMemberIdError)
    members.join(group, both(filled), instance_id="one")
    assert admin.remove_group_members(group, instance_ids=["one"]) == {MemberIdentity("", "one"): None}
    assert admin.describe_groups(group)[group].state is GroupState.EMPTY


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_everyone_is_removed(
    admin: Admin, members: GroupMembers, filled: str, group: str, instance_id: str | None
) -> None:
    member_id = members.join(group, both(filled), instance_id=instance_id)
    identity = MemberIdentity(member_id) if instance_id is None else MemberIdentity("", instance_id)
    assert admin.remove_group_members(group, everyone=True) == {identity: None}
    assert admin.describe_groups(group)[group].members == ()
    assert admin.remove_group_members(group, everyone=True) == {}


def test_members_to_remove_must_be_given(admin: Admin, group: str) -> None:
    with pytest.raises(ConfigError, match="either some member_ids and instance_ids, or everyone=True"):
        admin.remove_group_members(group)
    with pytest.raises(ConfigError):
        admin.remove_group_members(group, member_ids=["one"], everyone=True)


@pytest.mark.parametrize(
    ("to", "after"),
    [
        (OffsetReset.earliest(), (2, 2)),
        (OffsetReset.latest(), (10, 10)),
        (OffsetReset.to_time(START + 6), (6, 6)),
        (OffsetReset.to_time(START + 1000), (10, 10)),
        pytest.param(OffsetReset.to_time(datetime(2020, 9, 13, 12, 26, 40, 6_000, UTC)), (6, 6), id="to a datetime"),
        # The offset's timestamp is of the moment of collection, so the id cannot be made from it.
        pytest.param(OffsetReset.by_duration(60), (10, 10), id="by duration"),
        (OffsetReset.shift_by(2), (6, 10)),
        (OffsetReset.shift_by(-3), (2, 6)),
        (OffsetReset.to_offset(5), (5, 5)),
        (OffsetReset.to_offset(0), (2, 2)),
    ],
)
def test_a_reset_moves_a_group_to_what_exists(
    admin: Admin, filled: str, group: str, to: OffsetReset, after: tuple[int, int]
) -> None:
    first, second = both(filled)
    admin.alter_group_offsets(group, {first: 4, second: 9})
    expected = {first: OffsetChange(4, after[0]), second: OffsetChange(9, after[1])}
    assert admin.reset_group_offsets(group, to, dry_run=True) == expected
    assert admin.list_group_offsets(group)[group] == {first: OffsetAndMetadata(4), second: OffsetAndMetadata(9)}
    assert admin.reset_group_offsets(group, to) == expected
    assert admin.list_group_offsets(group)[group] == {
        first: OffsetAndMetadata(after[0]),
        second: OffsetAndMetadata(after[1]),
    }


def test_a_reset_may_be_of_topics_partitions_or_given_offsets(admin: Admin, filled: str, group: str) -> None:
    first, second = both(filled)
    to = OffsetReset.latest()
    assert admin.reset_group_offsets(group, to, partitions=[second]) == {second: OffsetChange(None, 10)}
    assert admin.reset_group_offsets(group, to, partitions=[filled]) == {
        first: OffsetChange(None, 10),
        second: OffsetChange(10, 10),
    }
    changes = admin.reset_group_offsets(group, OffsetReset.to_offsets({first: 3, second: 99}))
    assert changes == {first: OffsetChange(10, 3), second: OffsetChange(10, 10)}
    with pytest.raises(ConfigError, match="do not pass partitions"):
        admin.reset_group_offsets(group, OffsetReset.to_offsets({first: 3}), partitions=[second])


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_reset_of_an_unknown_group_is_an_error_unless_partitions_are_named(
    admin: Admin, filled: str, group: str, dry_run: bool
) -> None:
    first, _ = both(filled)
    with pytest.raises(GroupIdNotFoundError, match=f"the group '{group}' does not exist; "):
        admin.reset_group_offsets(group, OffsetReset.earliest(), dry_run=dry_run)
    assert group not in admin.list_groups()
    changes = admin.reset_group_offsets(group, OffsetReset.earliest(), partitions=[first], dry_run=dry_run)
    assert changes == {first: OffsetChange(None, 2)}
    assert (group in admin.list_groups()) is not dry_run


def test_a_reset_of_a_group_that_has_committed_nothing_is_an_error(
    admin: Admin, members: GroupMembers, filled: str, group: str
) -> None:
    members.join(group, both(filled))
    admin.remove_group_members(group, everyone=True)
    with pytest.raises(IllegalStateError, match="has committed nothing that could be reset"):
        admin.reset_group_offsets(group, OffsetReset.earliest())


def test_what_can_be_reset_is_reset(admin: Admin, filled: str, group: str) -> None:
    first, second = both(filled)
    admin.alter_group_offsets(group, {first: 4})
    with pytest.raises(AdminError) as caught:
        admin.reset_group_offsets(group, OffsetReset.shift_by(1), partitions=[filled])
    assert caught.value.results == {first: OffsetChange(4, 5)}
    assert isinstance(caught.value.errors[second], IllegalStateError)
    missing = TopicPartition(filled, 7)
    with pytest.raises(AdminError) as caught:
        admin.reset_group_offsets(group, OffsetReset.earliest(), partitions=[first, missing])
    assert caught.value.results == {first: OffsetChange(5, 2)}
    assert isinstance(caught.value.errors[missing], UnknownTopicOrPartitionError)


def test_lag_is_notified_of_what_is_committed_and_of_what_is_read(
    admin: Admin, members: GroupMembers, filled: str, group: str
) -> None:
    first, second = both(filled)
    admin.alter_group_offsets(group, {first: 4})
    member_id = members.join(group, [second])
    with pytest.raises(AdminError) as caught:
        admin.group_lag([group, f"{group}-none"])
    assert caught.value.results == {
        group: {first: PartitionLag(4, 10, 6, None), second: PartitionLag(None, 10, None, member_id)}
    }
    assert isinstance(caught.value.errors[f"{group}-none"], GroupIdNotFoundError)


@pytest.mark.anyio
async def test_the_async_face_does_the_same(bootstrap_servers: str, filled: str, group: str) -> None:
    first, second = both(filled)
    async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
        await admin.alter_group_offsets(group, {first: 4, second: 5})
        assert group in await admin.list_groups(states=[GroupState.EMPTY])
        assert (await admin.describe_groups(group))[group].members == ()
        assert await admin.remove_group_members(group, everyone=True) == {}
        assert (await admin.group_lag(group))[group][first].lag == 6
        await admin.reset_group_offsets(group, OffsetReset.latest())
        assert (await admin.list_group_offsets(group))[group][second] == OffsetAndMetadata(10)
        await admin.delete_group_offsets(group, [first])
        assert await admin.delete_groups(group) == {group: None}


def test_a_group_of_the_consumer_protocol_is_described(
    admin: Admin, members: GroupMembers, filled: str, group: str
) -> None:
    try:
        member_id = members.join_with_consumer_protocol(group, filled)
    except UnsupportedVersionError as error:
        pytest.skip(f"the broker has no groups of KIP-848: {error}")
    assert admin.list_groups(types=[GroupType.CONSUMER])[group].state is GroupState.STABLE
    found = admin.describe_groups(group)[group]
    assert (found.type, found.state, found.assignor) == (GroupType.CONSUMER, GroupState.STABLE, "uniform")
    assert found.epoch == found.assignment_epoch
    (member,) = found.members
    assert (member.member_id, member.topics, member.epoch) == (member_id, (filled,), found.epoch)
    assert member.assignment == member.target_assignment == both(filled)
    assert admin.remove_group_members(group, everyone=True) == {MemberIdentity(member_id): None}
    assert admin.describe_groups(group)[group].state is GroupState.EMPTY
