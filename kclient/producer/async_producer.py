"""The async producer, for asyncio and trio.

Elsewhere: the logic of each call (`core`), and waiting in a thread (`producer`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Never, NoReturn, Self, TypeVar, Unpack

import anyio
import anyio.lowlevel
import anyio.to_thread

from kclient._help import documents_options
from kclient._misuse import refuse_pickling, refuse_positional
from kclient._offsets import GivenOffsets
from kclient.config import ProducerConfig
from kclient.errors import ConcurrentUseError, DeliveryError
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.engine import EXIT_SECONDS
from kclient.net.operation import Operation, TaskWaiter, run_async
from kclient.net.waiting import LoopBridge
from kclient.options import ProducerOptions
from kclient.producer.accumulator import OnDelivery
from kclient.producer.callbacks import LoopDispatcher
from kclient.producer.core import ProducerCore
from kclient.producer.future import RecordFuture
from kclient.producer.record import ProducerRecord
from kclient.producer.rows import RowsCall
from kclient.producer.rows_future import RowsFuture
from kclient.producer.transactions.context import AsyncTransaction
from kclient.records import RowColumns
from kclient.types import (
    ClientHealth,
    ConsumerGroupMetadata,
    GivenHeaders,
    PartitionInfo,
    PreparedTransaction,
    RecordMetadata,
)

T = TypeVar("T")

SENDS_PER_CHECKPOINT = 256
"""A task that sends in a loop yields to others at least this often."""


@documents_options(ProducerConfig)
class AsyncProducer:
    """A producer for asyncio and trio, with the methods of `Producer`; the tasks of one event loop may share it.

        async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("orders", b"value", key=b"k")
            metadata = await future

    `await producer.send(...)` waits only for buffer memory and metadata, and returns a future; awaiting the future
    waits for delivery. Delivery callbacks are plain functions and run in the event loop.

    Parameters:
        options: see `kclient.config.ProducerConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
        RuntimeError: no event loop is running.
    """

    def __init__(self, *arguments: Never, **options: Unpack[ProducerOptions]) -> None:
        refuse_positional(type(self), arguments)
        self._open(ProducerConfig.from_options(options))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[ProducerOptions]
    ) -> Self:
        """Return a producer configured with Kafka's dotted option names; see `Producer.from_properties`."""
        made = cls.__new__(cls)
        made._open(ProducerConfig.from_properties(properties, **options))
        return made

    def _open(self, config: ProducerConfig) -> None:
        self._bridge = LoopBridge()
        self._thread = threading.get_ident()
        self._sends = 0
        self._core = ProducerCore(config, LoopDispatcher(self._bridge))

    def _check_loop(self) -> None:
        if threading.get_ident() != self._thread:
            raise ConcurrentUseError("an AsyncProducer belongs to the event loop it was made in")

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Send a record, and return its future once the record is in the buffer; see `Producer.send`."""
        self._check_loop()
        self._sends += 1
        if self._sends >= SENDS_PER_CHECKPOINT:
            self._sends = 0
            await anyio.lowlevel.checkpoint()
        core = self._core
        if core.accumulator.plain:
            future = core.accumulator.try_append(topic, value, key, headers, partition, timestamp, on_delivery)
            if future is not None:
                return future
        record = core.prepare(topic, value, key, headers, partition, timestamp, on_delivery)
        future = core.try_append(record)
        if future is not None:
            return future
        return await run_async(core.append_in_time(record), self._waiter())

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is delivered.

        Each call waits for a round trip and for linger_ms; `send` lets records share requests. Parameters and errors
        are those of `Producer.send` and `RecordFuture.result`.
        """
        return await (await self.send(topic, value, key, headers, partition, timestamp))

    async def send_many(
        self, topic: str | None, values: Iterable[Any], *, on_delivery: OnDelivery | None = None
    ) -> list[RecordFuture]:
        """Send several records in order; see `Producer.send_many`."""
        futures = []
        for value in values:
            if isinstance(value, ProducerRecord):
                future = await self.send(
                    topic or value.topic,
                    value.value,
                    value.key,
                    value.headers,
                    value.partition,
                    value.timestamp,
                    on_delivery,
                )
            elif topic is None:
                raise TypeError("send_many without a topic takes ProducerRecords")
            else:
                future = await self.send(topic, value, on_delivery=on_delivery)
            futures.append(future)
        return futures

    async def send_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | None = "value",
        key: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        topic_column: str | None = None,
    ) -> RowsFuture:
        """Send each row of Arrow data as a record, and return one future for all; see `Producer.send_arrow`."""
        self._check_loop()
        columns = RowColumns(value, key, headers, partition, timestamp, topic_column)
        call = RowsCall(self._core, topic, data, columns)
        for turn in call.turns:
            await self._run(call.append(*turn))
            await anyio.lowlevel.checkpoint()
        return call.future

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until each record that was sent before is delivered or failed; see `Producer.flush`."""
        await self._run(self._core.flush(timeout))

    # -- transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional id; see `Producer.init_transactions`."""
        await self._run(self._core.calls.init_transactions(timeout))

    async def begin_transaction(self) -> None:
        """Begin a transaction; see `Producer.begin_transaction`."""
        self._check_loop()
        self._core.calls.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets to the transaction; see `Producer.send_offsets_to_transaction`."""
        await self._run(self._core.calls.send_offsets(offsets, group_metadata, timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction and commit it; see `Producer.commit_transaction`."""
        await self._run(self._core.calls.commit_transaction(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction; see `Producer.abort_transaction`."""
        await self._run(self._core.calls.abort_transaction(timeout))

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Deliver all records and leave the transaction open; see `Producer.prepare_transaction`."""
        return await self._run(self._core.calls.prepare_transaction(timeout))

    def transaction(self, timeout: float | None = None) -> AsyncTransaction:
        """Return a context manager that begins a transaction, and commits or aborts it; see `Producer.transaction`."""
        return AsyncTransaction(self, self._core.transaction_state, timeout)

    def _waiter(self) -> TaskWaiter:
        return TaskWaiter(self._bridge, waiters=self._core.waiters)

    async def _run(self, steps: Operation[T]) -> T:
        self._check_loop()
        return await run_async(steps, self._waiter())

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Return the partitions of a topic; see `Producer.partitions_for`."""
        return await self._run(self._core.partitions_for(topic, timeout))

    @property
    def config(self) -> ProducerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable; see `Producer.health`."""
        return self._core.health()

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names; see `Producer.metrics`."""
        return self._core.metrics()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        """Call a function with the metrics at an interval; see `Producer.add_metrics_hook`."""
        self._core.engine.add_metrics_hook(hook, interval)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver all records and stop; see `Producer.close`."""
        core = self._core
        if core.closed:
            return
        self._check_loop()
        timeout = core.close_timeout(timeout)
        deadline = None if timeout is None else core.engine.clock() + timeout
        try:
            await run_async(core.begin_close(timeout), self._waiter())
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(core.end_close, core.closing_seconds(deadline))
        core.raise_failures()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(None if isinstance(error, Exception) else EXIT_SECONDS)
        except DeliveryError as failed:
            error.add_note(f"while it was raised: {failed}")

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else "open"
        return f"<AsyncProducer {self._core.config.client_id!r} {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.warn_unclosed(self)
