"""One batch on its way to one partition, and the table of its states.

A batch carries the state of all its records' futures: a future is (batch, index) and resolves when
the batch settles. A batch that was too large for the broker, or held records the broker refused, is
replaced by others; it then knows where each of its records went. Leaves out who sends it (`sender`)
and how its bytes are made (`kclient.records`).
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kclient.errors import IllegalStateError
from kclient.records import BatchBuilder
from kclient.types import PartitionInfo

if TYPE_CHECKING:
    from kclient.producer.accumulator import PartitionQueue
    from kclient.producer.future import RecordFuture


class BatchState(enum.IntEnum):
    """See TRANSITIONS. Numbers, since they are looked up for every batch and a plain Enum hashes in Python."""

    WAITING = 1
    IN_FLIGHT = 2
    DELIVERED = 3
    FAILED = 4
    REPLACED = 5


TRANSITIONS: dict[BatchState, frozenset[BatchState]] = {
    BatchState.WAITING: frozenset({BatchState.IN_FLIGHT, BatchState.FAILED}),
    BatchState.IN_FLIGHT: frozenset({BatchState.WAITING, BatchState.DELIVERED, BatchState.FAILED, BatchState.REPLACED}),
    BatchState.DELIVERED: frozenset(),
    BatchState.FAILED: frozenset(),
    BatchState.REPLACED: frozenset(),
}
"""WAITING is open for records, full, or due for another attempt; IN_FLIGHT is sent and not answered."""

Callback = Callable[["RecordFuture"], None]


class Piece(NamedTuple):
    """A run of records of a replaced batch: from index `first` on they are in `batch`, from `start` on."""

    first: int
    batch: ProducerBatch
    start: int


class Outlet(Protocol):
    """Who is told of settled batches, and which lock guards what their futures share."""

    @property
    def lock(self) -> Any: ...

    def settled(self, batch: ProducerBatch, callbacks: list[tuple[RecordFuture, Callback]]) -> None:
        """A batch was delivered, failed or was replaced (network thread)."""

    def call_back(self, future: RecordFuture, callback: Callback) -> None:
        """A callback came after its batch had settled (any thread)."""

    def check_usable(self) -> None:
        """Raise if nobody will settle batches any more."""


class ProducerBatch:
    """Records for one partition that travel, succeed or fail together.

    Attributes:
        created, deadline: when its first record came and when delivery must be over (driver's clock).
        attempts: how often it was sent.
        retry_at: not before this time is it sent again.
        failed_leader, failed_epoch: who did not take the last attempt because the metadata was old, else None.
        ordinal: its place among the partition's batches, given when first sent; -1 before.
        producer_id, producer_epoch, sequence: its idempotent identity, -1 before it has one.
        wire: its bytes as last built, None when they must be built (again).
        base_offset, log_append_time: the broker's answer; -1 when it has none.
        settled: whether nothing will change any more here; the pieces of a replaced batch are on their own.
        error: why it failed. errors: by index, errors of single records that differ from `error`.
        last_error: why the last attempt failed.
        maybe_written: whether an earlier attempt may have put it into the log unnoticed.
        pieces: where the records of a replaced batch went.
        deliveries: futures and the functions to tell of their results, in turn: f1, on_delivery1, f2, on_delivery2.
        accounted: bytes of buffer_memory that it holds.
        on_wire: whether a request that carries it is unanswered; it may have failed by its deadline meanwhile.
        transactional: whether it belongs to a transaction.
    """

    __slots__ = (
        "_callbacks",
        "_count",
        "_seen",
        "_waiters",
        "accounted",
        "attempts",
        "base_offset",
        "builder",
        "created",
        "deadline",
        "deliveries",
        "error",
        "errors",
        "failed_epoch",
        "failed_leader",
        "last_error",
        "log_append_time",
        "maybe_written",
        "on_wire",
        "ordinal",
        "outlet",
        "partition",
        "pieces",
        "producer_epoch",
        "producer_id",
        "queue",
        "retry_at",
        "sequence",
        "settled",
        "state",
        "topic",
        "transactional",
        "wire",
    )

    def __init__(
        self,
        queue: PartitionQueue,
        builder: BatchBuilder,
        created: float,
        deadline: float,
        outlet: Outlet,
        transactional: bool = False,
    ) -> None:
        self.queue = queue
        self.topic = queue.topic
        self.partition = queue.partition
        self.builder: BatchBuilder | None = builder
        self.created = created
        self.deadline = deadline
        self.outlet = outlet
        self.transactional = transactional
        self.attempts = 0
        self.retry_at = 0.0
        self.failed_leader: int | None = None
        self.failed_epoch: int | None = None
        self.ordinal = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1
        self.wire: bytes | memoryview | None = None
        self.state = BatchState.WAITING
        self.settled = False
        self.base_offset = -1
        self.log_append_time = -1
        self.error: BaseException | None = None
        self.errors: dict[int, BaseException] = {}
        self.last_error: BaseException | None = None
        self.maybe_written = False
        self.pieces: list[Piece] = []
        self.accounted = 0
        self.on_wire = False
        self.deliveries: list[Any] = []
        self._count = 0
        self._waiters: list[Callable[[], None]] = []
        self._callbacks: list[tuple[RecordFuture, Callback]] = []
        self._seen: set[int] = set()

    @property
    def count(self) -> int:
        """How many records it has."""
        return self._count if self.builder is None else self.builder.count

    def leader_moved(self, info: PartitionInfo) -> bool:
        """Whether there is another leader since the last attempt, for which no backoff need be waited."""
        return self.failed_leader is not None and (info.leader, info.leader_epoch) != (
            self.failed_leader,
            self.failed_epoch,
        )

    def move_to(self, state: BatchState) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the table does not have this transition.
        """
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"a batch cannot go from {self.state.name} to {state.name}")
        self.state = state

    def stamp(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Give it an idempotent identity; its bytes are built anew."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.sequence = sequence
        self.wire = None

    def build(self) -> bytes | memoryview:
        """Its bytes for the broker, compressed once."""
        if self.wire is None:
            assert self.builder is not None
            self.wire = self.builder.build(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.sequence,
                is_transactional=self.transactional,
            )
        return self.wire

    # -- the end

    def deliver(self, base_offset: int, log_append_time: int) -> None:
        """The broker has it."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._settle(BatchState.DELIVERED)

    def fail(self, error: BaseException, errors: dict[int, BaseException] | None = None) -> None:
        """It will not be delivered; `errors` has those of records that failed for a reason of their own."""
        self.error = error
        self.errors = errors or {}
        self._settle(BatchState.FAILED)

    def replace(self, pieces: list[Piece], errors: dict[int, BaseException]) -> None:
        """Its records travel on in other batches, except those that failed for themselves."""
        self.pieces = pieces
        self.errors = errors
        self._settle(BatchState.REPLACED)

    def _settle(self, state: BatchState) -> None:
        with self.outlet.lock:
            self._count = self.count
            self.move_to(state)
            self.settled = True
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
        self.builder = None
        self.wire = None
        if self.pieces:
            callbacks = [pair for pair in callbacks if not self._pass_on(*pair)]
            self._pass_on_deliveries()
        elif state is BatchState.FAILED:
            self._seen.update(future.index for future in self.deliveries[::2])
        for wake in waiters:
            wake()
        self.outlet.settled(self, callbacks)

    def _pass_on(self, future: RecordFuture, callback: Callback) -> bool:
        batch, index = self.locate(future.index)
        if batch is self:
            return False
        with self.outlet.lock:
            if not batch.settled:
                batch._seen.add(index)
                batch._callbacks.append((future, callback))
                return True
        self.outlet.call_back(future, callback)
        return True

    def _pass_on_deliveries(self) -> None:
        own: list[Any] = []
        for future, on_delivery in zip(self.deliveries[::2], self.deliveries[1::2], strict=True):
            batch, index = self.locate(future.index)
            batch._seen.add(index)
            (own if batch is self else batch.deliveries).extend((future, on_delivery))
        self.deliveries = own

    # -- what futures ask

    def locate(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch, and the index in it, where one of the records is now."""
        batch = self
        while batch.state is BatchState.REPLACED and index not in batch.errors:
            piece = batch.pieces[bisect_right(batch.pieces, index, key=lambda piece: piece.first) - 1]
            batch, index = piece.batch, piece.start + index - piece.first
        return batch, index

    def error_of(self, index: int) -> BaseException | None:
        """Why a record of this settled batch failed; None if it was delivered."""
        return self.errors.get(index, self.error)

    def add_waiter(self, wake: Callable[[], None]) -> bool:
        """Call `wake` once the batch settles; False, and no call, if it has."""
        with self.outlet.lock:
            if self.settled:
                return False
            self._waiters.append(wake)
            return True

    def remove_waiter(self, wake: Callable[[], None]) -> None:
        """Forget a waiter that gave up."""
        with self.outlet.lock:
            if wake in self._waiters:
                self._waiters.remove(wake)

    def add_callback(self, future: RecordFuture, callback: Callback) -> None:
        """Call back once the batch settles, where the producer runs callbacks; at once if it has."""
        batch, index = self.locate(future.index)
        with batch.outlet.lock:
            batch._seen.add(index)
            if not batch.settled:
                batch._callbacks.append((future, callback))
                return
        if batch.state is BatchState.REPLACED and index not in batch.errors:
            self.add_callback(future, callback)
        else:
            self.outlet.call_back(future, callback)

    def see(self, index: int) -> None:
        """Somebody looks at the result of a record: its failure need not be reported by flush."""
        self._seen.add(index)

    def unseen_failures(self) -> list[BaseException]:
        """The errors of records that failed and that nobody looked at."""
        if self.state is BatchState.FAILED:
            failed: Any = range(self.count)
        elif self.state is BatchState.REPLACED:
            failed = self.errors
        else:
            return []
        errors = (self.error_of(index) for index in failed if index not in self._seen)
        return [error for error in errors if error is not None]


def last_unsettled(batches: list[ProducerBatch]) -> ProducerBatch | None:
    """Drop settled batches from the end of the list, following replaced ones; the last that is left, or None."""
    while batches:
        last = batches[-1]
        if not last.settled:
            return last
        batches.pop()
        batches.extend({piece.batch: None for piece in last.pieces})
    return None
