"""The identity of an idempotent producer: its id and epoch, and the sequence of every partition (KIP-98, KIP-360).

The broker accepts a partition's batches only in the order of their sequence numbers, so a batch that failed finally, or
whose outcome is unknown, leaves a gap that nothing may follow. The solution is a new epoch, in which the partition
starts at 0 again. It begins only when all batches before the gap have a result and none is in flight: the remaining
batches cannot have been written, and are numbered again.

A broker that does not know a producer id accepts a first batch with any sequence. While a topic is being created, the
partition's leader may refuse the first batch. If it then accepted another one that was in flight behind the first, the
records would change their order, and could be written twice, since the second batch was written in spite of the gap
before it. So the first batch under a producer id and epoch is alone in flight until the broker has accepted it. So is
the first batch to a topic that was created again, which has a new topic id.

The rules for one partition, in the words of the fields of `PartitionSequence`:

    a batch is numbered when it is first sent, in order; a retried one keeps its number
    until the broker has acknowledged a batch of this epoch, no batch is sent that comes after one that is not settled
    no batch is sent that comes five or more after one that is not settled (the broker remembers five)
    a numbered batch is sent again only when all before it are settled
    nothing new is sent while there is a `gap`, or `unresolved`, or while batches of another epoch are not settled
    `unresolved` ends when no numbered batch is left: with a `gap` unless the last number was acknowledged

Limitations: a broker forgets a producer id that has not written to a partition for `producer.id.expiration.ms`, by
default a day. The first batch after that is not alone in flight.

A transactional producer takes its id and epoch from the coordinator, and aborts where this one renumbers: a gap stays
until the next epoch. Elsewhere: requests and responses, which are the sender's and those of `transactions`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from uuid import UUID

from kclient.producer.batch import ProducerBatch, Queue
from kclient.state_machine import StateTable

LAST_SEQUENCE = 0x7FFFFFFF
LAST_EPOCH = 0x7FFF
REMEMBERED_BATCHES = 5
"""The number of a producer's last batches that a broker recognizes as duplicates."""


