"""The logic of a producer's calls, shared by `Producer` and `AsyncProducer`.

A call that may wait is an operation (see `kclient.net.operation`). The fast path of `send` appends directly to the
accumulator, and comes here only if something is missing.
"""

from __future__ import annotations

import atexit
import logging
import os
import warnings
import weakref
from typing import Any

from kclient._text import partition_count
from kclient.config import ProducerConfig
from kclient.errors import (
    BufferExhaustedError,
    ClosedError,
    DeliveryError,
    KafkaError,
    KafkaTimeoutError,
    RecordNotAcceptedError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from kclient.metrics import MetricValues
from kclient.net.cluster import Cluster
from kclient.net.engine import EXIT_SECONDS, Engine
from kclient.net.operation import Operation, Pause, ThreadWaiter, run
from kclient.net.runtime import current
from kclient.net.waiting import WaiterSet
from kclient.producer.accumulator import OnDelivery
from kclient.producer.batch import ProducerBatch, Queue
from kclient.producer.callbacks import Deliveries, Dispatcher
from kclient.producer.future import RecordFuture
from kclient.producer.implementation import Accumulator
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.partitioners import make_partitioner
from kclient.producer.record_serializer import RecordSerializer, SerializedRecord
from kclient.producer.result import BatchResult, last_unsettled
from kclient.producer.transactions import TransactionState
from kclient.producer.transactions.calls import TransactionCalls
from kclient.producer.wiring import wire_sender
from kclient.records import BatchBuilder
from kclient.records.batch import RECORD_OVERHEAD
from kclient.types import ClientHealth, GivenHeaders, PartitionInfo

ROOM_PART = 4
"""A full buffer accepts records again once this fraction of it is free; callers woken for every batch would achieve
nothing.
"""

CLOSE_SECONDS = 10.0
"""Seconds that an unlimited close() waits for the network thread once all records have a result."""

LAST_SECONDS = 1.0
"""Seconds that a close() past its deadline still waits for the remaining records to fail and their callbacks to run."""

LONGEST_PAUSE = 1.0
"""Seconds between two checks of waiting calls that the network thread still runs."""

_log = logging.getLogger(__name__)


class ProducerCore:
    """One producer.

    Parameters:
        config: the options.
        dispatcher: runs callbacks.
    """

    def __init__(self, config: ProducerConfig, dispatcher: Dispatcher) -> None:
        self.config = config
        self.waiters = WaiterSet()
        self.fatal: KafkaError | None = None
        self.closed = False
        self._partitioner = make_partitioner(config.partitioner)
        self._level = compression_level(config)
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._max_block = config.max_block_ms / 1000
        self._room_again = config.buffer_memory - config.buffer_memory // ROOM_PART
        self.engine = engine = Engine(
            config, name="kclient-producer", run_soon=dispatcher.barrier, bridge=dispatcher.bridge
        )
        self._clock = engine.clock
        runtime = engine.runtime
        self.deliveries = Deliveries(dispatcher, engine.check_usable, self._on_settled)
        self.serializer = RecordSerializer(config, self.deliveries)
        self.accumulator = Accumulator(
            self._open_batch,
            engine.wakeup,
            buffer_memory=config.buffer_memory,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger=config.linger_ms / 1000,
            time_ms=runtime.time_ms,
            ignore_keys=config.partitioner_ignore_keys,
            plain=self._partitioner is None and self.serializer.is_plain,
            seed=runtime.random().getrandbits(32),
        )
        # The fast path of send checks this flag only; the slow one then determines that no transaction is open.
        self.accumulator.usable = config.transactional_id is None
        self.batch_metrics = ProducerMetrics(engine.metrics)
        engine.metrics.gauge("buffer_total_bytes").set(config.buffer_memory)
        engine.metrics.gauge("buffer_available_bytes", lambda: config.buffer_memory - self.accumulator.used)
        engine.metrics.gauge("waiting_threads", lambda: len(self.accumulator.blocked))
        self._parts = parts = wire_sender(
            config,
            self.accumulator,
            engine.nodes,
            engine.metadata,
            new_batch=self._new_batch,
            on_fatal=self._on_fatal,
            on_change=self.waiters.notify,
            on_open=self._on_open,
            metrics=self.batch_metrics,
            random=runtime.random(),
        )
        self.transactions = parts.transactions
        self.calls = TransactionCalls(self, self.transactions, self._max_block)
        engine.add(parts.sender)
        engine.on_failure(parts.sender.stop)
        engine.metadata.add_listener(self._on_metadata)
        engine.start()
        _open_producers.add(self)

    # -- batches

    def _open_batch(self, queue: Queue) -> ProducerBatch:
        now = self._clock()
        topic = self.accumulator.topics.get(queue.topic)
        if topic is not None:
            topic.used_at = now
        return self._new_batch(queue, now, now + self._delivery_timeout, min(queue.batch_limit, queue.target))

    def _new_batch(self, queue: Queue, created: float, deadline: float, limit: int) -> ProducerBatch:
        builder = BatchBuilder(self.config.compression_type, self._level, max_bytes=limit)
        transactional = self.config.transactional_id is not None
        return ProducerBatch(queue, builder, created, deadline, self.deliveries, transactional)

    def _on_settled(self) -> None:
        accumulator = self.accumulator
        for_room_only = len(accumulator.blocked) == len(self.waiters)
        if not for_room_only or accumulator.used <= self._room_again:
            self.waiters.notify()

    def waiter(self) -> ThreadWaiter:
        """Return a waiter for one blocking call."""
        return ThreadWaiter(waiters=self.waiters)

    # -- sending

    def check(self) -> None:
        """Raise the errors that apply to every call: closed, forked, failed."""
        if self.closed:
            raise ClosedError("the producer is closed")
        self.engine.check_usable()
        if self.fatal is not None:
            raise self.fatal.with_traceback(None)

    def transaction_state(self) -> TransactionState:
        """Return the state of this producer's transactions."""
        return TransactionState.UNINITIALIZED if self.transactions is None else self.transactions.state

    def check_send(self) -> None:
        """Raise the errors that apply to `send`, such as a transaction that is not open."""
        self.check()
        if self.transactions is not None:
            self.transactions.check_send()

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> SerializedRecord:
        """Check, intercept and serialize a record."""
        self.check_send()
        record = self.serializer.prepare(topic, value, key, headers, partition, timestamp, on_delivery)
        try:
            self.check_size(record.size, record.topic, record.partition)
        except RecordTooLargeError as error:
            self.serializer.failed(record, error)
            raise
        return record

    def append_in_time(self, record: SerializedRecord) -> Operation[RecordFuture]:
        """Append a record once there is memory and the topic is known, and return its future; see Producer.send."""
        deadline = self._clock() + self._max_block
        version = self.engine.metadata.cluster.version
        try:
            while True:
                future = self._try_append(record)
                if future is not None:
                    return future
                self.check_send()
                missing = self._what_is_missing(record, version)
                now = self._clock()
                if now >= deadline:
                    raise missing
                if self.engine.metadata.fatal_error is not None:
                    raise self.engine.metadata.fatal_error
                yield Pause(min(LONGEST_PAUSE, deadline - now))
        except BaseException as error:
            self.serializer.failed(record, error)
            raise
        finally:
            self.accumulator.blocked.discard(record)

    @property
    def has_default_partitioner(self) -> bool:
        """Whether the accumulator chooses partitions."""
        return self._partitioner is None

    def try_append(self, record: SerializedRecord) -> RecordFuture | None:
        """Append a record if nothing is missing."""
        try:
            return self._try_append(record)
        except Exception as error:
            self.serializer.failed(record, error)
            raise

    def _try_append(self, record: SerializedRecord) -> RecordFuture | None:
        partition = record.partition
        if partition is None and self._partitioner is not None:
            infos = self.engine.metadata.cluster.partitions(record.topic)
            if infos is None:
                return None
            available = [info.partition for info in infos if info.leader is not None]
            partition = self._partitioner.partition(record.topic, record.key, record.value, len(infos), available)
            if partition is not None and partition not in range(len(infos)):
                raise ValueError(f"the partitioner chose {partition!r}, and {record.topic} has {len(infos)} partitions")
        return self.accumulator.try_append(
            record.topic, record.value, record.key, record.headers, partition, record.timestamp, record.on_delivery
        )

    def check_size(self, size: int, topic: str, partition: int | None = None, what: str = "the record") -> None:
        """Raise if a record with key, value and headers of this size can never be sent."""
        size += RECORD_OVERHEAD
        for name in ("max_request_size", "buffer_memory"):
            limit = getattr(self.config, name)
            if size > limit:
                raise RecordTooLargeError(
                    f"{what} takes {size} bytes, batch header included, which is more than {name} ({limit})",
                    topic=topic,
                    partition=partition,
                )

    def _what_is_missing(self, record: SerializedRecord, version: int) -> KafkaError:
        """Return the error to raise if a record still cannot be appended at the deadline.

        Raises:
            KafkaError: waiting would not help.
        """
        metadata = self.engine.metadata
        topic = record.topic
        queue = self.accumulator.topics.get(topic)
        infos = metadata.cluster.partitions(topic)
        if queue is None or not queue.partitions or infos is None:
            return self._missing_topic(topic, RecordNotAcceptedError)
        if record.partition is not None and record.partition >= len(queue.partitions):
            metadata.request_update()
            error = UnknownTopicOrPartitionError(partition_count(len(infos)), topic=topic, partition=record.partition)
            if metadata.cluster.version > version:
                raise error
            return error
        if record not in self.accumulator.blocked:
            # From now on the sender does not let batches linger.
            self.accumulator.blocked.add(record)
            self.engine.wakeup()
        last = metadata.last_error
        why = (
            "the application sends records faster than the brokers accept them"
            if last is None
            else f"the last error was: {last}"
        )
        exhausted = BufferExhaustedError(
            f"the record was not accepted: buffer_memory ({self.config.buffer_memory} bytes) stayed full for "
            f"max_block_ms ({self.config.max_block_ms}); {why}",
            topic=topic,
        )
        exhausted.__cause__ = last
        return exhausted

    def _missing_topic(self, topic: str, late: type[KafkaError]) -> KafkaError:
        metadata = self.engine.metadata
        error = metadata.topic_error(topic)
        if error is not None and not error.retriable:
            metadata.remove_topics([topic])
            raise error.with_traceback(None)
        infos = metadata.cluster.partitions(topic)
        if infos is not None:
            # It is known already, for example from partitions_for, or was dropped for a moment.
            self._add_topic(topic, infos)
            self.waiters.notify()
        metadata.add_topic(topic)
        waited = f"within max_block_ms ({self.config.max_block_ms})"
        if error is not None:
            return type(error)(f"{error.message} (still so {waited})", topic=topic)
        why = f": {metadata.last_error}" if metadata.last_error is not None else ""
        missing = late(f"there was no metadata for the topic {waited}{why}", topic=topic)
        missing.__cause__ = metadata.last_error
        return missing

    # -- metadata (network thread)

    def _on_metadata(self, cluster: Cluster) -> None:
        now = self._clock()
        idle = self.config.metadata_max_idle_ms / 1000
        for name, info in cluster.topics.items():
            if info.partitions:
                self._add_topic(name, info.partitions)
        for name, queue in list(self.accumulator.topics.items()):
            if 0.0 < queue.used_at < now - idle and self.accumulator.remove_topic(name):
                self.engine.metadata.remove_topics([name])
                self.batch_metrics.forget(name)
                self._parts.load.forget(queue)
        self.waiters.notify()

    def _add_topic(self, name: str, partitions: tuple[PartitionInfo, ...]) -> None:
        queue = self.accumulator.add_topic(name, len(partitions))
        queue.offer([info.partition for info in partitions if info.leader is not None])

    def _on_open(self, is_open: bool) -> None:
        self.accumulator.usable = is_open and not self.closed and self.fatal is None

    def _on_fatal(self, error: KafkaError) -> None:
        self.fatal = error
        self.accumulator.usable = False
        self.waiters.notify()

    # -- other calls

    def partitions_for(self, topic: str, timeout: float | None) -> Operation[list[PartitionInfo]]:
        """Return the topic's partitions; see Producer.partitions_for."""
        self.check()
        seconds = self._max_block if timeout is None else timeout
        deadline = self._clock() + seconds
        while True:
            infos = self.engine.metadata.cluster.partitions(topic)
            if infos is not None and topic in self.accumulator.topics:
                return list(infos)
            self.check()
            missing = self._missing_topic(topic, KafkaTimeoutError)
            now = self._clock()
            if now >= deadline:
                raise missing
            if self.engine.metadata.fatal_error is not None:
                raise self.engine.metadata.fatal_error
            yield Pause(min(LONGEST_PAUSE, deadline - now))

    def flush(self, timeout: float | None) -> Operation[None]:
        """Return when every record sent so far has a result; see Producer.flush."""
        self.check()
        yield from self._until_settled(timeout)
        self.raise_failures()

    def raise_failures(self) -> None:
        """Raise a DeliveryError if records failed and nobody has seen it."""
        error = self.deliveries.failures.take()
        if error is not None:
            raise error

    def forget_failures(self) -> None:
        """Drop failures of records that the calls of their transaction report."""
        self.deliveries.failures.take()

    def _until_settled(self, timeout: float | None) -> Operation[None]:
        deadline = None if timeout is None else self._clock() + timeout
        waiting_for: list[BatchResult] = []
        taken: list[bool] = []

        def take() -> None:
            waiting_for.extend(batch.result for batch in self._parts.unsettled.take_all())
            taken.append(True)
            self.waiters.notify()

        self.engine.submit(take)
        callbacks_done: list[bool] = []
        barrier_set = False
        while True:
            if taken and last_unsettled(waiting_for) is None:
                if callbacks_done or not self.deliveries.dispatcher.busy:
                    return
                if not barrier_set:
                    barrier_set = True
                    self.deliveries.dispatcher.barrier(lambda: self._passed(callbacks_done))
            self.engine.check_usable()
            left = LONGEST_PAUSE if deadline is None else deadline - self._clock()
            if left <= 0:
                count = sum(result.count for result in waiting_for)
                raise KafkaTimeoutError(f"{count} records were not delivered within {timeout:g} s; they still may be")
            yield Pause(min(LONGEST_PAUSE, left))

    def _passed(self, flag: list[bool]) -> None:
        flag.append(True)
        self.waiters.notify()

    # -- the end

    def begin_close(self, timeout: float | None) -> Operation[None]:
        """Accept no more records, and wait until the others are delivered or failed, or the timeout passes.

        An open transaction is aborted, and one that is ending is waited for.
        """
        deadline = None if timeout is None else self._clock() + timeout
        self.closed = True
        self.accumulator.usable = False
        self.waiters.notify()
        _open_producers.discard(self)
        if self.fatal is None and not self.engine.closed:
            try:
                yield from self.calls.close(timeout)
                yield from self._until_settled(None if deadline is None else max(0.0, deadline - self._clock()))
            except KafkaError as error:
                _log.debug("closing with undelivered records: %s", error)

    def end_close(self, timeout: float) -> None:
        """Stop the network thread; remaining records fail. Blocks within the timeout."""
        if not self.engine.closed:
            error = ClosedError("the producer was closed before delivery")
            self.engine.submit(lambda: self._parts.settlement.fail_all(error))
        self.engine.close(timeout)

    def close_timeout(self, timeout: float | None) -> float | None:
        """Return the seconds that a close() with this timeout may take; None if it waits for every record."""
        option = self.config.close_timeout_ms
        return option / 1000 if timeout is None and option is not None else timeout

    def closing_seconds(self, deadline: float | None) -> float:
        """Return how long the end of a close() with this deadline may take."""
        return CLOSE_SECONDS if deadline is None else max(LAST_SECONDS, deadline - self._clock())

    def health(self) -> ClientHealth:
        """See `Producer.health`."""
        return ClientHealth(self.engine.connectivity())

    def metrics(self) -> MetricValues:
        """Return all metrics of the producer."""
        return self.engine.metrics.snapshot()

    def warn_unclosed(self, face: object) -> None:
        """Warn about a producer that was not closed; its records are still delivered."""
        if self in _open_producers:  # empty in a forked child, whose parent may still close it
            warnings.warn(f"{face!r} was not closed", ResourceWarning, stacklevel=2, source=face)


def compression_level(config: ProducerConfig) -> int | None:
    """Return the level of the codec in use; None if it has none."""
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return levels.get(config.compression_type)


_open_producers: weakref.WeakSet[ProducerCore] = weakref.WeakSet()


def _flush_at_exit() -> None:
    clock = current().monotonic
    deadline = clock() + EXIT_SECONDS
    for core in list(_open_producers):
        warnings.warn("a producer was not closed before the interpreter ended", ResourceWarning, stacklevel=1)
        close_core(core, max(0.0, deadline - clock()))


def close_core(core: ProducerCore, seconds: float) -> None:
    """Close a producer at exit, giving up after this many seconds."""
    clock = core.engine.clock
    deadline = clock() + seconds
    run(core.begin_close(seconds), core.waiter())
    core.end_close(max(0.5, deadline - clock()))
    failed = core.deliveries.failures.take()
    if failed is not None:
        _log.error("%s", failed)


def _disable_in_child() -> None:
    # The fast path of send checks this flag only; the slow one then detects the fork.
    for core in list(_open_producers):
        core.accumulator.usable = False
    _open_producers.clear()


atexit.register(_flush_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disable_in_child)

__all__ = ["DeliveryError", "ProducerCore", "close_core", "compression_level"]
