"""The records that classic groups write, and what happens when a record cannot be written."""

from __future__ import annotations

from kclient.errors import CoordinatorNotAvailableError
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.states import GroupState
from tests.refbroker.coordinators.groups.classic import DELAY_MS, GROUP, SESSION_MS, Groups, stable

NOT_AVAILABLE = CoordinatorNotAvailableError.code


def test_a_new_group_is_written_before_anybody_is_in_it() -> None:
    groups = Groups()
    groups.join()
    [record] = groups.written
    assert record.key == GroupMetadataKey(group=GROUP)
    assert isinstance(record.value, GroupMetadataValue)
    assert (record.version, record.value.protocol_type, record.value.generation) == (3, "", 0)
    assert (record.value.protocol, record.value.leader, record.value.members) == (None, None, [])
    assert record.value.current_state_timestamp == groups.now_ms


def test_a_group_that_cannot_be_written_is_not_there() -> None:
    groups = Groups()
    groups.failure = CoordinatorNotAvailableError()
    # Version 3 is older than KIP-394, with which a new member is first sent its id.
    [answer] = groups.join(version=3)
    assert answer.error_code == NOT_AVAILABLE
    assert not groups.groups


def test_a_generation_is_written_with_its_assignment_and_comes_back_from_the_record() -> None:
    groups, (leader, follower) = stable()
    record = groups.written[-1]
    assert isinstance(record.value, GroupMetadataValue)
    restored = Groups()
    value = GroupMetadataValue.decode(record.value.encode(record.version), record.version)
    group = restored.groups[GROUP] = ClassicGroup.from_record(GROUP, value, restored.now)
    restored.classic.on_loaded(group)
    assert (group.state, group.generation, group.leader, group.protocol) == (GroupState.STABLE, 1, leader, "range")
    assert restored.heartbeat(follower, 1) == 0
    assert restored.sync(follower, 1)[0].assignment == follower.encode()
    restored.pass_time(SESSION_MS - 1)
    assert len(group.members) == 2
    restored.pass_time(1)
    assert not group.members, "those who are not learned of in a session's time are out"
    assert group.is_empty


def test_an_assignment_that_cannot_be_stored_is_taken_back_and_a_rebalance_begins() -> None:
    groups, (leader, follower) = stable()
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    groups.failure = CoordinatorNotAvailableError()
    answers = groups.sync(leader, 2, {follower: b"F"})
    assert (answers[0].error_code, waiting[0].error_code) == (NOT_AVAILABLE, NOT_AVAILABLE)
    assert groups.group.state is GroupState.PREPARING_REBALANCE
    groups.failure = None
    groups.join(leader)
    assert groups.join(follower)[0].error_code == 0
    assert groups.settle() == 3


def test_a_group_whose_end_cannot_be_written_is_empty_nevertheless() -> None:
    groups, (leader, follower) = stable()
    groups.failure = CoordinatorNotAvailableError()
    groups.leave((leader, None), (follower, None))
    assert groups.group.is_empty
    groups.failure = None
    groups.join_new()
    groups.pass_time(2 * DELAY_MS)
    assert groups.group.generation == 3


def test_old_records_without_a_rebalance_timeout_take_that_of_the_session() -> None:
    member = GroupMetadataValue.MemberMetadata(member_id="m", session_timeout=7)
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", leader="m", generation=4, members=[member])
    group = ClassicGroup.from_record(GROUP, GroupMetadataValue.decode(value.encode(0), 0), lambda: 5)
    assert group.members["m"].rebalance_timeout_ms == 7
    assert group.state_timestamp_ms is None
