"""Fetched bytes are counted until they were read or dropped."""

from __future__ import annotations

import pytest

from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.fetched_piece import FetchedPiece, ResponseMemory, error_piece
from kclient.consumer.assignment.partition_state import STATES, FetchEvent, FetchState, PartitionState
from kclient.errors import IllegalStateError, UnknownServerError
from kclient.types import TopicPartition


def partition(number: int) -> PartitionState:
    return PartitionState(TopicPartition("t", number))


def piece(size: int, memory: ResponseMemory | None = None) -> FetchedPiece:
    return FetchedPiece(0, memoryview(bytes(size)), end_offset=1, memory=memory)


class Counting:
    def __init__(self) -> None:
        self.data = self.room = 0
        self.buffer = FetchBuffer(on_data=self.on_data, on_room=self.on_room)

    def on_data(self) -> None:
        self.data += 1

    def on_room(self) -> None:
        self.room += 1


def test_response_counts_until_its_last_piece_is_read() -> None:
    buffer, first, second = FetchBuffer(), partition(0), partition(1)
    memory = ResponseMemory(1_000)
    buffer.put(first, piece(10, memory))
    buffer.put(second, piece(20, memory))
    assert buffer.bytes == 1_000
    buffer.finish(first)
    assert buffer.bytes == 1_000
    buffer.finish(second)
    assert buffer.bytes == 0


def test_partitions_take_turns_and_keep_their_own_order() -> None:
    buffer, first, second = FetchBuffer(), partition(0), partition(1)
    for state, size in ((first, 1), (first, 2), (second, 3), (second, 4)):
        buffer.put(state, piece(size))
    sizes = []
    while (ready := buffer.first()) is not None:
        sizes.append(ready.pieces[0].size)
        buffer.finish(ready)
    assert sizes == [1, 3, 2, 4]


def test_paused_partition_is_passed_over_and_kept() -> None:
    buffer, first, second = FetchBuffer(), partition(0), partition(1)
    buffer.put(first, piece(1))
    buffer.put(second, piece(2))
    first.paused = True
    assert buffer.first() is second
    second.paused = True
    assert buffer.first() is None
    assert {state.tp.partition for state in buffer.parked()} == {0, 1}
    first.paused = False
    assert buffer.first() is first


def test_parked_piece_releases_the_response_it_shares() -> None:
    buffer, first, second = FetchBuffer(), partition(0), partition(1)
    memory = ResponseMemory(1_000)
    buffer.put(first, piece(10, memory))
    buffer.put(second, piece(20, memory))
    buffer.park(first)
    assert buffer.bytes == 1_010
    buffer.finish(second)
    assert buffer.bytes == 10


def test_discarded_partition_leaves_nothing_behind() -> None:
    counting = Counting()
    state = partition(0)
    counting.buffer.put(state, piece(10))
    counting.buffer.put(state, error_piece(5, UnknownServerError()))
    assert state.blocked
    counting.buffer.starved = True
    counting.buffer.discard(state)
    assert (counting.buffer.bytes, state.unread, state.blocked, counting.room) == (0, 0, False, 1)
    assert counting.buffer.first() is None


def test_piece_that_is_put_back_comes_next() -> None:
    buffer, state = FetchBuffer(), partition(0)
    first, second = piece(1), piece(2)
    buffer.put(state, first)
    buffer.finish(state)
    buffer.put_back(state, first)
    buffer.put(state, second)
    assert [kept.size for kept in state.pieces] == [1, 2]
    assert (buffer.bytes, state.unread) == (3, 3)


def test_owner_is_signalled_once_per_wait_and_not_for_paused_partitions() -> None:
    counting = Counting()
    state = partition(0)
    counting.buffer.put(state, piece(1))
    assert counting.data == 0
    counting.buffer.waiting = True
    state.paused = True
    counting.buffer.put(state, piece(1))
    assert counting.data == 0
    state.paused = False
    counting.buffer.put(state, piece(1))
    counting.buffer.put(state, piece(1))
    assert counting.data == 1


def test_room_is_reported_only_to_who_was_held_back() -> None:
    counting = Counting()
    state = partition(0)
    for _ in range(3):
        counting.buffer.put(state, piece(1))
    counting.buffer.finish(state)
    assert counting.room == 0
    counting.buffer.starved = True
    counting.buffer.finish(state)
    counting.buffer.finish(state)
    assert counting.room == 1


def test_nothing_goes_back_to_initializing() -> None:
    assert all(FetchState.INITIALIZING not in STATES.followers(state) for state in FetchState)
    state = partition(0)
    state.change(FetchEvent.RESET)
    with pytest.raises(IllegalStateError, match=r"partition t-0 is 'awaiting_reset', where .*'ask_committed'"):
        state.change(FetchEvent.ASK_COMMITTED)
