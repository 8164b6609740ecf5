"""The idempotent producer's numbers: its id and epoch, and the sequence of every partition (KIP-98, KIP-360).

The broker accepts a partition's batches only in the order of their sequence numbers, so a batch that
failed for good, or whose fate nobody knows, leaves a gap that nothing may follow. The way out is a
new epoch, under which the partition starts at 0 again: it is taken only when none of the partition's
batches is under way, so that each is numbered anew knowing what came of it.

The rules for one partition, in the words of the fields of `PartitionSequence`:

    a batch is numbered when it is first sent, in order; a retried one keeps its number
    at most five batches are numbered and not settled (the broker remembers five)
    a numbered batch is sent again only when all before it are settled
    nothing new is sent while `renumber` or `unresolved`, or while batches of another epoch are not settled
    `unresolved` ends when nothing is under way: well if the last number was acknowledged, else by `renumber`

Leaves out requests and responses, which are the sender's. A transactional producer will take its id and
epoch from the coordinator, and abort where this one renumbers.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from kclient.errors import IllegalStateError
from kclient.producer.accumulator import PartitionQueue
from kclient.producer.batch import ProducerBatch

LAST_SEQUENCE = 0x7FFFFFFF
LAST_EPOCH = 0x7FFF
MAX_IN_FLIGHT = 5


def add_to_sequence(sequence: int, count: int) -> int:
    """The sequence number `count` later; after 2**31-1 comes 0."""
    return (sequence + count) & LAST_SEQUENCE


class IdentityState(enum.Enum):
    """See TRANSITIONS."""

    UNKNOWN = "unknown"
    ASKING = "asking"
    READY = "ready"
    FAILED = "failed"


TRANSITIONS: dict[IdentityState, frozenset[IdentityState]] = {
    IdentityState.UNKNOWN: frozenset({IdentityState.ASKING, IdentityState.FAILED}),
    IdentityState.ASKING: frozenset({IdentityState.UNKNOWN, IdentityState.READY, IdentityState.FAILED}),
    IdentityState.READY: frozenset({IdentityState.UNKNOWN, IdentityState.FAILED}),
    IdentityState.FAILED: frozenset(),
}
"""READY goes back to UNKNOWN when the last epoch is used up."""


class PartitionSequence:
    """Where one partition stands.

    Attributes:
        producer_id, epoch: under which its batches are numbered.
        next_sequence: the number of the next new record.
        last_acknowledged: the highest number the broker has acknowledged; None before any of this epoch.
        unsettled: the batches that have numbers and are not settled, in order.
        under_way: requests that carry one of its batches and are not answered.
        unresolved: a batch was given up and may or may not have been written.
        renumber: a new epoch is needed, once nothing is under way.
    """

    __slots__ = (
        "epoch",
        "last_acknowledged",
        "next_sequence",
        "producer_id",
        "renumber",
        "under_way",
        "unresolved",
        "unsettled",
    )

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1
        self.next_sequence = 0
        self.last_acknowledged: int | None = None
        self.unsettled: list[ProducerBatch] = []
        self.under_way = 0
        self.unresolved = False
        self.renumber = False

    def restart(self, producer_id: int, epoch: int) -> None:
        """Number everything that is not settled from 0 on."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.last_acknowledged = None
        self.unresolved = self.renumber = False
        for batch in self.unsettled:
            self._number(batch)

    def append(self, batch: ProducerBatch) -> None:
        """Number a new batch."""
        self.unsettled.append(batch)
        self._number(batch)

    def _number(self, batch: ProducerBatch) -> None:
        batch.stamp(self.producer_id, self.epoch, self.next_sequence)
        self.next_sequence = add_to_sequence(self.next_sequence, batch.count)

    def acknowledge(self, batch: ProducerBatch) -> None:
        """The broker has a batch, perhaps one that was given up already."""
        if batch in self.unsettled:
            self.unsettled.remove(batch)
        if (batch.producer_id, batch.producer_epoch) != (self.producer_id, self.epoch):
            return
        last = add_to_sequence(batch.sequence, batch.count - 1)
        before = -1 if self.last_acknowledged is None else self.last_acknowledged
        if (last - before) & LAST_SEQUENCE < LAST_SEQUENCE // 2:
            self.last_acknowledged = last

    @property
    def is_complete(self) -> bool:
        """Whether every number that was given out is acknowledged."""
        last = self.last_acknowledged
        return self.next_sequence == (0 if last is None else add_to_sequence(last, 1))


