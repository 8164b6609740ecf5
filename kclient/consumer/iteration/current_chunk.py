"""The application's place in an iteration: a chunk of records, of which the iterator knows the last one returned.

The application's thread takes, leaves and finishes chunks; any thread may read the place. Elsewhere: the iterator
itself (`iterator` and its compiled twin), and decoding what was fetched (`collector`).
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

from kclient.consumer.assignment.partition_state import PartitionState, Position
from kclient.consumer.fetching.collector import Collector, Taken
from kclient.consumer.iteration.implementation import AsyncRecordIterator, RecordIterator
from kclient.records import ConsumerRecord, RecordChunk


class Place(NamedTuple):
    """The application's place within a chunk.

    Attributes:
        state: the partition.
        present: the position before its current record, which it may not have processed.
        reached: the position after it.
    """

    state: PartitionState
    present: Position
    reached: Position


class Iteration:
    """The iteration of one consumer.

    Parameters:
        collector: the source of chunks, which also takes back the rest of one.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._iterator: weakref.ref[RecordIterator | AsyncRecordIterator] | None = None
        self._active: Taken | None = None
        self._last: ConsumerRecord | None = None

    def use(self, iterator: RecordIterator | AsyncRecordIterator) -> None:
        """Iterate with this iterator. It refers to the consumer, which the network thread must not keep alive."""
        self._iterator = weakref.ref(iterator)

    @property
    def iterator(self) -> RecordIterator | AsyncRecordIterator | None:
        """The current iterator."""
        return None if self._iterator is None else self._iterator()

    def outlive(self, iterator: RecordIterator | AsyncRecordIterator) -> None:
        """Keep the place of an iterator that is about to be garbage-collected."""
        self._last = iterator.last

    # -- the application's thread

    def begin(self, max_records: int) -> RecordChunk | None:
        """Take the next chunk, which the application reads record by record; None if nothing is fetched.

        Raises:
            KafkaError: the next piece is an error.
        """
        self._active = self._collector.take(max_records)
        return None if self._active is None else self._active.chunk

    def finish(self) -> None:
        """Note that the application has read all records of its chunk."""
        if self._active is not None:
            self._collector.settle(self._active, self._active.end)
            self._active = None

    def leave(self) -> None:
        """Give back the rest of the chunk, because another call follows; it is read again later."""
        taken, iterator = self._active, self.iterator
        if taken is None:
            return
        assert iterator is not None
        last = iterator.last
        self._active = None
        iterator.drop()
        self._collector.give_back(taken, _reached(taken, last))

    def drop(self) -> None:
        """Drop the chunk at the end."""
        self._active = None
        iterator = self.iterator
        if iterator is not None:
            iterator.drop()

    # -- any thread

    def interrupt(self) -> None:
        """Make the application leave its chunk when it asks for the next record."""
        iterator = self.iterator
        if iterator is not None:
            iterator.interrupted = True

    def last(self) -> ConsumerRecord | None:
        """Return the record of the current chunk that was returned last."""
        iterator = self.iterator
        return self._last if iterator is None else iterator.last

    def place(self) -> Place | None:
        """Return the application's place; None outside of a chunk, and before its first record."""
        taken, last = self._active, self.last()
        # Between two chunks the record may still belong to the previous one.
        if taken is None or last is None or taken is not self._active:
            return None
        state, chunk = taken.state, taken.chunk
        if (last.topic, last.partition) != state.tp or not chunk.first_offset <= last.offset < chunk.next_offset:
            return None
        if state.drops != taken.drops:
            return None
        present = Position(last.offset, -1 if last.leader_epoch is None else last.leader_epoch)
        if last.offset == chunk.first_offset:
            present = state.position or present
        return Place(state, present, _reached(taken, last))


def _reached(taken: Taken, last: ConsumerRecord | None) -> Position:
    if last is None:
        return taken.state.position or Position(taken.chunk.first_offset)
    if last.offset + 1 >= taken.chunk.next_offset:
        return taken.end
    return Position(last.offset + 1, -1 if last.leader_epoch is None else last.leader_epoch)
