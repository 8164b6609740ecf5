"""The blocking and async classes and functions of the loop.

Elsewhere: their logic (`loop`).
"""

from __future__ import annotations

from typing import TypeVar

from kclient.consumer import AsyncConsumer, Consumer
from kclient.metrics import MetricValues
from kclient.net.operation import Operation, TaskWaiter, ThreadWaiter, run, run_async
from kclient.net.runtime import current
from kclient.net.waiting import LoopBridge
from kclient.producer import AsyncProducer, Producer
from kclient.transform.checks import check_clients, check_faces, check_functions, check_limits
from kclient.transform.functions import AsyncFunction, AsyncOnError, Function, OnError
from kclient.transform.loop import Loop

T = TypeVar("T")

MAX_RECORDS = 1000
MAX_SECONDS = 0.1


class Transform:
    """Transforms records of a consumer into records of a producer, each exactly once.

        loop = Transform(consumer, producer, lambda record: ProducerRecord("out", record.value))
        signal.signal(signal.SIGTERM, lambda *_: loop.stop())
        loop.run()

    While it runs, no other code may use the two clients; afterwards they are still open. Each process has one
    producer, and so one loop, with a transactional_id of its own (KIP-447).

    Parameters:
        consumer: subscribed to the input, or with partitions assigned; with a group_id, enable_auto_commit=False and
            isolation_level="read_committed".
        producer: with a transactional_id.
        function: takes a record, and returns None, a ProducerRecord or several. It runs in the thread that calls `run`.
            It is called again for a record whose transaction was aborted; only what it returns counts once.
        on_error: takes a record and the exception that the function raised on it; what it returns is sent in place of
            results (None skips the record; a ProducerRecord may be a dead letter), in the same transaction. Without it,
            or if it raises, the loop ends.
        max_records: how many records a transaction takes at most.
        max_seconds: approximately how long the first of them waits for the commit; readers of the results wait as long.
        allow_read_uncommitted: whether the consumer may read records that are aborted later.

    Raises:
        ConfigError: the options of the two clients do not allow it; the message says which, and what to set.
        TypeError: consumer or producer is an async one.
    """

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        function: Function,
        *,
        on_error: OnError | None = None,
        max_records: int = MAX_RECORDS,
        max_seconds: float = MAX_SECONDS,
        allow_read_uncommitted: bool = False,
    ) -> None:
        check_faces(consumer, producer, are_async=False)
        check_functions(function, on_error, awaits=False)
        check_clients(consumer.config, producer.config, allow_read_uncommitted=allow_read_uncommitted)
        check_limits(max_records, max_seconds, producer.config)
        self._loop = Loop(
            consumer,
            producer,
            function,
            on_error,
            max_records,
            max_seconds,
            awaits=False,
            drive=_drive,
            clock=current().monotonic,
        )

    def run(self) -> None:
        """Run until `stop`; call `init_transactions` if necessary.

        No transaction is left open, however the call ends. Unless it was interrupted (Ctrl-C), the consumer is at the
        committed offsets of its group afterwards, so another call continues there.

        Raises:
            TransformError: the function failed on a record, or its results could not be sent; it has the record's
                position and the cause. The record is not committed, and is read next.
            ProducerFencedError: another producer has taken the transactional id and continues the work.
            KafkaError: an error that does not pass by itself, such as a missing permission or a record that cannot be
                read; the records before it are committed.
            KafkaTimeoutError: no broker could be reached, at the beginning or while the loop was stopping.
        """
        _drive(self._loop.run())

    def stop(self) -> None:
        """Make `run` commit what is transformed, and return; from any thread, signal handler or from the function.

        It returns after the current record, or within a tenth of a second without one. A stopped loop cannot run again.
        """
        self._loop.stop()

    def metrics(self) -> MetricValues:
        """Return its metrics, such as `transform_records_in_total` or `transform_batch_latency_avg`."""
        return self._loop.metrics.metrics.snapshot()


class AsyncTransform:
    """`Transform` for asyncio and trio, of an AsyncConsumer and an AsyncProducer; parameters and errors are its own.

    The functions may be plain ones, coroutine functions or asynchronous generators. Records are transformed one after
    the other. A task that is cancelled aborts its transaction.
    """

    def __init__(
        self,
        consumer: AsyncConsumer,
        producer: AsyncProducer,
        function: AsyncFunction,
        *,
        on_error: AsyncOnError | None = None,
        max_records: int = MAX_RECORDS,
        max_seconds: float = MAX_SECONDS,
        allow_read_uncommitted: bool = False,
    ) -> None:
        check_faces(consumer, producer, are_async=True)
        check_functions(function, on_error, awaits=True)
        check_clients(consumer.config, producer.config, allow_read_uncommitted=allow_read_uncommitted)
        check_limits(max_records, max_seconds, producer.config)
        self._loop = Loop(
            consumer,
            producer,
            function,
            on_error,
            max_records,
            max_seconds,
            awaits=True,
            drive=_drive_async,
            clock=current().monotonic,
        )

    async def run(self) -> None:
        """Run until `stop`; see `Transform.run`."""
        await _drive_async(self._loop.run())

    def stop(self) -> None:
        """Make `run` commit what is transformed, and return; see `Transform.stop`."""
        self._loop.stop()

    def metrics(self) -> MetricValues:
        """Return its metrics; see `Transform.metrics`."""
        return self._loop.metrics.metrics.snapshot()


def transform(
    consumer: Consumer,
    producer: Producer,
    function: Function,
    *,
    on_error: OnError | None = None,
    max_records: int = MAX_RECORDS,
    max_seconds: float = MAX_SECONDS,
    allow_read_uncommitted: bool = False,
) -> None:
    """Transform records until an error or an interruption; parameters and errors are those of `Transform`."""
    Transform(
        consumer,
        producer,
        function,
        on_error=on_error,
        max_records=max_records,
        max_seconds=max_seconds,
        allow_read_uncommitted=allow_read_uncommitted,
    ).run()


async def transform_async(
    consumer: AsyncConsumer,
    producer: AsyncProducer,
    function: AsyncFunction,
    *,
    on_error: AsyncOnError | None = None,
    max_records: int = MAX_RECORDS,
    max_seconds: float = MAX_SECONDS,
    allow_read_uncommitted: bool = False,
) -> None:
    """Transform records with an `AsyncTransform`; see `transform`."""
    await AsyncTransform(
        consumer,
        producer,
        function,
        on_error=on_error,
        max_records=max_records,
        max_seconds=max_seconds,
        allow_read_uncommitted=allow_read_uncommitted,
    ).run()


def _drive(operation: Operation[T]) -> T:
    return run(operation, ThreadWaiter())


async def _drive_async(operation: Operation[T]) -> T:
    return await run_async(operation, TaskWaiter(LoopBridge()))
