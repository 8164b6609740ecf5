"""The async consumer, on asyncio and trio.

Everything it does is decided in `core`; here is only how a task waits for it. The network thread is
not the loop's: a loop that is blocked delays records, never the connection or a heartbeat.
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
from kclient.metrics import MetricValues
from kclient.net.operation import Operation, TaskWaiter, run_async
from kclient.net.waiting import LoopBridge, LoopSignal, WaiterSet
from kclient.options import ConsumerOptions
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

T = TypeVar("T")


@documents_options(ConsumerConfig)
class AsyncConsumer:
    """Reads records of topics or partitions, in the event loop that it is made in.

        async with AsyncConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                await handle(record.value)

    `Consumer` documents what the methods do, take and raise. One task at a time may wait for records, in `poll` or
    `async for`; meanwhile the other tasks of the event loop may commit, pause, seek and ask for offsets, positions and
    topics. `subscribe`, `assign`, `unsubscribe` and `close` do not wait for records, and need the consumer for
    themselves as well. Any thread may call `wakeup` and `store_offsets`. A task that is cancelled while it waits loses
    no record.

    Parameters:
        topics: what to subscribe to, names or compiled patterns; none to `assign` partitions later.
        options: see `kclient.config.ConsumerConfig`.

    Raises:
        ConfigError: an option does not exist or has a value it cannot have.
        RuntimeError: there is no running event loop.
    """

    def __init__(self, *topics: Topic, **options: Unpack[ConsumerOptions]) -> None:
        refuse_properties(type(self), topics)
        self._open(ConsumerConfig.from_options(options), topics)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], *topics: Topic, **options: Unpack[ConsumerOptions]
    ) -> Self:
        """Make a consumer from Kafka's dotted names: see `Consumer.from_properties`."""
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
        self._core = ConsumerCore(wire_consumer(config, self._waiters, self._bridge.post))
        self._iterator = AsyncRecordIterator(self._refill, self._core.app_thread.leave_iteration)
        self._core.iteration.use(self._iterator)
        if topics:
            self._core.subscribe(topics)

    # -- reading

    async def poll(self, timeout: float = 0.5, max_records: int | None = None) -> Records:
        """Return records that were fetched, or wait for some: see `Consumer.poll`."""
        return await self._run(self._core.poll(timeout, max_records))

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records as they come, without end; after an exception or a `break` it goes on.

        Other tasks get their turn at least once per fetched batch.
        """
        return self._iterator

    async def _refill(self) -> Iterator[ConsumerRecord]:
        await anyio.lowlevel.checkpoint()
        return await self._run(self._core.next_chunk())

    # -- what is read

    def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        *,
        exclude: Topic | Iterable[Topic] = (),
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics: see `Consumer.subscribe`; the listener's methods may be coroutines."""
        self._call(self._core.subscribe, topics, exclude, listener)

    @property
    def listener(self) -> RebalanceListener:
        """Who hears of partitions that come and go: see `Consumer.listener`."""
        return self._core.listener

    @listener.setter
    def listener(self, listener: RebalanceListener) -> None:
        self._core.listener = listener

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return frozenset(self._core.subscription.topics or ())

    async def unsubscribe(self) -> None:
        """Read nothing until the next `subscribe` or `assign`: see `Consumer.unsubscribe`."""
        await self._run(self._core.unsubscribe(self._seconds(None)))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions."""
        self._call(self._core.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._core.subscription.lock:
            return set(self._core.subscription.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`."""
        self._share_call(self._core.places.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Undo `pause`."""
        self._share_call(self._core.places.resume, partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._core.places.paused()

    # -- places

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Read on from an offset."""
        self._share_call(self._core.places.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Read on from the first offset; of all assigned partitions if none is named."""
        self._share_call(self._core.places.seek_to_beginning, partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Read on from the end; of all assigned partitions if none is named."""
        self._share_call(self._core.places.seek_to_end, partitions)

    async def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record to be returned: see `Consumer.position`."""
        if self._is_busy():
            return await self._share(self._core.places.position(partition, self._seconds(timeout), shared=True))
        return await self._run(self._core.places.position(partition, self._seconds(timeout)))

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition: see `Consumer.beginning_offsets`."""
        return await self._share(self._core.places.special_offsets(partitions, EARLIEST, self._seconds(timeout)))

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The end of each partition: see `Consumer.end_offsets`."""
        return await self._share(self._core.places.special_offsets(partitions, LATEST, self._seconds(timeout)))

    async def offsets_for_times(
        self, times: GivenTimes, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after a point in time: see `Consumer.offsets_for_times`."""
        targets = checked_times(times)
        return await self._share(self._core.places.lookup(targets, self._seconds(timeout)))

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """How many offsets lie between the position and the end, as of the last answer; None before one."""
        return self._core.places.current_lag(TopicPartition(*partition))

    # -- committed offsets

    def store_offsets(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """Store offsets for the next commit: see `Consumer.store_offsets`."""
        self._core.store_offsets(offsets)

    async def commit(self, offsets: ToCommit = None, timeout: float | None = None) -> None:
        """Commit offsets of the group, and wait until that is done: see `Consumer.commit`."""
        await self._share(self._core.commit(offsets, self._seconds(timeout)))

    def commit_async(self, offsets: ToCommit = None, callback: CommitCallback | None = None) -> None:
        """Commit offsets of the group without waiting, after those committed before: see `Consumer.commit_async`.

        The callback, a plain function, runs in the event loop.
        """
        self._share_call(self._core.commit_async, offsets, callback)

    async def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these partitions: see `Consumer.committed`."""
        return await self._share(self._core.committed(partitions, self._seconds(timeout)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group, for a transaction: see `Consumer.group_metadata`."""
        return self._core.of_group().group_metadata()

    # -- topics

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, fresh from a broker: see `Consumer.partitions_for`."""
        found = await self._share(self._core.topics([topic], self._seconds(timeout)))
        return found[topic]

    async def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that this client may see, with their partitions; without internal ones."""
        return await self._share(self._core.topics(None, self._seconds(timeout)))

    # -- the rest

    def wakeup(self) -> None:
        """Make the owner's waiting call, or its next one, raise WakeupError once; from any thread."""
        self._core.wakeup()

    def health(self) -> ConsumerHealth:
        """How each partition does: see `Consumer.health`."""
        return self._core.health()

    @property
    def config(self) -> ConsumerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def metrics(self) -> MetricValues:
        """What this client counted, by Kafka's names, as `records_consumed_total` or `records_lag_max`."""
        return self._core.metrics()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group divide its partitions anew, with the next call for records."""
        self._share_call(self._core.enforce_rebalance, reason)

    async def close(self, timeout: float | None = None, *, leave_group: bool | None = None) -> None:
        """Stop reading and close all connections; returns within `timeout` seconds, brokers or not.

        See `Consumer.close`. A listener is given as long, and is cancelled then.
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
            # Joining the network thread blocks.
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
        """Return whether another task waits for records, or needs the consumer for itself."""
        return self._owner is not None and self._owner != anyio.get_current_task().id

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that does not wait, and that no other task may be waiting besides."""
        if self._is_busy():
            raise ConcurrentUseError
        return self._share_call(function, *arguments)

    def _share_call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that does not wait, while any task may be waiting."""
        self._core.engine.check_usable()
        return function(*arguments)

    async def _run(self, operation: Operation[T]) -> T:
        """Run an operation that no other task may be waiting besides."""
        if self._is_busy():
            raise ConcurrentUseError
        outer, self._owner = self._owner, anyio.get_current_task().id
        try:
            return await run_async(operation, TaskWaiter(self._bridge, self._signal))
        finally:
            self._owner = outer

    async def _share(self, operation: Operation[T]) -> T:
        """Run an operation while any task may be waiting; it waits on a signal of its own."""
        return await run_async(operation, TaskWaiter(self._bridge, waiters=self._waiters))
