"""The consumer without a face: what each call does, up to the point where it has to wait.

A call that may wait is an operation (see `kclient.net.operation`), which the two faces drive, one by
blocking, one by awaiting; neither has logic of its own. Leaves out positions (`places`) and what a group does
(`group`).
"""

from __future__ import annotations

import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kclient.config import ConsumerConfig, read_properties
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import parse_policy
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.assignment.topics import Topic, choose
from kclient.consumer.committed.group_offsets import CommitCallback, GroupOffsets, ToCommit
from kclient.consumer.fetching.collector import Collector
from kclient.consumer.fetching.fetcher import Fetcher
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.group.membership import Membership
from kclient.consumer.health.asking import Asking
from kclient.consumer.health.snapshot import HealthMonitor
from kclient.consumer.iteration.current_chunk import Iteration
from kclient.consumer.positions.list_offsets import OffsetsManager
from kclient.consumer.positions.positions import Places
from kclient.consumer.positions.validation import ValidationManager
from kclient.consumer.records import Records
from kclient.consumer.topic_listing import list_topics
from kclient.consumer.topic_watch import TopicWatch
from kclient.errors import (
    ClosedError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    WakeupError,
)
from kclient.net.backoff import retry_backoff
from kclient.net.engine import Engine
from kclient.net.manager import NEVER
from kclient.net.operation import Operation, Pause
from kclient.net.waiting import Notifier
from kclient.records import ConsumerRecord
from kclient.types import OffsetAndMetadata, PartitionInfo, TopicPartition

ITERATION_RECORDS = 10_000
"""Iteration takes so many records at once: few entries into Python, and a wakeup is still noticed soon."""


def config_from_properties(
    properties: Mapping[str, Any] | str | os.PathLike[str], options: Mapping[str, Any]
) -> ConsumerConfig:
    """The options of a consumer from Kafka's dotted names."""
    if not isinstance(properties, Mapping):
        properties = read_properties(Path(properties))
    return ConsumerConfig.from_properties(properties, **options)


