"""The coordinator runtime: one state machine, or shard, for each partition of an internal topic that this broker leads.

The partition's log is the only store of the state. When the broker becomes the leader of a partition, the log is
replayed into a new shard, in pieces between which the event loop does other work; until then requests for the
partition's keys fail with COORDINATOR_LOAD_IN_PROGRESS. A write is an operation that reads the shard and returns a
`CoordinatorResult` without changing the state. Its records are appended, then replayed, and only then is the response
returned. A failed append leaves the state unchanged. When the broker no longer leads the partition, or leads it in a
new leader epoch, the shard is unloaded: it completes waiting requests with NOT_COORDINATOR and is discarded.

The answer to a client is held until everything that the shard has written is replicated (`replication_waits`), also if
the request only reads; a log is loaded up to its end, too. With one replica in sync nothing waits.

Everything runs on the broker's event loop, so that an operation never sees another one half done.

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
from refbroker.coordinators.replication_waits import Complete, ReplicationWaits
from refbroker.coordinators.states import STATES, ShardEvent, ShardState
from refbroker.coordinators.timers import ClockTimers
from refbroker.log import AppendResult, Origin, PartitionLog, TransactionMarker
from refbroker.log.verification import Verified
from refbroker.metadata.partitions import LocalPartition, Partitions
from refbroker.runtime.clock import Clock
from refbroker.runtime.eventual import all_of, then

logger = logging.getLogger(__name__)

NO_PRODUCER = -1
_INT32_MAX = 2**31 - 1

T = TypeVar("T")


class StateMachine(ReplayedState, Protocol):
    """The interface of a shard's state towards the runtime."""

    def loaded(self) -> None:
        """Start to serve: the whole log has been replayed."""

    def unloaded(self) -> None:
        """Stop: this broker no longer coordinates the partition. Complete waiting requests with NOT_COORDINATOR."""


S = TypeVar("S", bound=StateMachine)


@dataclass(slots=True)
class CoordinatorResult(Generic[T]):
    """The result of an operation.

    Attributes:
        records: the records to write.
        response: the response to return once the records are stored.
        written: called with None when the records are in the log, or with the error when they could not be appended.
        replayed: whether to replay the records; False if the operation has changed the state already and `written`
            reverts the change after an error.
        atomic: whether the records must be in one batch; a long list of independent records need not be.
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
        log: the partition's log.
        leader_epoch: the leader epoch in which this broker leads the partition.
        shard: the partition's state, readable once it is active.
        context: the shard's access to the runtime.
        timers: the shard's timers; their actions run while it is active.
        waits: what waits until the shard's writes are replicated.
    """

    partition: int
    log: PartitionLog
    leader_epoch: int
    shard: S
    context: ShardContext[S]
    timers: ClockTimers
    waits: ReplicationWaits
    state: ShardState = ShardState.LOADING
    loading: asyncio.Task[None] | None = field(default=None, repr=False)

    def continues_in(self, found: LocalPartition) -> bool:
        """Return whether the state is still that of a partition; its log may have moved to another directory."""
        if found.state.leader_epoch != self.leader_epoch:
            return False
        moved = found.log.topic_id == self.log.topic_id and self.state is ShardState.ACTIVE
        return found.log is self.log or moved

    def apply(self, event: ShardEvent) -> None:
        """Enter the state that an event leads to.

        Raises:
            IllegalStateError: the event is not possible in the current state.
        """
        self.state = STATES.next_state(self.state, event, f"{self.log.topic}-{self.partition}")


