"""The buffer of fetched records: filled by the network thread, drained by the application's thread.

Bytes are counted as they are held: a piece of a response keeps the whole response in memory, so the response counts
until its last piece is drained. Partitions take turns, one piece at a time, and the pieces of a partition stay in
order. An error is a piece too, so that it is raised after the records before it. Elsewhere: decoding (`collector`) and
what to fetch (`fetcher`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from kclient.consumer.assignment.fetched_piece import FetchedPiece, ResponseMemory
from kclient.consumer.assignment.partition_state import PartitionState


class FetchBuffer:
    """Fetched pieces by partition; the fetcher limits their size.

    Attributes:
        lock: guards this buffer and the partition states; held briefly.
        bytes: memory held by undrained pieces.
        starved: a fetch was delayed, because there was no room or because of an error; the next release calls
            `on_room`.
        releases: grows with each such release.
        waiting: set by the application before it waits; the next piece calls `on_data`.
    """

    def __init__(self, on_data: Callable[[], None] = lambda: None, on_room: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.RLock()
        self.bytes = 0
        self.starved = False
        self.releases = 0
        self.waiting = False
        self.on_data = on_data
        self.on_room = on_room
        self._turns: deque[PartitionState] = deque()

    def put(self, state: PartitionState, piece: FetchedPiece) -> None:
        """Add a piece after the partition's last one (lock held)."""
        if not state.pieces:
            self._turns.append(state)
        state.pieces.append(piece)
        state.unread += piece.size
        self._hold(piece)
        if piece.error is not None:
            state.blocked = True
        if not state.paused:
            self.signal()

    def signal(self) -> None:
        """Wake the application if it waits (lock held)."""
        if self.waiting:
            self.waiting = False
            self.on_data()

    def first(self) -> PartitionState | None:
        """Return the partition whose turn it is, or None if nothing can be drained (lock held)."""
        turns = self._turns
        for _ in range(len(turns)):
            state = turns[0]
            if not state.paused:
                return state
            turns.rotate(-1)
        return None

    def finish(self, state: PartitionState) -> None:
        """Drop the partition's first piece, which was read completely, and pass on the turn (lock held)."""
        piece = state.pieces.popleft()
        state.unread -= piece.size
        self._release(piece)
        if state.blocked and not state.pieces:
            state.blocked = False
            self.starved = True
        turns = self._turns
        if turns and turns[0] is state:
            turns.popleft()
        else:
            turns.remove(state)
        if state.pieces:
            turns.append(state)
        self._room()

    def put_back(self, state: PartitionState, piece: FetchedPiece) -> None:
        """Return a piece that was finished too early to the front of its partition (lock held)."""
        if not state.pieces:
            self._turns.appendleft(state)
        state.pieces.appendleft(piece)
        state.unread += piece.size
        self._hold(piece)

    def discard(self, state: PartitionState) -> None:
        """Drop the pieces of a partition: it was moved or unassigned, or the memory is needed (lock held)."""
        state.drops += 1
        state.blocked = False
        if not state.pieces:
            return
        for piece in state.pieces:
            self._release(piece)
        state.pieces.clear()
        state.unread = 0
        self._turns.remove(state)
        self._room()

    def park(self, state: PartitionState) -> None:
        """Detach a paused partition's pieces from the responses they share with others (lock held)."""
        for piece in state.pieces:
            if piece.memory.pieces > 1:
                self._release(piece)
                piece.data = bytes(piece.data)
                piece.cursor = None
                piece.memory = ResponseMemory(piece.size)
                self._hold(piece)

    def parked(self) -> list[PartitionState]:
        """Return the paused partitions that hold pieces (lock held)."""
        return [state for state in self._turns if state.paused]

    def _hold(self, piece: FetchedPiece) -> None:
        if piece.memory.pieces == 0:
            self.bytes += piece.memory.size
        piece.memory.pieces += 1

    def _release(self, piece: FetchedPiece) -> None:
        piece.memory.pieces -= 1
        if piece.memory.pieces == 0:
            self.bytes -= piece.memory.size

    def _room(self) -> None:
        if self.starved:
            self.starved = False
            self.releases += 1
            self.on_room()
