"""The loop: read, transform, send, and commit results and offsets in one transaction.

A transaction begins with the first record of a batch and is committed when the batch is full or its time has passed. An
error leads to one of three ends:

    transient       the transaction is aborted, every partition returns to the committed offsets; the loop continues:
                    a rebalance, a lost membership, a transaction that timed out, unreachable brokers
    final           the same, and the error is raised: a record on which the function fails, a missing permission
    fatal           the error is raised: another producer has the transactional id, and does the work

Partitions are revoked only within `poll`. Its listener commits the batch before a partition is given up, so that the
member that reads the partition next continues behind the batch; if partitions are lost, the batch is aborted. The
coordinator checks at each commit that the consumer is still a member (KIP-447), so a slow one cannot commit what others
have read in the meantime.

A kill at any moment leaves a transaction that is aborted (by its timeout, or by the next `init_transactions`) or, once
the coordinator has written the decision to commit, is committed in any case, together with the group's offsets.

Elsewhere: waiting (`kclient.net.operation`), and what the calls do in the clients.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from kclient.consumer import AsyncConsumer, Consumer, Records
from kclient.errors import (
    CommitFailedError,
    ConcurrentUseError,
    DisconnectedError,
    FencedMemberEpochError,
    IllegalGenerationError,
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    MaxPollIntervalExceededError,
    OutOfOrderSequenceError,
    RebalanceInProgressError,
    RecordNotAcceptedError,
    StaleMemberEpochError,
    TransactionAbortableError,
    TransformError,
    UnknownMemberIdError,
    UnknownProducerIdError,
)
from kclient.net.operation import Call, Operation, Pause
from kclient.producer import AsyncProducer, Producer, ProducerRecord
from kclient.state_machine import StateTable
from kclient.transform.batch import Batch
from kclient.transform.functions import AsyncFunction, AsyncOnError, results
from kclient.transform.guard import Drive, Guard
from kclient.transform.metrics import TransformMetrics
from kclient.types import ConsumerRecord, TopicPartition

LOOK = 0.1
"""Seconds after which a poll without records checks whether the loop is to stop."""
EXIT_SECONDS = 5.0
"""Seconds that the transaction has to end after Ctrl-C or cancellation."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds to wait after a batch was aborted; doubled each time until one is committed."""

PASSING = (
    CommitFailedError,
    DisconnectedError,
    FencedMemberEpochError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaTimeoutError,
    MaxPollIntervalExceededError,
    OutOfOrderSequenceError,
    RebalanceInProgressError,
    RecordNotAcceptedError,
    StaleMemberEpochError,
    TransactionAbortableError,
    UnknownMemberIdError,
    UnknownProducerIdError,
)
"""After these errors, unless they are fatal, the next transaction may succeed with the same records. All others are
final.
"""

_log = logging.getLogger(__name__)


class Phase(enum.Enum):
    """The phase of the transaction, which decides how to leave none open."""

    NONE = "none is open"
    OPEN = "it can be aborted"
    COMMITTING = "a commit was requested; until its outcome is known, it can only be requested again"
    ABORTING = "an abort was requested"


class Event(enum.Enum):
    """What changes the phase."""

    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"
    END = "end"


STATES = StateTable(
    "transform's transaction",
    {
        Phase.NONE: {Event.BEGIN: Phase.OPEN},
        Phase.OPEN: {Event.COMMIT: Phase.COMMITTING, Event.ABORT: Phase.ABORTING},
        Phase.COMMITTING: {
            Event.COMMIT: Phase.COMMITTING,
            Event.ABORT: Phase.ABORTING,
            Event.END: Phase.NONE,
        },
        Phase.ABORTING: {Event.ABORT: Phase.ABORTING, Event.END: Phase.NONE},
    },
)
"""An end that failed may be requested again, and a failed commit is followed by an abort."""