class ConsumerCore:
    """One consumer.

    Parameters:
        config: its options.
        notifier: what the face waits on.
        run_soon: runs the callbacks of commits in the owner's event loop; None to run them in its calls.

    Attributes:
        places: the calls that concern positions.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        notifier: Notifier,
        run_soon: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.config = config
        self.notifier = notifier
        policy = parse_policy(config.auto_offset_reset)
        self.engine = engine = Engine(config)
        self.buffer = FetchBuffer(on_data=self._on_data, on_room=self._on_room)
        self.subscription = Subscription(self.buffer, policy, in_group=config.group_id is not None)
        self.subscription.on_change = engine.wakeup
        self.collector = Collector(self.subscription, config)
        self.iteration = Iteration(self.collector)
        self.asking = Asking()
        metrics = engine.metrics
        self._records_consumed = metrics.counter("records_consumed_total")
        self._bytes_consumed = metrics.counter("bytes_consumed_total")
        self._fetches = metrics.counter("fetch_total")
        self._fetch_latency = metrics.histogram("fetch_latency")
        self._fetch_size = metrics.histogram("fetch_size")
        jitter = random.Random()
        self._backoff = retry_backoff(config, jitter)
        shared = (self.subscription, engine.metadata, engine.nodes, config)
        self.fetcher = Fetcher(*shared, random=jitter, on_fetched=self._on_fetched)
        self.offsets = OffsetsManager(*shared, random=jitter, wall_clock=_wall_clock)
        self.validation = ValidationManager(*shared, random=jitter)
        watch = TopicWatch(self.subscription, engine.metadata, config.default_api_timeout_ms / 1000)
        for manager in (self.fetcher, self.offsets, self.validation, watch):
            engine.add(manager)
        engine.metadata.add_listener(self.subscription.update_metadata)
        self.group: Membership | None = None
        self.group_offsets: GroupOffsets | None = None
        if config.group_id is not None:
            self._join_in(jitter, run_soon)
        self.monitor = self._watch(run_soon)
        engine.add(self.monitor)
        self.places = Places(
            config,
            engine,
            self.subscription,
            self.iteration,
            self.offsets,
            leave_iteration=self.leave_iteration,
            check=self.check,
        )
        engine.on_failure(lambda error: notifier.notify())
        self._woken = False
        self._started_version = -1
        engine.start()

    def _join_in(self, jitter: random.Random, run_soon: Callable[[Callable[[], None]], None] | None) -> None:
        engine = self.engine
        self.group = group = Membership(
            self.config,
            engine,
            self.subscription,
            random=jitter,
            taken=self.iteration.last,
            wait=self._wait_for_group,
            wake=self._on_group,
        )
        self.group_offsets = group.coordination.commits = offsets = GroupOffsets(
            self.config,
            self.subscription,
            group.coordinator,
            group.member,
            engine.metadata,
            engine.nodes,
            self.iteration.place,
            random=jitter,
            metrics=engine.metrics,
            submit=engine.submit,
            run_soon=run_soon,
            wake=self.notifier.notify,
        )
        for manager in (*offsets.managers, *group.managers):
            engine.add(manager)
        engine.on_failure(offsets.fail_all)

    def _watch(self, run_soon: Callable[[Callable[[], None]], None] | None) -> HealthMonitor:
        group, offsets = self.group, self.group_offsets
        return HealthMonitor(
            self.config,
            self.subscription,
            self.engine.metadata,
            self.engine.metrics,
            self.iteration.place,
            self.asking,
            member=None if group is None else group.member,
            rebalancing=lambda: group is not None and group.rebalancing,
            coordinator=None if group is None else group.coordinator,
            commit_error=lambda: None if offsets is None else offsets.commit_error,
            run_soon=run_soon,
        )

    # -- what is read

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics, or, in a group, share them."""
        choice = choose(
            topics,
            exclude=exclude,
            with_internal=not self.config.exclude_internal_topics,
            brokers_match=self.config.uses_consumer_protocol,
        )
        if listener is not None and self.group is None:
            raise IllegalStateError("a rebalance listener has nothing to hear without a group_id")
        self.leave_iteration()
        if choice.names or choice.patterns or choice.regex is not None:
            self.subscription.subscribe(choice)
        elif self.group is not None:
            raise ValueError("subscribe() needs topics; unsubscribe() leaves the group")
        else:
            self.subscription.unsubscribe()
        if self.group is not None:
            self.group.coordination.listener = listener or RebalanceListener()
        # What a group assigned stays until it says otherwise.
        kept = {tp.topic for tp in self.subscription.partitions}
        self._assigned({*choice.names, *kept}, everything=bool(choice.patterns))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        self.leave_iteration()
        if self.group_offsets is not None and self.subscription.topics is None:
            self.group_offsets.commit_before_assign()
        self.subscription.assign(chosen)
        self._assigned({tp.topic for tp in chosen})

    def unsubscribe(self, timeout: float) -> Operation[None]:
        """Read nothing; in a group, leave it in order."""
        self.engine.check_usable()
        self.leave_iteration()
        try:
            if self.group is not None:
                deadline = time.monotonic() + timeout
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
        with self.asking:
            return (yield from self._poll(timeout, max_records))

    def _poll(self, timeout: float, max_records: int | None) -> Operation[Records]:
        count = self.config.max_poll_records if max_records is None else max_records
        if count < 1:
            raise ValueError(f"max_records must be at least 1, not {count}")
        self.leave_iteration()
        group = self.group
        deadline = -1.0 if group is None else time.monotonic() + timeout
        if self.group_offsets is not None:
            self.group_offsets.asked()
        while True:
            self.check()
            if group is not None:
                ready = yield from group.step(deadline)
                if not ready:
                    return Records()
            chunks = self.collector.collect(count)
            if chunks:
                records = Records(chunks)
                self._records_consumed.add(len(records))
                return records
            now = time.monotonic()
            if deadline < 0:
                deadline = now + timeout
            if now >= deadline:
                return Records()
            yield from self._wait(deadline - now)

    def next_chunk(self) -> Operation[Iterator[ConsumerRecord]]:
        """Returns an iterator over the next chunk of an iteration; the one before counts as read."""
        with self.asking:
            return (yield from self._next_chunk())

    def _next_chunk(self) -> Operation[Iterator[ConsumerRecord]]:
        self.iteration.finish()
        if self.group_offsets is not None:
            self.group_offsets.asked()
        while True:
            self.check()
            if self.group is not None:
                yield from self.group.step(NEVER)
            taken = self.collector.take(ITERATION_RECORDS)
            if taken is not None:
                self.iteration.begin(taken)
                self._records_consumed.add(len(taken.chunk))
                return iter(taken.chunk)
            yield from self._wait(NEVER)

    def leave_iteration(self) -> None:
        """Another call comes between two records of an iteration: the rest of its chunk is read again later."""
        if self.group_offsets is not None:
            self.group_offsets.left_iteration()
        self.iteration.leave()

    def _wait(self, seconds: float) -> Operation[None]:
        """Wait for records; an application that has none to work on is not slow."""
        interval = None if self.group is None else self.group.poll_interval
        if interval is not None:
            interval.waits()
        try:
            yield Pause(None if seconds == NEVER else seconds)
        finally:
            if interval is not None:
                interval.polled(time.monotonic())

    def _wait_for_group(self, seconds: float) -> Operation[None]:
        yield from self._wait(seconds)
        self._check_interrupted()

    def _check_interrupted(self) -> None:
        self.engine.check_usable()
        if self._woken:
            self._woken = False
            raise WakeupError("the call was interrupted by wakeup()")

    def check(self) -> None:
        """Raise what the owner has to know, and start partitions that were assigned."""
        self._check_interrupted()
        if self.group_offsets is not None:
            self.group_offsets.run_callbacks()
        subscription = self.subscription
        if subscription.errors:
            with subscription.lock:
                raise subscription.errors.pop(0)
        fatal = self.engine.metadata.fatal_error
        if fatal is not None:
            raise fatal
        if subscription.version != self._started_version:
            if subscription.topics is None and not subscription.partitions:
                raise IllegalStateError("there is nothing to read: subscribe() to topics or assign() partitions first")
            version = subscription.version
            subscription.start_uninitialized()
            self._started_version = version

    # -- topics

    def topics(self, names: list[str] | None, timeout: float) -> Operation[dict[str, list[PartitionInfo]]]:
        """Returns the partitions of these topics, or of all that may be seen."""
        self.engine.check_usable()
        create = self.config.allow_auto_create_topics
        return (yield from list_topics(self.engine, names, timeout, self._backoff, create=create))

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
        """The group's offsets.

        Raises:
            InvalidGroupIdError: the consumer has no group.
        """
        self.engine.check_usable()
        if self.group_offsets is None:
            raise InvalidGroupIdError("a consumer without a group_id has no committed offsets: give it one")
        return self.group_offsets

    def commit(self, what: ToCommit, timeout: float) -> Operation[None]:
        """See `Consumer.commit`."""
        yield from self.of_group().commit(what, timeout)

    def commit_async(self, what: ToCommit, callback: CommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        self.of_group().commit_async(what, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float
    ) -> Operation[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        return (yield from self.of_group().committed(partitions, timeout))

    def failed(self) -> None:
        """The application failed, and is about to close the consumer."""
        if self.group_offsets is not None:
            self.group_offsets.failed()

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance with the next call for records."""
        if self.group is None:
            raise IllegalStateError("a consumer without a group_id has nothing to rebalance")
        self.group.coordination.enforce_rebalance(reason)

    def _on_group(self) -> None:
        """There is something to do for the group: also for an application in the middle of a chunk."""
        self.iteration.interrupt()
        self.notifier.notify()

    # -- the end

    def leave(self, deadline: float, leave_group: bool | None) -> Operation[None]:
        """The first half of closing for a member of a group: give everything up in order, by this time."""
        if self.engine.closed or self.group is None:
            return
        try:
            self.engine.check_usable()
        except KafkaError:
            return
        self.leave_iteration()
        yield from self.group.leave(deadline, leave_group=leave_group, reason="the consumer is being closed")

    def wakeup(self) -> None:
        """Interrupt the owner's waiting call, or its next one (any thread)."""
        self._woken = True
        self.iteration.interrupt()
        self.notifier.notify()

    def close(self, timeout: float) -> None:
        """Stop; returns by its deadline even with every broker down."""
        if self.engine.closed:
            return
        self.iteration.drop()

        def last_words() -> None:
            closed = ClosedError("the consumer was closed")
            self.offsets.fail_all(closed)
            if self.group_offsets is not None:
                self.group_offsets.fail_all(closed)
            for request in self.fetcher.close():
                self.engine.send(request)

        self.engine.submit(last_words)
        self.engine.close(timeout)
        self.notifier.notify()
        if self.group_offsets is not None:
            self.group_offsets.run_callbacks()
        with self.buffer.lock:
            for state in self.subscription.partitions.values():
                self.buffer.discard(state)

    def drop(self, face: str) -> None:
        """The face is gone: stop without waiting, and warn if nobody closed it."""
        was_open = not self.engine.closed
        self.engine.close(0.0)
        if was_open and self.engine.closed:  # not so in a forked child, whose parent may well close it
            warnings.warn(f"{face} {self.config.client_id!r} was not closed", ResourceWarning, stacklevel=3)

    def metrics(self) -> dict[str, float]:
        """All metrics of this client."""
        self.monitor.publish()
        return self.engine.metrics.snapshot()

    def _on_data(self) -> None:
        self.notifier.notify()

    def _on_room(self) -> None:
        self.fetcher.look_again()
        self.engine.wakeup()

    def _on_fetched(self, size: int, partitions: int, seconds: float) -> None:
        self._fetches.add()
        self._bytes_consumed.add(size)
        self._fetch_latency.record(1000 * seconds)
        if partitions:
            self._fetch_size.record(size)


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