def add_to_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` later; 0 follows 2**31-1."""
    return (sequence + count) & LAST_SEQUENCE


def comes_before(sequence: int, other: int) -> bool:
    """Return whether a sequence number was assigned before another one that is only slightly older or newer."""
    return 0 < (other - sequence) & LAST_SEQUENCE < LAST_SEQUENCE // 2


class IdentityState(enum.Enum):
    """See STATES."""

    UNKNOWN = "unknown"
    ASKING = "asking"
    READY = "ready"
    FAILED = "failed"


class IdentityEvent(enum.Enum):
    """The events that change whether a producer has its id."""

    ASK = "ask"
    REFUSED = "refused"
    RECEIVED = "received"
    ASSIGNED = "assigned"
    EPOCHS_EXHAUSTED = "epochs exhausted"
    FAIL = "fail"


STATES = StateTable(
    "producer id",
    {
        IdentityState.UNKNOWN: {
            IdentityEvent.ASK: IdentityState.ASKING,
            IdentityEvent.ASSIGNED: IdentityState.READY,
            IdentityEvent.FAIL: IdentityState.FAILED,
        },
        IdentityState.ASKING: {
            IdentityEvent.REFUSED: IdentityState.UNKNOWN,
            IdentityEvent.RECEIVED: IdentityState.READY,
            IdentityEvent.FAIL: IdentityState.FAILED,
        },
        IdentityState.READY: {
            IdentityEvent.EPOCHS_EXHAUSTED: IdentityState.UNKNOWN,
            IdentityEvent.FAIL: IdentityState.FAILED,
        },
        IdentityState.FAILED: {},
    },
)
"""ASSIGNED comes from the transaction coordinator, whose requests are in `transactions`."""


class PartitionSequence:
    """The sequence state of one partition.

    Attributes:
        producer_id, epoch: the identity of its batches.
        topic_id: the id of the topic that its last batch was sent to; None if the broker gave none.
        next_sequence: the number of the next new record.
        last_acknowledged: the highest number that the broker has acknowledged under this epoch in this topic; None
            before the first.
        unsettled: the numbered batches without a result, in order.
        under_way: the number of requests in flight with one of its batches.
        unresolved: a batch was given up and may or may not have been written.
        gap: the number from which on the broker will accept nothing in this epoch; None without one.
    """

    __slots__ = (
        "epoch",
        "gap",
        "last_acknowledged",
        "next_sequence",
        "producer_id",
        "topic_id",
        "under_way",
        "unresolved",
        "unsettled",
    )

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1
        self.topic_id: UUID | None = None
        self.next_sequence = 0
        self.last_acknowledged: int | None = None
        self.unsettled: list[ProducerBatch] = []
        self.under_way = 0
        self.unresolved = False
        self.gap: int | None = None

    def restart(self, producer_id: int, epoch: int) -> None:
        """Number all batches without a result from 0 on."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.last_acknowledged = None
        self.unresolved = False
        self.gap = None
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
        """Record that the broker has a batch, perhaps one that was given up already."""
        if batch in self.unsettled:
            self.unsettled.remove(batch)
        if (batch.producer_id, batch.producer_epoch) != (self.producer_id, self.epoch):
            return
        last = add_to_sequence(batch.sequence, batch.count - 1)
        if self.last_acknowledged is None or comes_before(self.last_acknowledged, last):
            self.last_acknowledged = last

    def is_before_gap(self, batch: ProducerBatch) -> bool:
        """Return whether the broker can still accept a batch in this epoch."""
        return self.gap is None or comes_before(batch.sequence, self.gap)

    def leave_gap(self, sequence: int) -> None:
        """Record that no number from this one on can be written; if none was, it is assigned again."""
        nothing_later = not self.unsettled or comes_before(self.unsettled[-1].sequence, sequence)
        if nothing_later and self.gap is None and not self.unresolved:
            self.next_sequence = sequence
        elif self.gap is None or comes_before(sequence, self.gap):
            self.gap = sequence

    @property
    def is_complete(self) -> bool:
        """Whether every assigned number is acknowledged."""
        last = self.last_acknowledged
        return self.next_sequence == (0 if last is None else add_to_sequence(last, 1))


class Identity:
    """The producer's id and epoch, and their effect on each partition.

    Parameters:
        enabled: False for a producer that is not idempotent: every batch may be sent, without a number.
        transactional: the coordinator assigns ids and epochs, and gaps remain until it does.
    """

    def __init__(self, enabled: bool, transactional: bool = False) -> None:
        self.enabled = enabled
        self.transactional = transactional
        self.state = IdentityState.UNKNOWN
        self.producer_id = -1
        self.epoch = -1
        # Kept when a queue is dropped: the broker remembers a partition's sequence for a day.
        self._entries: dict[tuple[str, int], PartitionSequence] = {}
        self._open: dict[PartitionSequence, None] = {}

    def change(self, event: IdentityEvent) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        self.state = STATES.next_state(self.state, event)

    @property
    def wanted(self) -> bool:
        """Whether an id must be requested."""
        return self.enabled and not self.transactional and self.state is IdentityState.UNKNOWN

    def received(self, producer_id: int, epoch: int) -> None:
        """Apply the response of InitProducerId."""
        self.change(IdentityEvent.RECEIVED)
        self.producer_id = producer_id
        self.epoch = epoch

    def assign(self, producer_id: int, epoch: int) -> None:
        """Apply the identity from the transaction coordinator, while every batch has a result."""
        if self.state is IdentityState.UNKNOWN:
            self.change(IdentityEvent.ASSIGNED)
        self.producer_id = producer_id
        self.epoch = epoch
        # The others restart with their next batch.
        for entry in self._open:
            entry.restart(producer_id, epoch)
        self._open.clear()

    @property
    def is_broken(self) -> bool:
        """Whether numbers were lost, so that some partition can send nothing in this epoch."""
        self.resolve()
        return bool(self._open)

    # -- sending

    def may_send(self, queue: Queue, batch: ProducerBatch | None) -> bool:
        """Return whether the first waiting batch of a partition (None: the open one) may be sent now."""
        if not self.enabled:
            return True
        if self.state is not IdentityState.READY:
            return False
        entry = self.entry(queue)
        if batch is not None and batch.sequence >= 0:
            return entry.unsettled[0] is batch and entry.is_before_gap(batch)
        if entry.unresolved or entry.gap is not None:
            return False
        if not entry.unsettled:
            return True
        if entry.last_acknowledged is None:
            # The broker may not know the producer id, and would accept this batch as the first one.
            return False
        # Counted from the oldest one: later ones may have a result before it.
        if queue.drained - entry.unsettled[0].attempts.ordinal >= REMEMBERED_BATCHES:
            return False
        return (entry.producer_id, entry.epoch) == (self.producer_id, self.epoch)

    def sending(self, batch: ProducerBatch, topic_id: UUID | None) -> None:
        """Number a batch, unless it has a number, before it is sent to the topic with this id."""
        if not self.enabled:
            return
        entry = self.entry(batch.queue)
        if entry.topic_id != topic_id:
            # The topic was created again: the leaders of its new partitions do not know the producer id.
            entry.topic_id, entry.last_acknowledged = topic_id, None
        if batch.sequence < 0:
            if (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch):
                entry.restart(self.producer_id, self.epoch)
            entry.append(batch)
        entry.under_way += 1

    def entry(self, queue: Queue) -> PartitionSequence:
        """Return the sequence state of a partition."""
        found: PartitionSequence | None = queue.entry
        if found is None:
            key = (queue.topic, queue.partition)
            found = queue.entry = self._entries.get(key) or PartitionSequence()
            self._entries[key] = found
        return found

    # -- results

    def answered(self, batch: ProducerBatch) -> None:
        """Record that a request with this batch has ended, whatever its result."""
        if self.enabled:
            self.entry(batch.queue).under_way -= 1

    def delivered(self, batch: ProducerBatch) -> None:
        """Record that the broker has the batch."""
        if self.enabled:
            self.entry(batch.queue).acknowledge(batch)

    def out_of_order(self, batch: ProducerBatch) -> None:
        """Handle a batch that the broker received out of order: a gap only if no earlier batch is in flight."""
        entry = self.entry(batch.queue)
        if self.enabled and entry.unsettled and entry.unsettled[0] is batch:
            entry.gap = batch.sequence
            self._open[entry] = None

    def is_first(self, batch: ProducerBatch) -> bool:
        """Return whether every earlier batch has a result."""
        return self.entry(batch.queue).unsettled[:1] == [batch]

    def failed(self, batch: ProducerBatch, *, certain: bool) -> None:
        """Give a batch up; `certain` means that the broker did not write it."""
        if not self.enabled or batch.sequence < 0:
            return
        entry = self.entry(batch.queue)
        if batch in entry.unsettled:
            entry.unsettled.remove(batch)
        if certain:
            entry.leave_gap(batch.sequence)
        else:
            entry.unresolved = True
        self._open[entry] = None

    def replaced(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Replace one batch by others, with its numbers if they contain all its records."""
        if not self.enabled:
            return
        entry = self.entry(batch.queue)
        place = entry.unsettled.index(batch)
        entry.unsettled[place : place + 1] = parts
        sequence = batch.sequence
        for part in parts:
            part.stamp(batch.producer_id, batch.producer_epoch, sequence)
            sequence = add_to_sequence(sequence, part.count)
        if sequence != add_to_sequence(batch.sequence, batch.count):
            entry.leave_gap(sequence)
            self._open[entry] = None

    def resolve(self) -> None:
        """Handle what waited for responses: unresolved batches, or a new epoch."""
        due = []
        for entry in list(self._open):
            if entry.under_way:
                continue
            if entry.gap is None and entry.unresolved and not entry.unsettled:
                entry.unresolved = not entry.is_complete
                entry.gap = entry.next_sequence if entry.unresolved else None
            if entry.gap is None:
                if not entry.unresolved:
                    del self._open[entry]
            elif not entry.unsettled or not entry.is_before_gap(entry.unsettled[0]):
                due.append(entry)
        if not due or self.transactional or self.state is not IdentityState.READY:
            return
        if any((entry.producer_id, entry.epoch) == (self.producer_id, self.epoch) for entry in due):
            if self.epoch == LAST_EPOCH:
                self.change(IdentityEvent.EPOCHS_EXHAUSTED)
                return
            self.epoch += 1
        for entry in due:
            entry.restart(self.producer_id, self.epoch)
            del self._open[entry]
