"""Keeps one state machine for each partition of an internal topic that this broker leads.

The state is in the partition's log and nowhere else. When the broker begins to lead a partition, its log is replayed
into a new state machine, in pieces between which the loop does other work; until it is done the partition's keys get
COORDINATOR_LOAD_IN_PROGRESS. A write is an operation on the state machine that changes nothing yet and gives a
`CoordinatorResult`: its records are appended, then replayed, and only then is the answer given, so that it is stored on
all that acks=all means (on one node: in the log, flushed as the topic's settings say). A failed append leaves
everything as it was. When the broker does not lead the partition any more, or a new epoch of its leader begins, the
state machine is told, which answers those who wait with NOT_COORDINATOR, and is forgotten.

Everything runs on the broker's event loop, so that an operation never sees half of another one.

Not implemented: several writes in one batch (`group.coordinator.append.linger.ms`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from kclient.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaStorageError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RequestTimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from kclient.records import BatchBuilder
from refbroker.coordinators.loading import ReplayedState, load
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.states import STATES, ShardEvent, ShardState
from refbroker.coordinators.timers import ClockTimers
from refbroker.log import Origin, PartitionLog, TransactionMarker
from refbroker.metadata.partitions import Partitions
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)

NO_PRODUCER = -1
_INT32_MAX = 2**31 - 1

T = TypeVar("T")


class StateMachine(ReplayedState, Protocol):
    """What the runtime asks of the state that it keeps."""

    def loaded(self) -> None:
        """Begin: everything in the log has been replayed."""

    def unloaded(self) -> None:
        """End: another broker has taken over. Those who wait for an answer get NOT_COORDINATOR."""


S = TypeVar("S", bound=StateMachine)


@dataclass(slots=True)
class CoordinatorResult(Generic[T]):
    """What an operation comes to.

    Attributes:
        records: to be written, all or none of them.
        response: the answer once they are.
        written: called when they are, or with the error when they could not be.
        replayed: whether they change the state; not so when the state has changed already, and `written` takes that
            back after an error.
        atomic: whether they have to be in one batch; a long list of independent records does not.
    """

    records: Sequence[CoordinatorRecord]
    response: T
    written: Callable[[KafkaError | None], None] | None = None
    replayed: bool = True
    atomic: bool = True


@dataclass(slots=True)
class OwnedPartition(Generic[S]):
    """A partition of the topic that this broker leads, with its state.

    Attributes:
        log: of the partition.
        leader_epoch: in which this broker leads.
        shard: its state; to be read once it is active.
        timers: of the shard; their actions run while it is active.
    """

    partition: int
    log: PartitionLog
    leader_epoch: int
    shard: S
    timers: ClockTimers
    state: ShardState = ShardState.LOADING
    loading: asyncio.Task[None] | None = field(default=None, repr=False)

    def apply(self, event: ShardEvent) -> None:
        """Go into the state that an event leads to.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        self.state = STATES.next_state(self.state, event, f"{self.log.topic}-{self.partition}")


class ShardContext(Generic[S]):
    """What a state machine knows of its partition, its clock and its timers.

    Parameters:
        runtime: what keeps it.
        partition: of the topic.
        leader_epoch: in which this broker leads the partition.
        timers: for it.
    """

    def __init__(self, runtime: CoordinatorRuntime[S], partition: int, leader_epoch: int, timers: ClockTimers) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self._runtime = runtime
        self._timers = timers

    def now(self) -> int:
        """The time, milliseconds since the epoch."""
        return self._runtime.now()

    def schedule(
        self,
        name: str,
        delay_ms: int,
        operation: Callable[[], CoordinatorResult[None]],
        retry_after_ms: int | None = None,
    ) -> None:
        """Carry out an operation once so many milliseconds have passed.

        Parameters:
            name: of the timer; one that has it already is put off.
            retry_after_ms: when to try again what could not be written; None for not at all.
        """
        self._timers.schedule(name, delay_ms, lambda: self.carry_out(name, operation, retry_after_ms))

    def carry_out(
        self, name: str, operation: Callable[[], CoordinatorResult[None]], retry_after_ms: int | None = None
    ) -> None:
        """Carry out an operation of the state machine's own now.

        Parameters:
            name: what it is about; of its timer, when it is tried again.
            retry_after_ms: when to try again what could not be written; None for not at all.
        """
        try:
            self._runtime.write(self.partition, lambda shard: operation())
        except NotCoordinatorError:
            return
        except KafkaError as error:
            logger.warning("%r in %s-%d failed: %s", name, self._runtime.topic, self.partition, error)
            if retry_after_ms is not None:
                self.schedule(name, retry_after_ms, operation, retry_after_ms)

    def cancel(self, name: str) -> None:
        """Forget a timer."""
        self._timers.cancel(name)


