"""Where the application is while it iterates: within a chunk of records, of which the iterator knows the last it gave.

The owner's thread takes chunks, leaves and finishes them; any thread may ask for the place. Elsewhere: the iterator
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
    """Where the application is within a chunk.

    Attributes:
        state: the partition.
        present: before the record that it has now, which it may not have processed.
        reached: after it.
    """

    state: PartitionState
    present: Position
    reached: Position


class Iteration:
    """The iteration of one consumer.

    Parameters:
        collector: where chunks come from, and what is left of one goes back to.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._iterator: weakref.ref[RecordIterator | AsyncRecordIterator] | None = None
        self._active: Taken | None = None
        self._last: ConsumerRecord | None = None

    def use(self, iterator: RecordIterator | AsyncRecordIterator) -> None:
        """Iterate with this. It knows its face, which the network thread must not keep alive."""
        self._iterator = weakref.ref(iterator)

    @property
    def iterator(self) -> RecordIterator | AsyncRecordIterator | None:
        """What the face iterates with."""
        return None if self._iterator is None else self._iterator()

    def outlive(self, iterator: RecordIterator | AsyncRecordIterator) -> None:
        """Keep the place of an iterator that is about to be collected."""
        self._last = iterator.last

    # -- the owner's thread

    def begin(self, max_records: int) -> RecordChunk | None:
        """Take the next chunk, for the application to get it record by record; None while nothing is fetched.

        Raises:
            KafkaError: the first thing in line is an error.
        """
        self._active = self._collector.take(max_records)
        return None if self._active is None else self._active.chunk

    def finish(self) -> None:
        """The application has had all records of its chunk."""
        if self._active is not None:
            self._collector.settle(self._active, self._active.end)
            self._active = None

    def leave(self) -> None:
        """The application goes elsewhere between two records: the rest of its chunk is read again later."""
        taken, iterator = self._active, self.iterator
        if taken is None:
            return
        assert iterator is not None
        last = iterator.last
        self._active = None
        iterator.drop()
        self._collector.give_back(taken, _reached(taken, last))

    def drop(self) -> None:
        """The end."""
        self._active = None
        iterator = self.iterator
        if iterator is not None:
            iterator.drop()

    # -- any thread

    def interrupt(self) -> None:
        """Have the application leave its chunk with the next record it asks for."""
        iterator = self.iterator
        if iterator is not None:
            iterator.interrupted = True

    def last(self) -> ConsumerRecord | None:
        """The record that the application was given last, of its present chunk."""
        iterator = self.iterator
        return self._last if iterator is None else iterator.last

    def place(self) -> Place | None:
        """Where the application is; None outside of a chunk, and before its first record."""
        taken, last = self._active, self.last()
        # Between two chunks the record may still be one of the chunk before.
        if taken is None or last is None or taken is not self._active:
            return None
        state, chunk = taken.state, taken.chunk
        if (last.topic, last.partition) != state.tp or not chunk.first_offset <= last.offset < chunk.next_offset:
            return None
        if state.place != taken.place:
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
