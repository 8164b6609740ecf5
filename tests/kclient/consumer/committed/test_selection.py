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
        at_hand: the offsets before and after the record that iteration is at, in this partition.
        expected: offsets by mode; None where there is nothing to commit.
        replaced: the topic was deleted and created again.
    """

    position: int | None
    returned: int | None
    at_hand: tuple[int, int] | None
    expected: dict[CommitMode, int | None]
    replaced: bool = False


PARTITIONS = {
    "no position yet": PartitionToCommit(None, None, None, {ALL: None, LEFT: None, EARLIER: None}),
    "first poll": PartitionToCommit(10, None, None, {ALL: 10, LEFT: 10, EARLIER: None}),
    "later poll": PartitionToCommit(20, 10, None, {ALL: 20, LEFT: 20, EARLIER: 10}),
    "first record of a chunk": PartitionToCommit(10, 10, (10, 11), {ALL: 11, LEFT: 10, EARLIER: 10}),
    "within a chunk": PartitionToCommit(10, 10, (14, 15), {ALL: 15, LEFT: 14, EARLIER: 14}),
    "committed ahead within a chunk": PartitionToCommit(10, 15, (14, 15), {ALL: 15, LEFT: 14, EARLIER: 15}),
    "a chunk before any call returned": PartitionToCommit(10, None, (14, 15), {ALL: 15, LEFT: 14, EARLIER: None}),
    "replaced topic": PartitionToCommit(20, None, None, {ALL: None, LEFT: None, EARLIER: None}, replaced=True),
    "replaced topic within a chunk": PartitionToCommit(
        10, None, (14, 15), {ALL: None, LEFT: None, EARLIER: None}, replaced=True
    ),
}


def state_of(partition: PartitionToCommit, tp: TopicPartition = TP) -> PartitionState:
    state = PartitionState(tp)
    state.position = None if partition.position is None else Position(partition.position)
    state.returned = None if partition.returned is None else Position(partition.returned)
    state.replaced = partition.replaced
    return state


def place_in(state: PartitionState, at_hand: tuple[int, int] | None) -> Place | None:
    return None if at_hand is None else Place(state, Position(at_hand[0]), Position(at_hand[1]))


@pytest.mark.parametrize("mode", CommitMode, ids=lambda mode: str(mode.value))
@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS.keys())
def test_position_to_commit_follows_from_what_counts_as_processed(
    partition: PartitionToCommit, mode: CommitMode
) -> None:
    state = state_of(partition)
    found = committable_position(state, place_in(state, partition.at_hand), mode)
    assert (None if found is None else found.offset) == partition.expected[mode]


@pytest.mark.parametrize("mode", CommitMode, ids=lambda mode: str(mode.value))
def test_record_at_hand_in_another_partition_changes_nothing(mode: CommitMode) -> None:
    partition = PARTITIONS["later poll"]
    other = state_of(PARTITIONS["within a chunk"], OTHER)
    found = committable_position(state_of(partition), place_in(other, (14, 15)), mode)
    assert found == Position(partition.expected[mode] or -1)


def test_record_at_hand_in_an_earlier_assignment_of_the_partition_changes_nothing() -> None:
    lost, assigned_again = state_of(PARTITIONS["within a chunk"]), state_of(PARTITIONS["later poll"])
    assert committable_position(assigned_again, place_in(lost, (14, 15)), ALL) == Position(20)


def test_offsets_carry_known_leader_epochs_and_omit_partitions_without_a_position() -> None:
    known, unknown, nothing = (PartitionState(TopicPartition("t", number)) for number in range(3))
    known.position, unknown.position = Position(5, 3), Position(7)
    assert committable_offsets((known, unknown, nothing), None, ALL) == {
        known.tp: OffsetAndMetadata(5, leader_epoch=3),
        unknown.tp: OffsetAndMetadata(7),
    }
