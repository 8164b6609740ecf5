"""The blocking consumer.

Everything it does is decided in `core`; here is only how a thread waits for it.
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
from kclient.metrics import MetricValues
from kclient.net.operation import Operation, ThreadWaiter, run
from kclient.net.runtime import current
from kclient.options import ConsumerOptions
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

T = TypeVar("T")


@documents_options(ConsumerConfig)
class Consumer:
    """Reads records of topics or partitions.

    With a `group_id` it shares the partitions of its topics with the other members of that group, and goes on
    where the group has committed. A consumer without a group reads all partitions of its topics, each from its own
    position, which it keeps in memory: it starts where `auto_offset_reset` says ("latest" unless told otherwise).
    Partitions that are added to a topic later join by themselves, and are read from their beginning.

        with Consumer("orders", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            for record in consumer:
                handle(record.key, record.value)

    A consumer belongs to one thread at a time; only `wakeup` may come from another one.

    Parameters:
        topics: what to subscribe to, names or compiled patterns; none to `assign` partitions later.
        options: see `kclient.config.ConsumerConfig`.

    Raises:
        ConfigError: an option does not exist or has a value it cannot have.
    """

    def __init__(self, *topics: Topic, **options: Unpack[ConsumerOptions]) -> None:
        refuse_properties(type(self), topics)
        self._open(ConsumerConfig.from_options(options), topics)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], *topics: Topic, **options: Unpack[ConsumerOptions]
    ) -> Self:
        """Make a consumer from Kafka's dotted names: a mapping, or the path of a .properties file.

        Parameters:
            properties: `{"bootstrap.servers": ...}`, or a path.
            topics: what to subscribe to.
            options: in Python's spelling; they win.
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
        """Return records that were fetched, or wait for some.

        Parameters:
            timeout: seconds to wait while there are none; 0 looks only.
            max_records: the most to return; None is the option max_poll_records.

        Returns:
            Records, empty when the time was up. Their positions count as read.

        Raises:
            KafkaError: what stands in the way of the next record, with its topic, partition and offset:
                OffsetOutOfRangeError, NoOffsetForPartitionError, LogTruncationError, CorruptRecordError,
                DeserializationError, TopicAuthorizationError, UnknownTopicOrPartitionError and others.
                The next call tries again.
            WakeupError: `wakeup` was called.
            MaxPollIntervalExceededError: it was called too late, and the consumer has left its group; the next call
                joins again.
            FencedInstanceIdError: another consumer uses the same group_instance_id.
            Exception: what a rebalance listener raised.
            ConcurrentUseError: another thread is using this consumer.
        """
        return self._run(self._core.poll(timeout, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Iterate over records as they come, without end.

        The iterator is one and the same for as long as the consumer lives: after an exception,
        or a `break`, iteration goes on where it was. Raises what `poll` raises.
        """
        return self._iterator

    def _refill(self) -> Iterator[ConsumerRecord]:
        return self._run(self._core.next_chunk())

    # -- what is read

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        *,
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics; those subscribed to before keep their position.

        In a group it asks for a share of them, with the next call for records.

        Parameters:
            topics: names, and compiled patterns that match whole names; topics that come to match later join by
                themselves.
            exclude: names and patterns of topics that the patterns leave out.
            listener: hears, in a group, of partitions that come and go.

        Raises:
            IllegalStateError: partitions are assigned by hand.
        """
        self._call(self._core.subscribe, topics, exclude, listener)

    @property
    def listener(self) -> RebalanceListener:
        """Who hears of partitions that come and go, as given to `subscribe`; may be replaced until the next one.

        Raises:
            InvalidGroupIdError: there is no group_id.
        """
        return self._core.listener

    @listener.setter
    def listener(self, listener: RebalanceListener) -> None:
        self._core.listener = listener

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return frozenset(self._core.subscription.topics or ())

    def unsubscribe(self) -> None:
        """Read nothing until the next `subscribe` or `assign`; leave the group, after the listener was told.

        A static member does not tell the coordinator, and gets its partitions back if it returns in time.
        """
        self._run(self._core.unsubscribe(self._seconds(None)))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions; those assigned before keep their position.

        Raises:
            IllegalStateError: the consumer is subscribed to topics.
        """
        self._call(self._core.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._core.subscription.lock:
            return set(self._core.subscription.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`; what was fetched is kept."""
        self._call(self._core.places.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Undo `pause`."""
        self._call(self._core.places.resume, partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._core.places.paused()

    # -- places

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Read on from an offset.

        Parameters:
            partition: an assigned partition.
            offset: with a leader epoch (OffsetAndMetadata) the log is checked for truncation first.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        self._call(self._core.places.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Read on from the first offset; of all assigned partitions if none is named."""
        self._call(self._core.places.seek_to_beginning, partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Read on from the end; of all assigned partitions if none is named."""
        self._call(self._core.places.seek_to_end, partitions)

    def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record to be returned; looks it up if that is not decided yet.

        Parameters:
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            KafkaTimeoutError: it could not be looked up in time.
            UnknownTopicOrPartitionError: the same, and the cluster does not know the partition.
            IllegalStateError: the partition is not assigned.
        """
        return self._run(self._core.places.position(partition, self._seconds(timeout)))

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition, which need not be assigned.

        Raises:
            KafkaTimeoutError: not all could be looked up within `timeout` seconds.
            UnknownTopicOrPartitionError: one does not exist.
        """
        return self._run(self._core.places.special_offsets(partitions, EARLIEST, self._seconds(timeout)))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The end of each partition: the high watermark, or with isolation_level "read_committed" the last
        stable offset. Raises as `beginning_offsets`.
        """
        return self._run(self._core.places.special_offsets(partitions, LATEST, self._seconds(timeout)))

    def offsets_for_times(
        self, times: GivenTimes, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after a point in time.

        Parameters:
            times: by partition, milliseconds since the epoch.
            timeout: seconds; None is the option default_api_timeout_ms.

        Returns:
            None for a partition without so young a record. Raises as `beginning_offsets`.
        """
        targets = checked_times(times)
        return self._run(self._core.places.lookup(targets, self._seconds(timeout)))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets lie between the position and the end, as of the last answer.

        Returns:
            None before an answer, and while no broker is reachable.
        """
        return self._core.places.current_lag(TopicPartition(*partition))

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
        """Commit offsets of the group, and wait until that is done; failures that may pass are tried again.

        Parameters:
            offsets: the offset of the next record to read of each partition, as int or OffsetAndMetadata; a record, to
                commit the offset after it; None for the positions of all assigned partitions.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            CommitFailedError: this consumer is not a member of the group's present generation any more, or the
                partition is not assigned to it.
            RebalanceInProgressError: the group rebalances; poll, then commit again.
            FencedInstanceIdError: another consumer uses the same group_instance_id.
            GroupAuthorizationError, TopicAuthorizationError, OffsetMetadataTooLargeError: as they say.
            KafkaTimeoutError: it did not succeed in time.
            InvalidGroupIdError: there is no group_id.
        """
        self._run(self._core.commit(offsets, self._seconds(timeout)))

    def commit_async(self, offsets: ToCommit = None, callback: CommitCallback | None = None) -> None:
        """Commit offsets of the group without waiting, after those committed before.

        It is not tried again, so that nothing older is committed after something newer. Without `offsets` all
        positions are committed each time, as in Java, also those that have not moved: it costs less than half a
        microsecond for each, keeps them from expiring, and repairs what a commit of a lost connection may have set
        back.

        Parameters:
            offsets: as for `commit`.
            callback: called with the offsets by partition and None, or the error, in a later call of poll, commit
                or close, in order. Its error is a RetriableCommitFailedError where committing again may help, else
                one that `commit` raises. Without a callback errors are logged.

        Raises:
            TypeError: the callback cannot be called, or is a coroutine function, which nothing would await.
            InvalidGroupIdError: there is no group_id.
        """
        self._call(self._core.commit_async, offsets, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these partitions, assigned or not; None where nothing is.

        Waits for open transactions that commit newer offsets of them.

        Raises:
            KafkaTimeoutError: not all were known within `timeout` seconds.
            GroupAuthorizationError, TopicAuthorizationError: as they say.
            InvalidGroupIdError: there is no group_id.
        """
        return self._run(self._core.committed(partitions, self._seconds(timeout)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group, for a producer that commits its offsets in a transaction.

        Once it has lost its membership, and until it joins again, this is who it was: the coordinator refuses that.
        """
        return self._core.of_group().group_metadata()

    # -- topics

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, fresh from a broker.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return self._run(self._core.topics([topic], self._seconds(timeout)))[topic]

    def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that this client may see, with their partitions; without internal ones."""
        return self._run(self._core.topics(None, self._seconds(timeout)))

    # -- the rest

    def wakeup(self) -> None:
        """Make the owner's waiting call, or its next one, raise WakeupError once; from any thread."""
        self._core.wakeup()

    def health(self) -> ConsumerHealth:
        """Return whether any broker is reachable, and how each partition does: position, committed offset, end, lag,
        last progress, and what it waits for.

        From any thread; asks no broker.
        """
        return self._core.health()

    @property
    def config(self) -> ConsumerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def metrics(self) -> MetricValues:
        """What this client counted, by Kafka's names, as `records_consumed_total` or `records_lag_max`."""
        return self._core.metrics()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group divide its partitions anew, with the next call for records.

        While this member joins already, for whatever reason, this asks for one more rebalance after that.

        Parameters:
            reason: for the coordinator's log.

        Raises:
            IllegalStateError: nothing is subscribed to, or with group_protocol="consumer", where the coordinator alone
                decides when partitions move.
        """
        self._call(self._core.enforce_rebalance, reason)

    def close(self, timeout: float | None = None, *, leave_group: bool | None = None) -> None:
        """Stop reading and close all connections; returns within `timeout` seconds, brokers or not.

        A member of a group commits first, if commits are automatic, and tells its listener.

        Parameters:
            timeout: seconds; what a listener takes comes on top. None is the option close_timeout_ms.
            leave_group: whether others get the partitions at once, and not after session_timeout_ms; None: unless
                the member is static (group_instance_id).

        Raises:
            ConcurrentUseError: the member of a group is in use by another thread; `wakeup` it first.
            Exception: what a rebalance listener raised; the consumer is closed.
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
        """Run what does not wait, as the owner."""
        if not self._owner.acquire(blocking=False):
            raise ConcurrentUseError
        try:
            self._core.engine.check_usable()
            return function(*arguments)
        finally:
            self._owner.release()

    def _run(self, operation: Operation[T]) -> T:
        """Run what may wait, as the owner, blocking where it does."""
        if not self._owner.acquire(blocking=False):
            raise ConcurrentUseError
        try:
            return run(operation, ThreadWaiter(self._signal))
        finally:
            self._owner.release()