class Loop:
    """The loop of one consumer and one producer.

    Parameters:
        consumer, producer: both blocking, or both async.
        function: returns the results of a record.
        on_error: decides about a record on which the function failed.
        max_records, max_seconds: when a batch is committed.
        awaits: whether calls are awaited.
        drive: drives an operation within a `poll`.
        clock: seconds.

    Attributes:
        metrics: the metrics.
    """

    def __init__(
        self,
        consumer: Consumer | AsyncConsumer,
        producer: Producer | AsyncProducer,
        function: AsyncFunction,
        on_error: AsyncOnError | None,
        max_records: int,
        max_seconds: float,
        *,
        awaits: bool,
        drive: Drive,
        clock: Callable[[], float],
    ) -> None:
        self.metrics = TransformMetrics()
        # Both kinds of client have the same calls; the driver awaits them if necessary.
        self._consumer: Any = consumer
        self._producer: Any = producer
        self._function = function
        self._on_error = on_error
        self._new_batch = partial(Batch, max_records, max_seconds)
        self._awaits = awaits
        self._drive = drive
        self._clock = clock
        self._running = self._stopping = self._ending = False
        self._phase = Phase.NONE
        self._batch = self._new_batch()
        # Why the batch can no longer be committed, detected within a poll.
        self._broken: Exception | None = None
        # The positions to return to for partitions without a committed offset: their first record. They also apply to a
        # partition that was revoked and assigned again: if another member had read it, it would have a committed
        # offset.
        self._places: dict[TopicPartition, int] = {}
        self._unread = False
        self._failures = 0
        self._timeout: float | None = None

    def stop(self) -> None:
        """End after the current record; from any thread, task or signal handler."""
        self._stopping = True

    def run(self) -> Operation[None]:
        """See `Transform.run`."""
        if self._running:
            raise ConcurrentUseError("this transform runs already")
        self._running, self._ending, self._timeout = True, False, None
        consumer = self._consumer
        before = consumer.listener
        consumer.listener = Guard(before, self._drive, self._before_revoked, self._before_lost)
        try:
            yield from self._begin()
            while not self._stopping or self._batch.records_in:
                yield from self._turn()
            if self._unread:
                yield from self._rewind()
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from self._give_up(error)
            raise
        finally:
            consumer.listener = before
            self._running = False

    def _begin(self) -> Operation[None]:
        try:
            yield Call(self._producer.init_transactions)
        except IllegalStateError as error:
            if error.fatal:
                raise
            # It has its id already; otherwise beginning the first transaction fails with the reason.
            _log.debug("the producer is not initialized: %s", error)

    # -- one turn

    def _turn(self) -> Operation[None]:
        """Read and transform records; commit when that is due."""
        try:
            if not self._stopping:
                records = yield from self._read()
                yield from self._transform(records)
            if self._batch.records_in and (self._stopping or not self._batch.seconds_left(self._clock())):
                yield from self._commit()
        except PASSING as error:
            if error.fatal or (self._stopping and isinstance(error, KafkaTimeoutError)):
                raise
            yield from self._start_over(error)

    def _read(self) -> Operation[Records]:
        batch = self._batch
        seconds = min(LOOK, batch.seconds_left(self._clock())) if batch.records_in else LOOK
        room = min(batch.room, self._consumer.config.max_poll_records)
        try:
            records: Records = yield Call(self._consumer.poll, seconds, room)
        except PASSING:
            raise
        except KafkaError:
            # The error concerns the next record; the earlier ones are valid.
            if batch.records_in and self._broken is None:
                yield from self._commit()
            raise
        if self._broken is not None:
            raise self._broken
        return records

    def _transform(self, records: Records) -> Operation[None]:
        by_partition = records.by_partition()
        for tp, chunk in by_partition.items():
            if tp not in self._places:
                self._places[tp] = chunk[0].offset
        for tp, chunk in by_partition.items():
            for record in chunk:
                if self._stopping:
                    self._unread = True
                    return
                if not self._batch.seconds_left(self._clock()) and self._batch.records_in:
                    yield from self._commit()
                if self._phase is Phase.NONE:
                    yield Call(self._producer.begin_transaction)
                    self._change(Event.BEGIN)
                    self._batch.started = self._clock()
                made = yield from self._apply(record)
                yield from self._send(record, made)
                self._batch.add(tp, record, len(made))

    def _apply(self, record: ConsumerRecord) -> Operation[tuple[ProducerRecord, ...]]:
        try:
            try:
                return (yield from results(self._function(record), awaits=self._awaits))
            except Exception as error:
                self.metrics.failed.add()
                if self._on_error is None:
                    raise
                return (yield from results(self._on_error(record, error), awaits=self._awaits))
        except Exception as error:
            raise _of(record, error) from error

    def _send(self, record: ConsumerRecord, made: tuple[ProducerRecord, ...]) -> Operation[None]:
        send = self._producer.send
        try:
            for one in made:
                arguments = one.topic, one.value, one.key, one.headers, one.partition, one.timestamp
                if self._awaits:
                    yield Call(send, *arguments)
                else:
                    send(*arguments)
        except Exception as error:
            if isinstance(error, KafkaError) and (error.abortable or error.fatal or isinstance(error, PASSING)):
                raise
            raise _of(record, error) from error

    # -- how a batch ends

    def _change(self, event: Event) -> None:
        self._phase = STATES.next_state(self._phase, event)

    def _commit(self) -> Operation[None]:
        batch, began = self._batch, self._clock()
        try:
            yield Call(self._producer.send_offsets_to_transaction, batch.offsets, self._consumer.group_metadata())
        except KafkaTimeoutError as error:
            _log.warning("%s", error)  # it continues, and the commit waits for it
        self._change(Event.COMMIT)
        yield from self._patiently(self._producer.commit_transaction)
        self._committed(batch, began)

    def _committed(self, batch: Batch, began: float) -> None:
        self._change(Event.END)
        self.metrics.committed(batch, began, self._clock())
        self._places.update((tp, committed.offset) for tp, committed in batch.offsets.items())
        self._batch = self._new_batch()
        self._failures = 0

    def _abort(self) -> Operation[None]:
        if self._phase is not Phase.NONE:
            self._change(Event.ABORT)
            yield from self._patiently(self._producer.abort_transaction)
            self._change(Event.END)
            self.metrics.aborted(self._batch)
        self._batch = self._new_batch()

    def _start_over(self, error: KafkaError) -> Operation[None]:
        """Drop the batch, and read it again."""
        self._broken = None
        if self._batch.records_in:
            _log.warning("%d records are aborted, and read again: %s", self._batch.records_in, error)
        yield from self._abort()
        yield from self._rewind()
        yield Pause(min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures))
        self._failures = min(self._failures + 1, 10)

    def _rewind(self) -> Operation[None]:
        """Set the consumer's positions to the committed offsets of the group.

        All partitions are requested, because only the group knows the result of a commit without a response.
        """
        self._unread = False
        consumer = self._consumer
        assigned = consumer.assignment()
        if not assigned:
            return
        committed = yield from self._patiently(lambda timeout: consumer.committed(assigned, timeout))
        for tp, found in committed.items():
            place = self._places.get(tp) if found is None else found
            if place is not None:
                consumer.seek(tp, place)

    def _patiently(self, call: Callable[[float | None], Any]) -> Operation[Any]:
        """Repeat a call whose result must be known, until it is or the loop is to stop."""
        while True:
            try:
                return (yield Call(call, self._timeout))
            except KafkaTimeoutError as error:
                if self._stopping or self._ending:
                    raise
                _log.warning("%s", error)

    def _give_up(self, error: BaseException) -> Operation[None]:
        """Leave no transaction open after an error that ends the loop."""
        self._ending, self._broken = True, None
        interrupted = not isinstance(error, Exception)
        self._timeout = EXIT_SECONDS if interrupted else None
        for steps in (self._end_transaction(error),) if interrupted else (self._end_transaction(error), self._rewind()):
            try:
                yield from steps
            except KafkaError as failed:
                if type(failed) is not type(error):
                    error.add_note(f"while it was raised: {failed}")

    def _end_transaction(self, error: BaseException) -> Operation[None]:
        if self._phase is Phase.COMMITTING and not getattr(error, "abortable", False):
            batch, began = self._batch, self._clock()
            try:
                yield Call(self._producer.commit_transaction, self._timeout)
                self._committed(batch, began)
            except KafkaError as failed:
                if not failed.abortable:
                    raise
        yield from self._abort()

    # -- in the middle of a poll

    def _before_revoked(self, partitions: Collection[TopicPartition]) -> Operation[None]:
        """Commit before the partitions go to other members, which continue after the committed offsets."""
        if self._batch.records_in and self._broken is None:
            try:
                yield from self._commit()
            except KafkaError as error:
                self._broken = error

    def _before_lost(self, partitions: Collection[TopicPartition]) -> Operation[None]:
        """Abort, because other members may have read these partitions already."""
        if self._batch.records_in:
            self._broken = CommitFailedError("its partitions were lost")
        yield from ()


def _of(record: ConsumerRecord, error: Exception) -> TransformError:
    return TransformError(record.topic, record.partition, record.offset, reason=error)