class CoordinatorRuntime(Generic[S]):
    """The state machines of an internal topic's partitions. Belongs to the broker's event loop.

    Parameters:
        partitions: of the broker; it coordinates those of the topic that it leads.
        clock: the broker's.
        topic: its name.
        make: makes the state machine of a partition.
        load_buffer_bytes: how much of a log is read at once.
        compression_type: of what is written.
        base_sequence: of the batches that are written; nothing reads it, but each of Kafka's coordinators has its own.
    """

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        topic: str,
        make: Callable[[ShardContext[S]], S],
        *,
        load_buffer_bytes: int,
        compression_type: str = "none",
        base_sequence: int = 0,
    ) -> None:
        self.topic = topic
        self.now = clock
        self._partitions = partitions
        self._make = make
        self._load_buffer_bytes = load_buffer_bytes
        self._compression_type = compression_type
        self._base_sequence = base_sequence
        self._owned: dict[int, OwnedPartition[S]] = {}
        # Logs are loaded one after the other: together they would take the buffer's size each.
        self._loading = asyncio.Semaphore(1)

    # Who leads

    def follow(self, records: Sequence[Message]) -> None:
        """Take note of a change of the metadata; a listener of the metadata log."""
        if any(isinstance(record, PartitionRecord | PartitionChangeRecord | RemoveTopicRecord) for record in records):
            self.catch_up()

    def catch_up(self) -> None:
        """Load what this broker has begun to lead, and let go of what it leads no more."""
        led = {found.state.partition_id: found for found in self._partitions.led(self.topic)}
        for number, owned in list(self._owned.items()):
            found = led.get(number)
            if found is None or (found.log, found.state.leader_epoch) != (owned.log, owned.leader_epoch):
                self._unload(owned)
        for number, found in led.items():
            if number not in self._owned:
                self._load(number, found.log, found.state.leader_epoch)

    def close(self) -> None:
        """Let go of everything."""
        for owned in list(self._owned.values()):
            self._unload(owned)

    def _load(self, partition: int, log: PartitionLog, epoch: int) -> None:
        timers = ClockTimers(self.now)
        shard = self._make(ShardContext(self, partition, epoch, timers))
        owned = self._owned[partition] = OwnedPartition(partition, log, epoch, shard, timers)
        if log.log_start_offset == log.log_end_offset:
            self._activate(owned)
            return
        owned.loading = asyncio.get_running_loop().create_task(
            self._load_log(owned), name=f"refbroker load {self.topic}-{partition}"
        )

    async def _load_log(self, owned: OwnedPartition[S]) -> None:
        name = f"{self.topic}-{owned.partition}"
        try:
            async with self._loading:
                summary = await load(owned.log, owned.shard, self._load_buffer_bytes)
        except Exception as error:
            # Whatever is wrong with one partition's state, the others' keys are served.
            owned.apply(ShardEvent.LOAD_FAILED)
            expected = isinstance(error, KafkaError)
            logger.error("could not load %s: %s", name, error, exc_info=None if expected else error)
        else:
            logger.info("loaded %s, %d records, %d bytes", name, summary.records, summary.size_in_bytes)
            self._activate(owned)

    def _activate(self, owned: OwnedPartition[S]) -> None:
        owned.apply(ShardEvent.LOADED)
        owned.shard.loaded()

    def _unload(self, owned: OwnedPartition[S]) -> None:
        del self._owned[owned.partition]
        was_active = owned.state is ShardState.ACTIVE
        owned.apply(ShardEvent.UNLOAD)
        if owned.loading is not None:
            owned.loading.cancel()
        owned.timers.cancel_all()
        if was_active:
            owned.shard.unloaded()

    # Use

    def partitions(self) -> list[int]:
        """The partitions this broker coordinates, whether they are loaded yet or not."""
        return sorted(self._owned)

    def shards(self, *, complete: bool = True) -> list[S]:
        """The state of every partition that this broker coordinates, to be read.

        Parameters:
            complete: False to leave out what is being loaded.

        Raises:
            CoordinatorLoadInProgressError: one of them is being loaded.
        """
        found = []
        for partition in self.partitions():
            try:
                found.append(self.shard(partition))
            except NotCoordinatorError:
                # Its log could not be read; what it has nobody knows.
                continue
            except CoordinatorLoadInProgressError:
                if complete:
                    raise
        return found

    def shard(self, partition: int) -> S:
        """The state of a partition, to be read.

        Raises:
            CoordinatorLoadInProgressError: it is being loaded.
            NotCoordinatorError: this broker does not lead the partition, or could not load it.
        """
        return self._active(partition).shard

    def _active(self, partition: int) -> OwnedPartition[S]:
        owned = self._owned.get(partition)
        if owned is None or owned.state is not ShardState.ACTIVE:
            if owned is not None and owned.state is ShardState.LOADING:
                raise CoordinatorLoadInProgressError(topic=self.topic, partition=partition)
            raise NotCoordinatorError(topic=self.topic, partition=partition)
        return owned

    def write(
        self,
        partition: int,
        operation: Callable[[S], CoordinatorResult[T]],
        *,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = NO_PRODUCER,
    ) -> T:
        """Carry out an operation, and give its answer once its records are stored.

        Parameters:
            operation: must not change the state, except as `CoordinatorResult.replayed` says.
            producer_id, producer_epoch: whose transaction the records are part of; that the partition is, too, the
                transaction's coordinator has confirmed.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the operation's own, or that the records could not be stored, as coordinators put it.
        """
        owned = self._active(partition)
        result = operation(owned.shard)
        if result.records:
            try:
                self._append(owned, result, producer_id, producer_epoch)
            except KafkaError as error:
                failure = coordinator_error(error)
                logger.error("could not write to %s-%d: %s", self.topic, partition, error)
                if result.written is not None:
                    result.written(failure)
                raise failure from error
        if result.written is not None:
            result.written(None)
        return result.response

    def _append(
        self, owned: OwnedPartition[S], result: CoordinatorResult[T], producer_id: int, producer_epoch: int
    ) -> None:
        found = self._partitions.find(self.topic, owned.partition)
        self._partitions.check_in_sync(found)
        now = self.now()
        transactional = producer_id != NO_PRODUCER
        most = _INT32_MAX if result.atomic or transactional else found.log.config.max_message_bytes
        rest = list(result.records)
        while rest:
            builder = BatchBuilder(self._compression_type, max_bytes=most)
            taken = 0
            while taken < len(rest) and builder.append(now, *rest[taken].encode()) >= 0:
                taken += 1
            batch = builder.build(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self._base_sequence,
                is_transactional=transactional,
            )
            stored = owned.log.append(
                batch,
                leader_epoch=owned.leader_epoch,
                origin=Origin.COORDINATOR,
                now_ms=now,
                verified=transactional,
            )
            if result.replayed:
                for offset, record in enumerate(rest[:taken], stored.base_offset):
                    owned.shard.replay(record.key, record.value, producer_id, offset)
            del rest[:taken]

    def end_transaction(self, partition: int, marker: TransactionMarker) -> None:
        """Write the marker of a transaction, and let what the transaction wrote count or be forgotten.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the marker could not be stored.
        """
        owned = self._active(partition)
        marker.append_to(owned.log, leader_epoch=owned.leader_epoch, now_ms=self.now())
        owned.shard.end_transaction(marker.producer_id, committed=marker.commit)


def coordinator_error(error: KafkaError) -> KafkaError:
    """What a coordinator answers when the log gives an error."""
    if isinstance(error, UnknownTopicOrPartitionError | NotEnoughReplicasError | RequestTimedOutError):
        return CoordinatorNotAvailableError(error.message)
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError):
        return NotCoordinatorError(error.message)
    if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
        return UnknownServerError(error.message)
    return error
