"""The logic of a consumer's calls, shared by `Consumer` and `AsyncConsumer`.

A call that may wait is an operation (see `kclient.net.operation`); `Consumer` drives it by blocking and `AsyncConsumer`
by awaiting. Elsewhere: positions (`positions`) and groups (`group`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from kclient._offsets import GivenOffsets, checked_partitions
from kclient.consumer.assignment.topics import Topic, choose
from kclient.consumer.committed.group_offsets import CommitCallback, GroupOffsets
from kclient.consumer.committed.selection import ToCommit
from kclient.consumer.departure import OpenConsumer
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.health.report import ConsumerHealth
from kclient.consumer.iteration.implementation import AsyncRecordIterator, RecordIterator
from kclient.consumer.records import Records
from kclient.consumer.topic_listing import list_topics
from kclient.consumer.wiring import ConsumerParts
from kclient.errors import (
    ClosedError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
)
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.engine import EXIT_SECONDS
from kclient.net.manager import NEVER
from kclient.net.operation import Operation
from kclient.records import ConsumerRecord
from kclient.types import OffsetAndMetadata, PartitionInfo, TopicPartition

ITERATION_RECORDS = 10_000
"""The largest number of records in a chunk of an iteration: few calls into Python, and a wakeup is still noticed soon.
"""


class ConsumerCore:
    """One consumer.

    Parameters:
        parts: the parts of the consumer.

    Attributes:
        app_thread: the application's side of a call.
        positions: the calls about positions.
    """

    def __init__(self, parts: ConsumerParts) -> None:
        self.config = parts.config
        self.engine = parts.engine
        self.subscription = parts.subscription
        self.iteration = parts.iteration
        self.group = parts.group
        self.group_offsets = parts.group_offsets
        self.positions = parts.positions
        self.poll_tracker = parts.poll_tracker
        self._clock = parts.engine.clock
        self._notifier = parts.notifier
        self._collector = parts.collector
        self._interceptors = parts.interceptors
        # The rest of a chunk may be read again, so interceptors see each record of an iteration by itself.
        self._iteration_records = 1 if parts.interceptors.see_records else ITERATION_RECORDS
        self._health = parts.health
        self._gauges = parts.gauges
        self._fetcher = parts.fetcher
        self._offsets = parts.offsets
        self.app_thread = parts.app_thread
        self._requester = parts.requester
        self._records_consumed = parts.metrics.records_consumed
        self._open = OpenConsumer(self.engine, self.group, self.group_offsets)
        self.engine.start()

    # -- what is read

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics or, in a group, share them."""
        choice = choose(
            topics,
            exclude=exclude,
            with_internal=not self.config.exclude_internal_topics,
            brokers_match=self.config.uses_consumer_protocol,
        )
        if listener is not None and self.group is None:
            raise IllegalStateError("a rebalance listener needs a group_id; pass one to the consumer")
        self.app_thread.leave_iteration()
        if choice.names or choice.patterns or choice.regex is not None:
            self.subscription.subscribe(choice)
        elif self.group is not None:
            raise ValueError("subscribe() needs topics; unsubscribe() leaves the group")
        else:
            self.subscription.unsubscribe()
        if self.group is not None:
            self.group.coordination.listener = listener or RebalanceListener()
        # The group's assignment stays until the group changes it.
        kept = {tp.topic for tp in self.subscription.partitions}
        self._assigned({*choice.names, *kept}, everything=bool(choice.patterns))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions."""
        chosen = checked_partitions(partitions)
        self.app_thread.leave_iteration()
        if self.group_offsets is not None and self.subscription.topics is None:
            self.group_offsets.commit_before_assign()
        self.subscription.assign(chosen)
        self._assigned({tp.topic for tp in chosen})

    def unsubscribe(self, timeout: float) -> Operation[None]:
        """Stop reading; in a group, leave it in order."""
        self.engine.check_usable()
        self.app_thread.leave_iteration()
        try:
            if self.group is not None:
                deadline = self._clock() + timeout
                yield from self.group.leave(deadline, leave_group=None, reason="the consumer unsubscribed")
        finally:
            self.subscription.unsubscribe()
            self._assigned(())

    def _assigned(self, topics: Iterable[str], *, everything: bool = False) -> None:
        metadata = self.engine.metadata
        metadata.want_all = everything
        metadata.set_topics(set(topics))
        self.subscription.update_metadata(metadata.cluster)

    # -- records

    def poll(self, timeout: float, max_records: int | None) -> Operation[Records]:
        """See `Consumer.poll`."""
        with self.poll_tracker:
            return (yield from self._poll(timeout, max_records))

    def _poll(self, timeout: float, max_records: int | None) -> Operation[Records]:
        count = self.config.max_poll_records if max_records is None else max_records
        if count < 1:
            raise ValueError(f"max_records must be at least 1, not {count}")
        self.app_thread.leave_iteration()
        group = self.group
        deadline = -1.0 if group is None else self._clock() + timeout
        if self.group_offsets is not None:
            self.group_offsets.asked()
        while True:
            self.app_thread.begin_call()
            if group is not None:
                ready = yield from group.step(deadline)
                if not ready:
                    return Records()
            chunks = self._collector.collect(count)
            if chunks:
                records = Records(chunks)
                self._records_consumed.add(len(records))
                self._interceptors.on_consume(records)
                return records
            now = self._clock()
            if deadline < 0:
                deadline = now + timeout
            if now >= deadline:
                return Records()
            yield from self.app_thread.wait(deadline - now)

    def next_chunk(self) -> Operation[Iterator[ConsumerRecord]]:
        """Return an iterator over the next chunk of an iteration; the previous chunk counts as processed."""
        with self.poll_tracker:
            return (yield from self._next_chunk())

    def _next_chunk(self) -> Operation[Iterator[ConsumerRecord]]:
        self.iteration.finish()
        if self.group_offsets is not None:
            self.group_offsets.asked()
        while True:
            self.app_thread.begin_call()
            if self.group is not None:
                yield from self.group.step(NEVER)
            chunk = self.iteration.begin(self._iteration_records)
            if chunk is not None:
                self._records_consumed.add(len(chunk))
                return self._interceptors.shown(chunk) if self._interceptors.see_records else iter(chunk)
            yield from self.app_thread.wait(NEVER)

    # -- topics

    def topics(self, names: list[str] | None, timeout: float) -> Operation[dict[str, list[PartitionInfo]]]:
        """Return the partitions of these topics, or of all visible topics."""
        deadline = self._requester.deadline("list_topics" if names is None else "partitions_for", timeout)
        create = self.config.allow_auto_create_topics
        return (yield from list_topics(self._requester, names, deadline, create=create))

    # -- the group

    @property
    def listener(self) -> RebalanceListener:
        """See `Consumer.listener`."""
        self.of_group()
        assert self.group is not None
        return self.group.coordination.listener

    @listener.setter
    def listener(self, listener: RebalanceListener) -> None:
        self.of_group()
        assert self.group is not None
        self.group.coordination.listener = listener

    def of_group(self) -> GroupOffsets:
        """Return the committed offsets of the group.

        Raises:
            InvalidGroupIdError: the consumer has no group.
        """
        self.engine.check_usable()
        if self.group_offsets is None:
            raise InvalidGroupIdError("a consumer without a group_id has no committed offsets; set group_id")
        return self.group_offsets

    def store_offsets(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """See `Consumer.store_offsets`."""
        self.of_group().store(offsets)

    def commit(self, offsets: ToCommit, timeout: float) -> Operation[None]:
        """See `Consumer.commit`."""
        yield from self.of_group().commit(offsets, timeout)

    def commit_async(self, offsets: ToCommit, callback: CommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        self.of_group().commit_async(offsets, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float
    ) -> Operation[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        return (yield from self.of_group().committed(partitions, timeout))

    def failed(self) -> None:
        """Note that the application failed and is about to close the consumer."""
        if self.group_offsets is not None:
            self.group_offsets.failed()

    def enforce_rebalance(self, reason: str) -> None:
        """Request a rebalance with the next call for records."""
        if self.group is None:
            raise IllegalStateError("a consumer without a group_id has nothing to rebalance")
        self.group.coordination.enforce_rebalance(reason)

    # -- the end

    def leave(self, deadline: float, leave_group: bool | None) -> Operation[None]:
        """Give everything up in order, as the first half of closing a group member; returns by the deadline."""
        if self.engine.closed or self.group is None:
            return
        try:
            self.engine.check_usable()
        except KafkaError:
            return
        self.app_thread.leave_iteration()
        yield from self.group.leave(deadline, leave_group=leave_group, reason="the consumer is being closed")

    def closing_seconds(self, timeout: float | None) -> float:
        """Return how long a close() with this timeout may take."""
        return self.config.close_timeout_ms / 1000 if timeout is None else timeout

    def exit_seconds(self, error: BaseException | None) -> float:
        """Return how long the end of a `with` block may take; after Ctrl-C or an exit it does not wait for long."""
        seconds = self.closing_seconds(None)
        return seconds if error is None or isinstance(error, Exception) else min(seconds, EXIT_SECONDS)

    def wakeup(self) -> None:
        """Interrupt the application's waiting call, or its next one (any thread)."""
        self.app_thread.wakeup()

    def close(self, timeout: float) -> None:
        """Stop; returns within the timeout even if no broker responds."""
        self._open.closed()
        if self.engine.closed:
            return
        self.iteration.drop()

        def end_requests() -> None:
            closed = ClosedError("the consumer was closed")
            self._offsets.fail_all(closed)
            if self.group_offsets is not None:
                self.group_offsets.fail_all(closed)
            for request in self._fetcher.close():
                self.engine.send(request)

        self.engine.submit(end_requests)
        self.engine.close(timeout)
        self._notifier.notify()
        if self.group_offsets is not None:
            self.group_offsets.run_callbacks()
        with self.subscription.buffer.lock:
            for state in self.subscription.partitions.values():
                self.subscription.buffer.discard(state)

    def drop(self, face: str, iterator: RecordIterator | AsyncRecordIterator) -> None:
        """Handle the collection of an object that nobody closed: warn, commit, leave the group and stop."""
        self.iteration.outlive(iterator)
        if self._open.depart():
            warnings.warn(f"{face} {self.config.client_id!r} was not closed", ResourceWarning, stacklevel=3)

    def health(self) -> ConsumerHealth:
        """See `Consumer.health`."""
        return self._health.consumer(self._clock())

    def metrics(self) -> MetricValues:
        """Return all metrics of this client."""
        self._gauges.publish(self._clock())
        return self.engine.metrics.snapshot()

    def add_metrics_hook(self, hook: MetricsHook, interval: float) -> None:
        """See `Consumer.add_metrics_hook`."""
        self.engine.add_metrics_hook(hook, interval, self.metrics)