class Identity:
    """The producer's id and epoch, and what they mean for each partition.

    Parameters:
        enabled: False for a producer that is not idempotent: everything may be sent, and nothing is numbered.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.state = IdentityState.UNKNOWN
        self.producer_id = -1
        self.epoch = -1
        self._open: dict[PartitionSequence, None] = {}

    def move_to(self, state: IdentityState) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the table does not have this transition.
        """
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"a producer id cannot go from {self.state.value} to {state.value}")
        self.state = state

    @property
    def wanted(self) -> bool:
        """Whether an id has to be asked for."""
        return self.enabled and self.state is IdentityState.UNKNOWN

    def received(self, producer_id: int, epoch: int) -> None:
        """The answer to the question for an id."""
        self.move_to(IdentityState.READY)
        self.producer_id = producer_id
        self.epoch = epoch

    # -- sending

    def may_send(self, queue: PartitionQueue, batch: ProducerBatch | None) -> bool:
        """Whether the first waiting batch of a partition (None: the one open for records) may be sent now."""
        if not self.enabled:
            return True
        if self.state is not IdentityState.READY:
            return False
        entry: PartitionSequence | None = queue.entry
        if entry is None:
            return True
        if entry.renumber:
            return False
        if batch is not None and batch.sequence >= 0:
            return entry.unsettled[0] is batch
        if entry.unresolved or len(entry.unsettled) >= MAX_IN_FLIGHT:
            return False
        return not entry.unsettled or (entry.producer_id, entry.epoch) == (self.producer_id, self.epoch)

    def sending(self, batch: ProducerBatch) -> None:
        """A batch is about to be sent: number it if it is new."""
        if not self.enabled:
            return
        entry = self.entry(batch.queue)
        if batch.sequence < 0:
            if (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch):
                entry.restart(self.producer_id, self.epoch)
            entry.append(batch)
        entry.under_way += 1

    def entry(self, queue: PartitionQueue) -> PartitionSequence:
        """Where a partition stands."""
        if queue.entry is None:
            queue.entry = PartitionSequence()
        found: PartitionSequence = queue.entry
        return found

    # -- what came of it

    def answered(self, batch: ProducerBatch) -> None:
        """A request with this batch is over, whatever its outcome."""
        if self.enabled:
            self.entry(batch.queue).under_way -= 1

    def delivered(self, batch: ProducerBatch) -> None:
        """The broker has it."""
        if self.enabled:
            self.entry(batch.queue).acknowledge(batch)

    def out_of_order(self, batch: ProducerBatch) -> None:
        """The broker misses something before this batch: that is a gap only if nothing before it is open."""
        entry = self.entry(batch.queue)
        if self.enabled and entry.unsettled and entry.unsettled[0] is batch:
            self._renumber(entry)

    def failed(self, batch: ProducerBatch, *, certain: bool) -> None:
        """A batch is given up; `certain` says that the broker did not write it."""
        if not self.enabled or batch.sequence < 0:
            return
        entry = self.entry(batch.queue)
        if batch in entry.unsettled:
            entry.unsettled.remove(batch)
        if certain:
            self._renumber(entry)
        else:
            entry.unresolved = True
            self._open[entry] = None

    def replaced(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Other batches take the place of one: under its numbers if they hold all its records."""
        if not self.enabled:
            return
        entry = self.entry(batch.queue)
        place = entry.unsettled.index(batch)
        entry.unsettled[place : place + 1] = parts
        sequence = batch.sequence
        for part in parts:
            part.stamp(batch.producer_id, batch.producer_epoch, sequence)
            sequence = add_to_sequence(sequence, part.count)
        if sum(part.count for part in parts) != batch.count:
            self._renumber(entry)

    def _renumber(self, entry: PartitionSequence) -> None:
        entry.renumber = True
        self._open[entry] = None

    def resolve(self) -> bool:
        """Do what was waiting for answers; returns whether more may be sent now."""
        due = []
        for entry in list(self._open):
            if entry.under_way:
                continue
            if not entry.renumber:
                if entry.unsettled:
                    continue
                if entry.is_complete:
                    entry.unresolved = False
                    del self._open[entry]
                    continue
                entry.renumber = True
            due.append(entry)
        if due and self.state is IdentityState.READY:
            if self.epoch == LAST_EPOCH:
                self.move_to(IdentityState.UNKNOWN)
                return False
            if any((entry.producer_id, entry.epoch) == (self.producer_id, self.epoch) for entry in due):
                self.epoch += 1
            for entry in due:
                entry.restart(self.producer_id, self.epoch)
                del self._open[entry]
            return True
        return False
