"""The blocking consumer.

Elsewhere: the logic of each call (`core`), and waiting in an event loop (`async_consumer`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, Unpack

from kclient._help import documents_options
from kclient._misuse import refuse_pickling, refuse_properties
from kclient._offsets import GivenOffsets, GivenTimes, checked_times
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.reset import EARLIEST, LATEST
from kclient.consumer.assignment.topics import Topic, choose
from kclient.consumer.committed.group_offsets import CommitCallback
from kclient.consumer.committed.selection import ToCommit
from kclient.consumer.core import ConsumerCore
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.health.report import ConsumerHealth
from kclient.consumer.iteration.implementation import RecordIterator
from kclient.consumer.records import Records
from kclient.consumer.wiring import wire_consumer
from kclient.errors import ConcurrentUseError
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.operation import Operation, ThreadWaiter, run
from kclient.net.runtime import current
from kclient.options import ConsumerOptions
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

T = TypeVar("T")


@documents_options(ConsumerConfig)
class Consumer:
    """A consumer of topics or partitions, alone or as a member of a group.

    With a `group_id` the consumer shares the partitions of its topics with the other members of the group, and starts
    each partition at the group's committed offset. Without one it reads all partitions of its topics and keeps its
    positions in memory; `auto_offset_reset` ("latest" by default) decides where it starts. Partitions that are added to
    a subscribed topic later are read from their beginning.

        with Consumer("orders", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            for record in consumer:
                handle(record.key, record.value)

    One thread at a time may use a consumer. Any thread may call `wakeup`, `store_offsets`, `health` and `metrics`.

    Parameters:
        topics: the names of topics to subscribe to, or compiled patterns; none to `assign` partitions later.
        options: see `kclient.config.ConsumerConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
    """

    def __init__(self, *topics: Topic, **options: Unpack[ConsumerOptions]) -> None:
        refuse_properties(type(self), topics)
        self._open(ConsumerConfig.from_options(options), topics)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], *topics: Topic, **options: Unpack[ConsumerOptions]
    ) -> Self:
        """Return a consumer configured with Kafka's dotted option names.

        Parameters:
            properties: a mapping such as `{"bootstrap.servers": ...}`, or the path of a .properties file.
            topics: the topics to subscribe to.
            options: options by their Python names; they override the properties.
        """
        consumer = cls.__new__(cls)
        consumer._open(ConsumerConfig.from_properties(properties, **options), topics)
        return consumer

    def _open(self, config: ConsumerConfig, topics: tuple[Topic, ...]) -> None:
        choose(topics, brokers_match=config.uses_consumer_protocol)  # raises before there is something to close
        self._signal = current().signal()
        self._owner = threading.RLock()
        self._core = ConsumerCore(wire_consumer(config, self._signal))
        self._iterator = RecordIterator(self._refill, self._core.app_thread.leave_iteration)
        self._core.iteration.use(self._iterator)
        if topics:
            self._core.subscribe(topics)

    # -- reading

    def poll(self, timeout: float = 0.5, max_records: int | None = None) -> Records:
        """Return fetched records, or wait for some.

        Parameters:
            timeout: seconds to wait if no record has been fetched; 0 does not wait.
            max_records: the largest number of records to return; None is the option max_poll_records.

        Returns:
            The records, empty if the timeout passed. The positions of their partitions move behind them.

        Raises:
            KafkaError: the error that prevents reading the next record, with topic, partition and offset:
                OffsetOutOfRangeError, NoOffsetForPartitionError, LogTruncationError, CorruptRecordError,
                DeserializationError, TopicAuthorizationError, UnknownTopicOrPartitionError and others.
                The next call tries again.
            WakeupError: `wakeup` was called.
            MaxPollIntervalExceededError: the previous call was longer ago than max_poll_interval_ms, so the consumer
                left its group; the next call joins again.
            FencedInstanceIdError: another consumer uses the same group_instance_id.
            Exception: an exception that a rebalance listener raised.
            ConcurrentUseError: another thread is using this consumer.
        """
        return self._run(self._core.poll(timeout, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Return the iterator over all records, which waits for further ones and does not end.

        There is one iterator for the lifetime of the consumer: after an exception or a `break`, iteration continues
        with the next record. It raises the errors of `poll`.
        """
        return self._iterator

    def _refill(self) -> Iterator[ConsumerRecord]:
        return self._run(self._core.next_chunk())

    # -- the subscription

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        *,
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics; partitions that stay subscribed keep their positions.

        A member of a group receives its share of the partitions during later calls for records.

        Parameters:
            topics: names, and compiled patterns that match whole names. Topics that are created later and match a
                pattern are added.
            exclude: names and patterns of topics to exclude from the patterns.
            listener: is notified when partitions are assigned to this member or revoked.

        Raises:
            IllegalStateError: partitions are assigned with `assign`.
        """
        self._call(self._core.subscribe, topics, exclude, listener)

    @property
    def listener(self) -> RebalanceListener:
        """The listener that was given to `subscribe`; it can be replaced until the next `subscribe`.

        Raises:
            InvalidGroupIdError: there is no group_id.
        """
        return self._core.listener

    @listener.setter
    def listener(self, listener: RebalanceListener) -> None:
        self._core.listener = listener

    def subscription(self) -> frozenset[str]:
        """Return the names of the subscribed topics."""
        return frozenset(self._core.subscription.topics or ())

    def unsubscribe(self) -> None:
        """Stop reading and leave the group, after the listener was called; `subscribe` or `assign` starts again.

        A static member does not leave the group: it gets its partitions back if it returns within the session timeout.
        """
        self._run(self._core.unsubscribe(self._seconds(None)))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions; those assigned before keep their positions.

        Raises:
            IllegalStateError: the consumer is subscribed to topics.
        """
        self._call(self._core.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._core.subscription.lock:
            return set(self._core.subscription.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`; records that were fetched are kept."""
        self._call(self._core.positions.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._call(self._core.positions.resume, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._core.positions.paused()

    # -- positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Set the position of a partition.

        Parameters:
            partition: an assigned partition.
            offset: the offset of the next record to return. With a leader epoch (OffsetAndMetadata) the log is checked
                for truncation first (KIP-320).

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        self._call(self._core.positions.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Set the positions to the first offsets; of all assigned partitions if none is named."""
        self._call(self._core.positions.seek_to_beginning, partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Set the positions to the end offsets; of all assigned partitions if none is named."""
        self._call(self._core.positions.seek_to_end, partitions)

    def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record that will be returned; wait for it if it is not known yet.

        Parameters:
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            KafkaTimeoutError: the position was not known in time.
            UnknownTopicOrPartitionError: the position was not known in time, and the cluster has no such partition.
            IllegalStateError: the partition is not assigned.
        """
        return self._run(self._core.positions.position(partition, self._seconds(timeout)))

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not.

        Parameters:
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            KafkaTimeoutError: the leaders did not answer in time.
            UnknownTopicOrPartitionError: a partition does not exist.
        """
        return self._run(self._core.positions.special_offsets(partitions, EARLIEST, self._seconds(timeout)))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition, assigned or not.

        It is the high watermark; with isolation_level="read_committed" it is the last stable offset. Parameters and
        errors are those of `beginning_offsets`.
        """
        return self._run(self._core.positions.special_offsets(partitions, LATEST, self._seconds(timeout)))

    def offsets_for_times(
        self, times: GivenTimes, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition whose timestamp is at or after a time.

        Parameters:
            times: milliseconds since the epoch, by partition.
            timeout: seconds; None is the option default_api_timeout_ms.

        Returns:
            Offset and timestamp by partition; None if no record is that recent. Errors are those of
            `beginning_offsets`.
        """
        targets = checked_times(times)
        return self._run(self._core.positions.lookup(targets, self._seconds(timeout)))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return the number of offsets between the position and the end offset of the last fetch response.

        Returns:
            None before the first response, and while no broker is reachable.
        """
        return self._core.positions.current_lag(partition)

    # -- committed offsets

    def store_offsets(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """Store offsets for the next commit; with enable_auto_offset_store=False nothing else is committed.

        The timer, `commit()` without offsets, `close` and a rebalance commit what is stored. What is stored for a
        partition is dropped when the partition is revoked or lost. Any thread may call this, as worker threads do that
        process records while another thread polls.

        Parameters:
            offsets: a record that is processed, or the offset of the next record to read of each partition.

        Raises:
            IllegalStateError: the option enable_auto_offset_store is on, or a partition is not assigned to this
                consumer, as after a rebalance; nothing is stored then.
            InvalidGroupIdError: there is no group_id.
        """
        self._core.store_offsets(offsets)

    def commit(self, offsets: ToCommit = None, timeout: float | None = None) -> None:
        """Commit offsets of the group and wait until they are stored; retriable errors are retried.

        Parameters:
            offsets: the offset of the next record to read of each partition, as int or OffsetAndMetadata; a record, to
                commit the offset after it; None for the positions of all assigned partitions.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            CommitFailedError: this consumer is no longer a member of the current generation, or the partition is not
                assigned to it.
            RebalanceInProgressError: the group is rebalancing; poll, then commit again.
            FencedInstanceIdError: another consumer uses the same group_instance_id.
            GroupAuthorizationError: the client may not access the group.
            TopicAuthorizationError: the client may not access a topic.
            OffsetMetadataTooLargeError: the metadata of an offset is longer than the broker accepts.
            KafkaTimeoutError: the commit did not succeed in time.
            InvalidGroupIdError: there is no group_id.
        """
        self._run(self._core.commit(offsets, self._seconds(timeout)))

    def commit_async(self, offsets: ToCommit = None, callback: CommitCallback | None = None) -> None:
        """Commit offsets of the group without waiting, in the order of the calls.

        A failed commit is not retried, so that it cannot overwrite a later one. Without `offsets` the positions of all
        partitions are committed each time, as in Java, including those that have not moved. That costs less than half a
        microsecond for each partition, keeps the offsets from expiring, and repairs what a commit over a lost
        connection may have set back.

        Parameters:
            offsets: as for `commit`.
            callback: called with the offsets by partition and None, or the error, during a later call of poll, commit
                or close, in order. The error is a RetriableCommitFailedError if committing again may succeed, otherwise
                one that `commit` raises. Without a callback errors are logged.

        Raises:
            TypeError: the callback cannot be called, or is a coroutine function, which nothing would await.
            InvalidGroupIdError: there is no group_id.
        """
        self._call(self._core.commit_async, offsets, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group for these partitions, assigned or not; None without one.

        Waits for open transactions that commit newer offsets of these partitions.

        Raises:
            KafkaTimeoutError: the coordinator did not answer within `timeout` seconds.
            GroupAuthorizationError: the client may not access the group.
            TopicAuthorizationError: the client may not access a topic.
            InvalidGroupIdError: there is no group_id.
        """
        return self._run(self._core.committed(partitions, self._seconds(timeout)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership of this consumer, for a producer that commits its offsets in a transaction.

        After the membership is lost, and until the consumer joins again, this is the lost one, which the coordinator
        refuses.
        """
        return self._core.of_group().group_metadata()

    # -- topics

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Return the partitions of a topic, as a broker reports them now.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            KafkaTimeoutError: no broker answered within `timeout` seconds.
        """
        return self._run(self._core.topics([topic], self._seconds(timeout)))[topic]

    def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Return the partitions of all topics that this client may see, by topic; without internal topics."""
        return self._run(self._core.topics(None, self._seconds(timeout)))

    # -- health, metrics and the end

    def wakeup(self) -> None:
        """Interrupt the waiting call, or the next one, with a WakeupError. Any thread may call this."""
        self._core.wakeup()

    def health(self) -> ConsumerHealth:
        """Return whether any broker is reachable, and the health of each partition. Any thread may call this.

        The health of a partition has position, committed offset, end offset, lag, seconds since the last progress, and
        the reason if it makes none. The call sends no request.
        """
        return self._core.health()

    @property
    def config(self) -> ConsumerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names, such as `records_consumed_total` or `records_lag_max`."""
        return self._core.metrics()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        """Call a function with the metrics at an interval, and a last time when the client closes.

        The function runs on a thread of its own, so it may block. What it raises is logged, and it is called again
        after the next interval.

        Parameters:
            hook: a plain function; it receives what `metrics()` returns.
            interval: seconds between two calls.

        Raises:
            TypeError: the hook is not a plain function.
            ValueError: the interval is not positive.
            ClosedError: the client was closed.
        """
        self._core.add_metrics_hook(hook, interval)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group to rebalance, with the next call for records.

        If this member is joining already, the group rebalances again afterwards.

        Parameters:
            reason: a text for the coordinator's log.

        Raises:
            IllegalStateError: the consumer is not subscribed, or uses group_protocol="consumer", where the coordinator
                alone decides when partitions move.
        """
        self._call(self._core.enforce_rebalance, reason)

    def close(self, timeout: float | None = None, *, leave_group: bool | None = None) -> None:
        """Stop reading and close all connections; return within the timeout, whether brokers answer or not.

        A member of a group first calls its listener and, if commits are automatic, commits.

        Parameters:
            timeout: seconds, plus the time that the listener takes; None is the option close_timeout_ms.
            leave_group: whether to leave the group, so that other members get the partitions immediately instead of
                after session_timeout_ms; None leaves unless the member is static (group_instance_id).

        Raises:
            ConcurrentUseError: another thread is using the consumer; `wakeup` it first.
            Exception: an exception that a rebalance listener raised; the consumer is closed.
        """
        core = self._core
        clock = core.engine.clock
        deadline = clock() + core.closing_seconds(timeout)
        if core.group is None:
            core.close(deadline - clock())
            return
        if not self._owner.acquire(blocking=False):
            raise ConcurrentUseError
        try:
            run(core.leave(deadline, leave_group), ThreadWaiter(self._signal))
        finally:
            self._owner.release()
            core.close(max(0.0, deadline - clock()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._core.failed()
        self.close(self._core.exit_seconds(error))

    def __del__(self) -> None:
        iterator = getattr(self, "_iterator", None)
        if iterator is not None:
            self._core.drop("Consumer", iterator)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        return f"<Consumer {self._core.config.client_id!r} of {self._core.subscription.describe()}>"

    def _seconds(self, timeout: float | None) -> float:
        return self._core.config.default_api_timeout_ms / 1000 if timeout is None else timeout

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that does not wait, as the only thread that uses the consumer."""
        if not self._owner.acquire(blocking=False):
            raise ConcurrentUseError
        try:
            self._core.engine.check_usable()
            return function(*arguments)
        finally:
            self._owner.release()

    def _run(self, operation: Operation[T]) -> T:
        """Run an operation that may wait, as the only thread that uses the consumer."""
        if not self._owner.acquire(blocking=False):
            raise ConcurrentUseError
        try:
            return run(operation, ThreadWaiter(self._signal))
        finally:
            self._owner.release()
