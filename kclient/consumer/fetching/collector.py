"""Decodes fetched records and keeps the application's positions; used by the application's thread only.

The lock is held for decisions, but not while checksums are verified or batches decompressed; the `drops` of a partition
show that it was moved in the meantime, and then the decoded records are not returned. An error is raised when it is
reached, and only if no records were collected before it: otherwise the records are returned first, and the next call
raises the error.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient._bound_serializers import bind_deserializer
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.fetched_piece import FetchedPiece
from kclient.consumer.assignment.partition_state import PartitionState, Position
from kclient.consumer.assignment.subscription import Subscription
from kclient.errors import CorruptRecordError, DeserializationError, LogTruncationError, OffsetOutOfRangeError
from kclient.records import RecordChunk, RecordCursor


class Taken(NamedTuple):
    """Records taken from a partition; `end` is the position after all of them."""

    state: PartitionState
    drops: int
    piece: FetchedPiece
    chunk: RecordChunk
    end: Position


class Collector:
    """Drains the buffer, partition by partition in turn.

    Parameters:
        subscription: has the buffer and the positions.
        config: deserializers, checksums, isolation level.
    """

    def __init__(self, subscription: Subscription, config: ConsumerConfig) -> None:
        self._subscription = subscription
        self._buffer = subscription.buffer
        self._lock = subscription.lock
        self._check = config.check_crcs
        self._committed = config.reads_committed
        self._key_deserializer = config.key_deserializer and bind_deserializer("key", config.key_deserializer)
        self._value_deserializer = config.value_deserializer and bind_deserializer("value", config.value_deserializer)

    def collect(self, max_records: int) -> list[RecordChunk]:
        """Return up to this many records, and move the positions behind them.

        Raises:
            KafkaError: the next piece is an error.
        """
        chunks: list[RecordChunk] = []
        left = max_records
        while left > 0:
            taken = self.take(left, may_raise=not chunks)
            if taken is None:
                break
            self.settle(taken, taken.end)
            chunks.append(taken.chunk)
            left -= len(taken.chunk)
        return chunks

    def take(self, max_records: int, *, may_raise: bool = True) -> Taken | None:
        """Take the next records of the partition whose turn it is; the position stays until `settle`.

        Returns:
            None if there is nothing to read (the buffer wakes the application later), or if an error is next and
            `may_raise` is false.
        """
        while True:
            with self._lock:
                state = self._buffer.first()
                if state is None:
                    self._buffer.waiting = True
                    return None
                piece = state.pieces[0]
                drops = state.drops
                if piece.error is not None:
                    if not may_raise:
                        return None
                    self._reach_error(state, piece)
                    continue
                cursor = piece.cursor or self._open(state, piece)
            try:
                chunk = cursor.take(max_records)
            except (CorruptRecordError, DeserializationError) as error:
                if not may_raise:
                    return None
                if self._stopped_at(state, drops, cursor, error):
                    raise
                continue
            with self._lock:
                if state.drops != drops or not state.pieces or state.pieces[0] is not piece:
                    continue
                end = Position(cursor.next_offset, -1 if cursor.leader_epoch is None else cursor.leader_epoch)
                leads_nowhere = cursor.exhausted and not len(chunk) and piece.end_offset <= piece.offset
                if leads_nowhere and not may_raise:
                    return None
                if cursor.exhausted:
                    end = Position(max(end.offset, piece.end_offset), end.epoch)
                    self._buffer.finish(state)
                if leads_nowhere:
                    stuck = _no_progress(state, piece)
                    state.failed(stuck)
                    raise stuck
                if not len(chunk):
                    state.position = end
                    continue
            return Taken(state, drops, piece, chunk, end)

    def settle(self, taken: Taken, position: Position) -> None:
        """Move the position: the records before it were handed to the application."""
        state = taken.state
        with self._lock:
            if state.drops == taken.drops:
                state.position = position
                state.error = None

    def give_back(self, taken: Taken, position: Position) -> None:
        """Return the rest of a chunk that the application has left; it is read again, from memory if possible."""
        state, piece = taken.state, taken.piece
        with self._lock:
            if state.drops != taken.drops:
                return
            state.position = position
            if position.offset >= taken.end.offset:
                return
            if self._committed:
                # The aborted transactions at a position are known only from the start of a fetch.
                self._subscription.rewind(state, position)
                return
            if not state.pieces or state.pieces[0] is not piece:
                self._buffer.put_back(state, piece)
            piece.cursor = None

    def _open(self, state: PartitionState, piece: FetchedPiece) -> RecordCursor:
        position = state.position
        start = piece.offset if position is None else max(piece.offset, position.offset)
        cursor = RecordCursor(
            piece.data,
            state.tp.topic,
            state.tp.partition,
            start,
            check_checksums=self._check,
            aborted=piece.aborted,
            read_committed=self._committed,
            key_deserializer=self._key_deserializer,
            value_deserializer=self._value_deserializer,
        )
        piece.cursor = cursor
        return cursor

    def _reach_error(self, state: PartitionState, piece: FetchedPiece) -> None:
        error = piece.error
        assert error is not None
        self._buffer.finish(state)
        state.failed(error)
        if isinstance(error, LogTruncationError):
            self._subscription.truncated(state, error)
        elif isinstance(error, OffsetOutOfRangeError):
            self._subscription.out_of_range(state, error)
        else:
            raise error

    def _stopped_at(
        self,
        state: PartitionState,
        drops: int,
        cursor: RecordCursor,
        error: CorruptRecordError | DeserializationError,
    ) -> bool:
        """Leave the position at the bad record; return False if the partition was moved in the meantime."""
        with self._lock:
            if state.drops != drops:
                return False
            position = Position(cursor.next_offset, -1 if cursor.leader_epoch is None else cursor.leader_epoch)
            if isinstance(error, CorruptRecordError):
                # Bytes damaged in transit are correct when fetched again; those on disk are not.
                self._subscription.rewind(state, position)
            else:
                state.position = position
            state.failed(error)
            return True


def _no_progress(state: PartitionState, piece: FetchedPiece) -> CorruptRecordError:
    # The Java client's message. Without an error the same request would be repeated silently without end.
    return CorruptRecordError(
        f"the broker answered with {piece.size} bytes in which no record at or after the offset asked for is complete",
        topic=state.tp.topic,
        partition=state.tp.partition,
        offset=piece.offset,
    )
