"""The async consumer, for asyncio and trio.

The network thread does not run in the event loop: a blocked event loop delays records, but not heartbeats. Elsewhere:
the logic of each call (`core`), and waiting in a thread (`consumer`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, Unpack

import anyio
import anyio.lowlevel
import anyio.to_thread

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
from kclient.consumer.iteration.implementation import AsyncRecordIterator
from kclient.consumer.records import Records
from kclient.consumer.wiring import wire_consumer
from kclient.errors import ConcurrentUseError
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.operation import Operation, TaskWaiter, run_async
from kclient.net.waiting import LoopBridge, LoopSignal, WaiterSet
from kclient.options import ConsumerOptions
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

T = TypeVar("T")


@documents_options(ConsumerConfig)
class AsyncConsumer:
    """A consumer for asyncio and trio, with the methods of `Consumer`; made and used in one event loop.

        async with AsyncConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                await handle(record.value)

    One task at a time may wait for records, in `poll` or `async for`; meanwhile the other tasks of the event loop may
    commit, pause, seek and ask for offsets, positions and topics. `subscribe`, `assign`, `unsubscribe` and `close`
    need a consumer that no other task is waiting on. Any thread may call `wakeup` and `store_offsets`. A task that is
    cancelled while it waits loses no record.

    Parameters:
        topics: the names of topics to subscribe to, or compiled patterns; none to `assign` partitions later.
        options: see `kclient.config.ConsumerConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
        RuntimeError: no event loop is running.
    """

    def __init__(self, *topics: Topic, **options: Unpack[ConsumerOptions]) -> None:
        refuse_properties(type(self), topics)
        self._open(ConsumerConfig.from_options(options), topics)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], *topics: Topic, **options: Unpack[ConsumerOptions]
    ) -> Self:
        """Return a consumer configured with Kafka's dotted option names; see `Consumer.from_properties`."""
        consumer = cls.__new__(cls)
        consumer._open(ConsumerConfig.from_properties(properties, **options), topics)
        return consumer

    def _open(self, config: ConsumerConfig, topics: tuple[Topic, ...]) -> None:
        choose(topics, brokers_match=config.uses_consumer_protocol)  # raises before there is something to close
        self._bridge = LoopBridge()
        self._signal = LoopSignal(self._bridge)
        self._waiters = WaiterSet()
        self._waiters.add(self._signal)
        self._owner: int | None = None
        self._core = ConsumerCore(wire_consumer(config, self._waiters, self._bridge))
        self._iterator = AsyncRecordIterator(self._refill, self._core.app_thread.leave_iteration)
        self._core.iteration.use(self._iterator)
        if topics:
            self._core.subscribe(topics)

    # -- reading

    async def poll(self, timeout: float = 0.5, max_records: int | None = None) -> Records:
        """Return fetched records, or wait for some; see `Consumer.poll`."""
        return await self._run(self._core.poll(timeout, max_records))

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Return the iterator over all records; see `Consumer.__iter__`.

        Other tasks run at least once per fetched batch.
        """
        return self._iterator

    async def _refill(self) -> Iterator[ConsumerRecord]:
        await anyio.lowlevel.checkpoint()
        return await self._run(self._core.next_chunk())

    # -- the subscription

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        *,
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics; see `Consumer.subscribe`. The methods of the listener may be coroutine functions."""
        self._call(self._core.subscribe, topics, exclude, listener)

    @property
    def listener(self) -> RebalanceListener:
        """The listener that was given to `subscribe`; see `Consumer.listener`."""
        return self._core.listener

    @listener.setter
    def listener(self, listener: RebalanceListener) -> None:
        self._core.listener = listener

    def subscription(self) -> frozenset[str]:
        """Return the names of the subscribed topics."""
        return frozenset(self._core.subscription.topics or ())

    async def unsubscribe(self) -> None:
        """Stop reading and leave the group; see `Consumer.unsubscribe`."""
        await self._run(self._core.unsubscribe(self._seconds(None)))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions; see `Consumer.assign`."""
        self._call(self._core.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._core.subscription.lock:
            return set(self._core.subscription.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`; see `Consumer.pause`."""
        self._share_call(self._core.positions.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._share_call(self._core.positions.resume, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._core.positions.paused()

    # -- positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Set the position of a partition; see `Consumer.seek`."""
        self._share_call(self._core.positions.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Set the positions to the first offsets; of all assigned partitions if none is named."""
        self._share_call(self._core.positions.seek_to_beginning, partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Set the positions to the end offsets; of all assigned partitions if none is named."""
        self._share_call(self._core.positions.seek_to_end, partitions)

    async def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record that will be returned; see `Consumer.position`."""
        if self._is_busy():
            return await self._share(self._core.positions.position(partition, self._seconds(timeout), shared=True))
        return await self._run(self._core.positions.position(partition, self._seconds(timeout)))

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition; see `Consumer.beginning_offsets`."""
        return await self._share(self._core.positions.special_offsets(partitions, EARLIEST, self._seconds(timeout)))

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition; see `Consumer.end_offsets`."""
        return await self._share(self._core.positions.special_offsets(partitions, LATEST, self._seconds(timeout)))

    async def offsets_for_times(
        self, times: GivenTimes, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after a time; see `Consumer.offsets_for_times`."""
        targets = checked_times(times)
        return await self._share(self._core.positions.lookup(targets, self._seconds(timeout)))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return the number of offsets between position and end offset; see `Consumer.current_lag`."""
        return self._core.positions.current_lag(partition)

    # -- committed offsets

    def store_offsets(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """Store offsets for the next commit; see `Consumer.store_offsets`."""
        self._core.store_offsets(offsets)

    async def commit(self, offsets: ToCommit = None, timeout: float | None = None) -> None:
        """Commit offsets of the group and wait until they are stored; see `Consumer.commit`."""
        await self._share(self._core.commit(offsets, self._seconds(timeout)))

    def commit_async(self, offsets: ToCommit = None, callback: CommitCallback | None = None) -> None:
        """Commit offsets of the group without waiting, in the order of the calls; see `Consumer.commit_async`.

        The callback, a plain function, runs in the event loop.
        """
        self._share_call(self._core.commit_async, offsets, callback)

    async def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group for these partitions; see `Consumer.committed`."""
        return await self._share(self._core.committed(partitions, self._seconds(timeout)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership of this consumer, for a transaction; see `Consumer.group_metadata`."""
        return self._core.of_group().group_metadata()

    # -- topics

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Return the partitions of a topic, as a broker reports them now; see `Consumer.partitions_for`."""
        found = await self._share(self._core.topics([topic], self._seconds(timeout)))
        return found[topic]

    async def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Return the partitions of all topics that this client may see, by topic; without internal topics."""
        return await self._share(self._core.topics(None, self._seconds(timeout)))

    # -- health, metrics and the end

    def wakeup(self) -> None:
        """Interrupt the call that waits for records, or the next one, with a WakeupError. Any thread may call this."""
        self._core.wakeup()

    def health(self) -> ConsumerHealth:
        """Return whether any broker is reachable, and the health of each partition; see `Consumer.health`."""
        return self._core.health()

    @property
    def config(self) -> ConsumerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names, such as `records_consumed_total` or `records_lag_max`."""
        return self._core.metrics()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        """Call a function with the metrics at an interval; see `Consumer.add_metrics_hook`."""
        self._core.add_metrics_hook(hook, interval)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group to rebalance, with the next call for records; see `Consumer.enforce_rebalance`."""
        self._share_call(self._core.enforce_rebalance, reason)

    async def close(self, timeout: float | None = None, *, leave_group: bool | None = None) -> None:
        """Stop reading and close all connections; see `Consumer.close`.

        The listener may take as long as the timeout, and is cancelled then.
        """
        core = self._core
        clock = core.engine.clock
        seconds = core.closing_seconds(timeout)
        deadline = clock() + seconds
        with anyio.CancelScope(shield=True):
            try:
                if core.group is not None:
                    with anyio.move_on_after(seconds):
                        await self._run(core.leave(deadline, leave_group))
            except ConcurrentUseError:
                raise
            except BaseException:
                await anyio.to_thread.run_sync(core.close, max(0.0, deadline - clock()))
                raise
            # Joining the network thread blocks, so it runs in a thread.
            await anyio.to_thread.run_sync(core.close, max(0.0, deadline - clock()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._core.failed()
        await self.close(self._core.exit_seconds(error))

    def __del__(self) -> None:
        iterator = getattr(self, "_iterator", None)
        if iterator is not None:
            self._core.drop("AsyncConsumer", iterator)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        return f"<AsyncConsumer {self._core.config.client_id!r} of {self._core.subscription.describe()}>"

    def _seconds(self, timeout: float | None) -> float:
        return self._core.config.default_api_timeout_ms / 1000 if timeout is None else timeout

    def _is_busy(self) -> bool:
        """Return whether another task is waiting for records, or needs the consumer for itself."""
        return self._owner is not None and self._owner != anyio.get_current_task().id

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that does not wait; fail if another task is using the consumer."""
        if self._is_busy():
            raise ConcurrentUseError
        return self._share_call(function, *arguments)

    def _share_call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that does not wait and that other tasks do not affect."""
        self._core.engine.check_usable()
        return function(*arguments)

    async def _run(self, operation: Operation[T]) -> T:
        """Run an operation; fail if another task is using the consumer."""
        if self._is_busy():
            raise ConcurrentUseError
        outer, self._owner = self._owner, anyio.get_current_task().id
        try:
            return await run_async(operation, TaskWaiter(self._bridge, self._signal))
        finally:
            self._owner = outer

    async def _share(self, operation: Operation[T]) -> T:
        """Run an operation that other tasks do not affect, with a signal of its own to wait on."""
        return await run_async(operation, TaskWaiter(self._bridge, waiters=self._waiters))
