"""Which offsets a commit names, as a table: what the application was given, and what of it counts as processed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kclient.consumer.assignment.partition_state import PartitionState, Position
from kclient.consumer.committed.selection import CommitMode, committable_offsets, committable_position
from kclient.consumer.iteration.current_chunk import Place
from kclient.types import OffsetAndMetadata, TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ALL, LEFT, EARLIER = CommitMode.ALL, CommitMode.LEFT, CommitMode.EARLIER


class PartitionToCommit(NamedTuple):
    """A partition, and what each mode commits of it.

    Attributes:
        position: the application's next record, outside of a chunk.
        returned: the position with which the last call for records began.
        current: the offsets before and after the record that iteration is at, in this partition.
        expected: offsets by mode; None where there is nothing to commit.
        left: the same, of the record at which the application left its last chunk without asking for more.
        replaced: the topic was deleted and created again.
    """

    position: int | None
    returned: int | None
    current: tuple[int, int] | None
    expected: dict[CommitMode, int | None]
    left: tuple[int, int] | None = None
    replaced: bool = False


PARTITIONS = {
    "no position yet": PartitionToCommit(None, None, None, {ALL: None, LEFT: None, EARLIER: None}),
    "first poll": PartitionToCommit(10, None, None, {ALL: 10, LEFT: 10, EARLIER: None}),
    "later poll": PartitionToCommit(20, 10, None, {ALL: 20, LEFT: 20, EARLIER: 10}),
    "first record of a chunk": PartitionToCommit(10, 10, (10, 11), {ALL: 11, LEFT: 10, EARLIER: 10}),
    "within a chunk": PartitionToCommit(10, 10, (14, 15), {ALL: 15, LEFT: 14, EARLIER: 14}),
    "committed ahead within a chunk": PartitionToCommit(10, 15, (14, 15), {ALL: 15, LEFT: 14, EARLIER: 15}),
    "a chunk before any call returned": PartitionToCommit(10, None, (14, 15), {ALL: 15, LEFT: 14, EARLIER: None}),
    "chunk left": PartitionToCommit(15, 10, None, {ALL: 15, LEFT: 14, EARLIER: 10}, left=(14, 15)),
    "chunk left at its first record": PartitionToCommit(11, 10, None, {ALL: 11, LEFT: 10, EARLIER: 10}, left=(10, 11)),
    "chunk left, then back to the record": PartitionToCommit(
        14, 10, None, {ALL: 14, LEFT: 14, EARLIER: 10}, left=(14, 15)
    ),
    "chunk left, then forward": PartitionToCommit(30, 10, None, {ALL: 30, LEFT: 30, EARLIER: 10}, left=(14, 15)),
    "chunk left, and within another one": PartitionToCommit(
        15, 15, (18, 19), {ALL: 19, LEFT: 18, EARLIER: 18}, left=(14, 15)
    ),
    "replaced topic": PartitionToCommit(20, None, None, {ALL: None, LEFT: None, EARLIER: None}, replaced=True),
    "replaced topic within a chunk": PartitionToCommit(
        10, None, (14, 15), {ALL: None, LEFT: None, EARLIER: None}, replaced=True
    ),
    "replaced topic whose chunk was left": PartitionToCommit(
        15, None, None, {ALL: None, LEFT: None, EARLIER: None}, left=(14, 15), replaced=True
    ),
}


def state_of(partition: PartitionToCommit, tp: TopicPartition = TP) -> PartitionState:
    state = PartitionState(tp)
    state.position = None if partition.position is None else Position(partition.position)
    state.returned = None if partition.returned is None else Position(partition.returned)
    state.replaced = partition.replaced
    return state


def place_in(state: PartitionState, current: tuple[int, int] | None) -> Place | None:
    return None if current is None else Place(state, Position(current[0]), Position(current[1]))


def offset_to_commit(
    state: PartitionState, mode: CommitMode, place: Place | None = None, left: Place | None = None
) -> int | None:
    found = committable_position(state, place, left, mode)
    return None if found is None else found.offset


@pytest.mark.parametrize("mode", CommitMode, ids=lambda mode: str(mode.value))
@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS.keys())
def test_position_to_commit_follows_from_what_counts_as_processed(
    partition: PartitionToCommit, mode: CommitMode
) -> None:
    state = state_of(partition)
    place, left = place_in(state, partition.current), place_in(state, partition.left)
    assert offset_to_commit(state, mode, place, left) == partition.expected[mode]


@pytest.mark.parametrize("mode", CommitMode, ids=lambda mode: str(mode.value))
def test_record_current_in_another_partition_changes_nothing(mode: CommitMode) -> None:
    partition = PARTITIONS["later poll"]
    other = state_of(PARTITIONS["within a chunk"], OTHER)
    assert offset_to_commit(state_of(partition), mode, place_in(other, (14, 15))) == partition.expected[mode]


@pytest.mark.parametrize("mode", CommitMode, ids=lambda mode: str(mode.value))
def test_chunk_left_in_another_partition_changes_nothing(mode: CommitMode) -> None:
    partition = PARTITIONS["later poll"]
    left = place_in(state_of(partition, OTHER), (19, 20))
    assert offset_to_commit(state_of(partition), mode, left=left) == partition.expected[mode]


def test_chunk_left_counts_as_processed_once_iteration_is_in_another_partition() -> None:
    state, other = state_of(PARTITIONS["chunk left"]), state_of(PARTITIONS["within a chunk"], OTHER)
    assert offset_to_commit(state, LEFT, place_in(other, (14, 15)), place_in(state, (14, 15))) == 15


def test_record_current_in_an_earlier_assignment_of_the_partition_changes_nothing() -> None:
    lost, assigned_again = state_of(PARTITIONS["within a chunk"]), state_of(PARTITIONS["later poll"])
    assert offset_to_commit(assigned_again, ALL, place_in(lost, (14, 15))) == 20


def test_offsets_carry_known_leader_epochs_and_omit_partitions_without_a_position() -> None:
    known, unknown, nothing = (PartitionState(TopicPartition("t", number)) for number in range(3))
    known.position, unknown.position = Position(5, 3), Position(7)
    assert committable_offsets((known, unknown, nothing), None, None, ALL) == {
        known.tp: OffsetAndMetadata(5, leader_epoch=3),
        unknown.tp: OffsetAndMetadata(7),
    }