class ShardContext(Generic[S]):
    """A shard's access to its partition, the clock and its timers.

    Parameters:
        runtime: the runtime that keeps the shard.
        partition: the partition of the internal topic.
        leader_epoch: the leader epoch in which this broker leads the partition.
        timers: the shard's timers.
        waits: what waits until the shard's writes are replicated.

    Attributes:
        closed: whether the shard was unloaded, so that its operations have no effect.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[S],
        partition: int,
        leader_epoch: int,
        timers: ClockTimers,
        waits: ReplicationWaits,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.closed = False
        self._runtime = runtime
        self._timers = timers
        self._waits = waits

    def now(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        return self._runtime.now()

    def schedule(
        self,
        name: str,
        delay_ms: int,
        operation: Callable[[], CoordinatorResult[None]],
        retry_after_ms: int | None = None,
    ) -> None:
        """Run an operation after a delay, in milliseconds.

        Parameters:
            name: the timer's name; a scheduled timer of the same name is replaced.
            retry_after_ms: the delay before a failed write is retried; None for no retry.
        """
        if not self.closed:
            self._timers.schedule(name, delay_ms, lambda: self.carry_out(name, operation, retry_after_ms))

    def carry_out(
        self, name: str, operation: Callable[[], CoordinatorResult[None]], retry_after_ms: int | None = None
    ) -> None:
        """Run an operation that the shard itself starts, without a request.

        Parameters:
            name: the operation's name for the log, and for its timer if it is retried.
            retry_after_ms: the delay before a failed write is retried; None for no retry.
        """
        if self.closed:
            return
        try:
            self._runtime.write(self.partition, lambda shard: operation())
        except NotCoordinatorError:
            return
        except KafkaError as error:
            logger.warning("%r in %s-%d failed: %s", name, self._runtime.topic, self.partition, error)
            if retry_after_ms is not None:
                self.schedule(name, retry_after_ms, operation, retry_after_ms)

    def cancel(self, name: str) -> None:
        """Cancel a timer."""
        self._timers.cancel(name)

    def when_replicated(self, action: Callable[[], None]) -> None:
        """Act outside of the partition once everything that the shard has written is replicated.

        The action is dropped if another broker coordinates the partition before.
        """
        self._waits.hold(lambda error: action(), limited=False)


class CoordinatorRuntime(Generic[S]):
    """The shards of an internal topic's partitions. Used on the broker's event loop only.

    Parameters:
        partitions: the broker's partitions; it coordinates those of the topic that it leads.
        clock: the broker's clock.
        topic: the internal topic's name.
        make: creates the state machine of a partition.
        load_buffer_bytes: the number of bytes of a log to read at once.
        compression_type: the compression type of written batches.
        base_sequence: the base sequence of written batches; it is never read, but each coordinator of Kafka has its
            own value.
        timeout_ms: returns how long an answer may wait for replication, in milliseconds.
    """

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        topic: str,
        make: Callable[[ShardContext[S]], S],
        *,
        load_buffer_bytes: int,
        timeout_ms: Callable[[], int],
        compression_type: str = "none",
        base_sequence: int = 0,
    ) -> None:
        self.topic = topic
        self.now = clock
        self._partitions = partitions
        self._make = make
        self._load_buffer_bytes = load_buffer_bytes
        self._timeout_ms = timeout_ms
        self._compression_type = compression_type
        self._base_sequence = base_sequence
        self._owned: dict[int, OwnedPartition[S]] = {}
        # Logs are loaded one at a time, so that only one load buffer is in memory.
        self._loading = asyncio.Semaphore(1)

    # Who leads

    def follow(self, records: Sequence[Message]) -> None:
        """Load and unload partitions after a metadata change; a listener of the metadata log."""
        if any(isinstance(record, PartitionRecord | PartitionChangeRecord | RemoveTopicRecord) for record in records):
            self.catch_up()

    def catch_up(self) -> None:
        """Load the partitions that this broker now leads, and unload those that it no longer leads."""
        led = {found.state.partition_id: found for found in self._partitions.led(self.topic)}
        for number, owned in list(self._owned.items()):
            found = led.get(number)
            if found is None or not owned.continues_in(found):
                self._unload(owned)
            elif found.log is not owned.log:
                owned.log = found.log
                owned.waits.follow(found.log)
        for number, found in led.items():
            if number not in self._owned:
                self._load(number, found.log, found.state.leader_epoch)

    def close(self) -> None:
        """Unload all partitions."""
        for owned in list(self._owned.values()):
            self._unload(owned)

    def _load(self, partition: int, log: PartitionLog, epoch: int) -> None:
        timers = ClockTimers(self.now)
        waits = ReplicationWaits(log, timers, self.now, self._timeout_ms)
        context = ShardContext(self, partition, epoch, timers, waits)
        owned = self._owned[partition] = OwnedPartition(
            partition, log, epoch, self._make(context), context, timers, waits
        )
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
            # A partition that cannot be loaded must not affect the others.
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
        owned.context.closed = True
        owned.timers.cancel_all()
        if was_active:
            owned.shard.unloaded()
        owned.waits.close()

    # Use

    def partitions(self) -> list[int]:
        """Return the partitions that this broker coordinates, loaded or not."""
        return sorted(self._owned)

    def shards(self, *, complete: bool = True) -> list[S]:
        """Return the shard of every partition that this broker coordinates, for reading.

        Parameters:
            complete: False to skip partitions that are being loaded.

        Raises:
            CoordinatorLoadInProgressError: a partition is being loaded and `complete` is true.
        """
        found = []
        for partition in self.partitions():
            try:
                found.append(self.shard(partition))
            except NotCoordinatorError:
                # The partition's log could not be loaded, so its state is unknown.
                continue
            except CoordinatorLoadInProgressError:
                if complete:
                    raise
        return found

    def shard(self, partition: int) -> S:
        """Return the shard of a partition, for reading.

        Raises:
            CoordinatorLoadInProgressError: the partition is being loaded.
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
        verified: Verified = False,
    ) -> T:
        """Run an operation, and return its response once its records are in the log; `answer` holds it for a client.

        Parameters:
            operation: must not change the state, except as described at `CoordinatorResult.replayed`.
            producer_id, producer_epoch: the producer whose transaction the records belong to.
            verified: why that transaction may write to the partition; see `refbroker.log.verification`.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the operation failed, or its records could not be stored (see `coordinator_error`).
        """
        owned = self._active(partition)
        result = operation(owned.shard)
        if result.records:
            try:
                self._append(owned, result, producer_id, producer_epoch, verified)
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
        self,
        owned: OwnedPartition[S],
        result: CoordinatorResult[T],
        producer_id: int,
        producer_epoch: int,
        verified: Verified,
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
                verified=verified,
            )
            if result.replayed:
                for offset, record in enumerate(rest[:taken], stored.base_offset):
                    owned.shard.replay(record.key, record.value, producer_id, offset)
            del rest[:taken]

    # Answers

    def answer(self, partition: int, ask: Callable[[], T], failed: Callable[[KafkaError], T]) -> T | asyncio.Future[T]:
        """Return an answer, at once or when everything that it may depend on is replicated.

        Parameters:
            ask: returns the answer, from reading the shard or writing to it; raises the error of the request.
            failed: returns the answer for an error: of `ask`, COORDINATOR_NOT_AVAILABLE if the replicas do not follow
                in time, NOT_COORDINATOR if another broker coordinates the partition before.
        """
        try:
            response = ask()
        except KafkaError as error:
            return failed(error)
        owned = self._owned.get(partition)
        if owned is None or owned.log.high_watermark >= owned.log.log_end_offset:
            return response
        return owned.waits.future(lambda error: response if error is None else failed(error))

    def hold(self, partition: int, complete: Complete) -> None:
        """Call a function with None when everything that the shard has written is replicated, or with the error."""
        owned = self._owned.get(partition)
        if owned is None:
            complete(None)
        else:
            owned.waits.hold(complete)

    def answer_of_all(self, ask: Callable[[], T], failed: Callable[[KafkaError], T]) -> T | asyncio.Future[T]:
        """Return an answer that reads all shards; otherwise as `answer`."""
        try:
            response = ask()
        except KafkaError as error:
            return failed(error)
        waits: list[KafkaError | asyncio.Future[KafkaError | None] | None] = [
            owned.waits.future(_unchanged)
            for owned in self._owned.values()
            if owned.state is ShardState.ACTIVE and not owned.waits.is_replicated
        ]

        def respond(errors: list[KafkaError | None]) -> T:
            error = next(filter(None, errors), None)
            return response if error is None else failed(error)

        return then(all_of(waits), respond)

    def end_transaction(self, partition: int, marker: TransactionMarker) -> AppendResult:
        """Write the marker of a transaction, then apply or discard the transaction's records.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the marker could not be stored.
        """
        owned = self._active(partition)
        stored = marker.append_to(owned.log, leader_epoch=owned.leader_epoch, now_ms=self.now())
        owned.shard.end_transaction(marker.producer_id, committed=marker.commit)
        return stored


def _unchanged(error: KafkaError | None) -> KafkaError | None:
    return error


def coordinator_error(error: KafkaError) -> KafkaError:
    """Return the error that a coordinator responds with for an error of the log."""
    if isinstance(error, UnknownTopicOrPartitionError | NotEnoughReplicasError | RequestTimedOutError):
        return CoordinatorNotAvailableError(error.message)
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError):
        return NotCoordinatorError(error.message)
    if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
        return UnknownServerError(error.message)
    return error
