"""One batch on its way to one partition, and the table of its states.

A batch has its bytes and their idempotent identity, a `result` that its futures share, and the `attempts` to deliver
it. Elsewhere: sending (`sender`), and the encoding (`kclient.records`).
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Any, Protocol

from kclient.producer.attempts import Attempts
from kclient.producer.result import BatchResult, Outlet, Piece
from kclient.records import BatchBuilder
from kclient.state_machine import StateTable


class BatchState(enum.IntEnum):
    """The states of a batch. Integers, because they are looked up for every batch and a plain Enum hashes in Python."""

    WAITING = 1
    IN_FLIGHT = 2
    DELIVERED = 3
    FAILED = 4
    REPLACED = 5


class BatchEvent(enum.IntEnum):
    """The events that change the state of a batch; integers for the same reason."""

    SEND = 1
    RETRY = 2
    DELIVER = 3
    FAIL = 4
    REPLACE = 5


STATES = StateTable(
    "batch",
    {
        BatchState.WAITING: {BatchEvent.SEND: BatchState.IN_FLIGHT, BatchEvent.FAIL: BatchState.FAILED},
        BatchState.IN_FLIGHT: {
            BatchEvent.RETRY: BatchState.WAITING,
            BatchEvent.DELIVER: BatchState.DELIVERED,
            BatchEvent.FAIL: BatchState.FAILED,
            BatchEvent.REPLACE: BatchState.REPLACED,
        },
        BatchState.DELIVERED: {},
        BatchState.FAILED: {},
        BatchState.REPLACED: {},
    },
)
"""WAITING is open for records, full, or due for another attempt; IN_FLIGHT is sent without a response."""


class Queue(Protocol):
    """The queue of a partition as the sender sees it; see `accumulator.PartitionQueue`."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def ready(self) -> deque[ProducerBatch]: ...

    entry: Any
    drained: int
    in_flight: int
    batch_limit: int
    target: int

    def open_since(self) -> float: ...
    def seal(self) -> bool: ...
    def rest(self) -> bool: ...


class ProducerBatch:
    """Records for one partition that are sent, delivered or failed together.

    Attributes:
        created, deadline: when its first record was appended and when delivery must have ended (client's clock).
        builder: its records until it has a result.
        wire: its encoded bytes; None if they must be built (again).
        producer_id, producer_epoch, sequence: its idempotent identity, -1 before it has one.
        attempts, result: see the module.
    """

    __slots__ = (
        "_accounted",
        "_transactional",
        "attempts",
        "builder",
        "created",
        "deadline",
        "partition",
        "producer_epoch",
        "producer_id",
        "queue",
        "result",
        "sequence",
        "state",
        "topic",
        "wire",
    )

    def __init__(
        self,
        queue: Queue,
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
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1
        self.wire: bytes | memoryview | None = None
        self.state = BatchState.WAITING
        self.attempts = Attempts()
        self.result = BatchResult(queue.topic, queue.partition, builder, outlet)
        self._accounted = 0
        self._transactional = transactional

    @property
    def count(self) -> int:
        """The number of records."""
        return self.result.count

    @property
    def settled(self) -> bool:
        """Whether it was delivered, failed or replaced."""
        return self.result.settled

    def change(self, event: BatchEvent) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        self.state = STATES.next_state(self.state, event)

    def stamp(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Assign an idempotent identity; the bytes are built again."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.sequence = sequence
        self.wire = None

    def build(self) -> bytes | memoryview:
        """Return its bytes for the broker, compressed once."""
        if self.wire is None:
            assert self.builder is not None
            self.wire = self.builder.build(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.sequence,
                is_transactional=self._transactional,
            )
        return self.wire

    def account(self) -> int:
        """Record how many bytes of buffer_memory it holds, now that it takes no more records, and return them."""
        if self.builder is not None:
            self._accounted = self.builder.size_in_bytes
        return self._accounted

    def take_account(self) -> int:
        """Return the recorded bytes, once."""
        accounted, self._accounted = self._accounted, 0
        return accounted

    # -- the end

    def deliver(self, base_offset: int, log_append_time: int) -> None:
        """Record that the broker has stored it."""
        self._end(BatchEvent.DELIVER)
        self.result.deliver(base_offset, log_append_time)

    def fail(self, error: BaseException, errors: dict[int, BaseException] | None = None) -> None:
        """Fail its records; `errors` has those of records that failed for a reason of their own."""
        self._end(BatchEvent.FAIL)
        self.result.fail(error, errors or {})

    def replace(self, pieces: list[Piece], errors: dict[int, BaseException]) -> None:
        """Move its records to other batches, except those that failed by themselves."""
        self._end(BatchEvent.REPLACE)
        self.result.replace(pieces, errors)

    def _end(self, event: BatchEvent) -> None:
        self.change(event)
        self.builder = None
        self.wire = None
