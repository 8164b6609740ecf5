"""The blocking producer.

Elsewhere: the logic of each call (`core`), and waiting in an event loop (`async_producer`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, NoReturn, Self, Unpack

from kclient._help import documents_options
from kclient._misuse import refuse_pickling, refuse_positional
from kclient._offsets import GivenOffsets
from kclient.config import ProducerConfig
from kclient.errors import DeliveryError
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.engine import EXIT_SECONDS
from kclient.net.operation import run
from kclient.net.runtime import current
from kclient.options import ProducerOptions
from kclient.producer.accumulator import OnDelivery
from kclient.producer.callbacks import WorkerDispatcher
from kclient.producer.core import ProducerCore
from kclient.producer.future import RecordFuture
from kclient.producer.implementation import SendPath
from kclient.producer.record import ProducerRecord
from kclient.producer.rows import RowsCall
from kclient.producer.rows_future import RowsFuture
from kclient.producer.transactions.context import Transaction
from kclient.records import RowColumns
from kclient.types import ClientHealth, ConsumerGroupMetadata, GivenHeaders, PartitionInfo, PreparedTransaction


@documents_options(ProducerConfig)
class Producer(SendPath):
    """A producer; any number of threads may share it.

        with Producer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("orders", b"value", key=b"k")
            print(future.result(timeout=10))

    Parameters:
        options: see `kclient.config.ProducerConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
    """

    _core: ProducerCore

    def __init__(self, *arguments: Never, **options: Unpack[ProducerOptions]) -> None:
        refuse_positional(type(self), arguments)
        self._open(ProducerConfig.from_options(options))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[ProducerOptions]
    ) -> Self:
        """Return a producer configured with Kafka's dotted option names.

        Parameters:
            properties: a mapping such as `{"bootstrap.servers": ...}`, or the path of a .properties file.
            options: options by their Python names; they override the properties.
        """
        made = cls.__new__(cls)
        made._open(ProducerConfig.from_properties(properties, **options))
        return made

    def _open(self, config: ProducerConfig) -> None:
        self._dispatcher = WorkerDispatcher(current().worker("kclient-producer-callbacks"))
        self._core = ProducerCore(config, self._dispatcher)
        self._set_accumulator(self._core.accumulator)

    if TYPE_CHECKING:
        # `send` comes from the base class, which has a compiled twin: appending a record and creating its future is one
        # call, without a Python frame of its own. A test compares the two declarations.
        def send(
            self,
            topic: str,
            value: Any = None,
            key: Any = None,
            headers: GivenHeaders = (),
            partition: int | None = None,
            timestamp: int | None = None,
            on_delivery: OnDelivery | None = None,
        ) -> RecordFuture:
            """Send a record: add it to a batch, which is sent when it is full or linger_ms has passed.

            Parameters:
                topic: the topic; its metadata is looked up on first use, which may take a moment.
                value: what the value serializer takes; bytes or None without a serializer.
                key: what the key serializer takes; bytes or None without a serializer.
                headers: pairs of str and bytes or None.
                partition: the partition; None lets the partitioner choose.
                timestamp: milliseconds since the epoch; the current time by default.
                on_delivery: called with (RecordMetadata, None) or (None, error) in the producer's callback thread.

            Returns:
                A future whose `result()` is the record's RecordMetadata. The call waits up to max_block_ms for buffer
                memory and for the topic's metadata, and does not wait for delivery.

            Raises:
                SerializationError: a serializer failed; nothing was sent.
                TypeError: a key, value or header is not bytes-like, without a serializer; on_delivery cannot be
                    called or is a coroutine function; an interceptor returned no record.
                RecordTooLargeError: the record is larger than max_request_size or buffer_memory.
                BufferExhaustedError: buffer_memory stayed full for max_block_ms.
                RecordNotAcceptedError: the metadata of the topic was not received within max_block_ms.
                UnknownTopicOrPartitionError: the topic or partition does not exist.
                InvalidTopicError: the name of the topic is not valid.
                TopicAuthorizationError: the client may not write to the topic.
                IllegalStateError: the producer has a transactional_id, and no transaction is open.
                ClosedError: the producer is closed.
                ForkError: the producer was made before this process was forked.
                KafkaError: the error that ended the producer or its transaction.
            """

    else:
        # Named here so that `help` shows it among the producer's own methods.
        send = SendPath.send

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture:
        core = self._core
        record = core.prepare(topic, value, key, headers, partition, timestamp, on_delivery)
        future = core.try_append(record)
        if future is None:
            future = run(core.append_in_time(record), core.waiter())
        return future

    def send_many(
        self, topic: str | None, values: Iterable[Any], *, on_delivery: OnDelivery | None = None
    ) -> list[RecordFuture]:
        """Send several records in order.

        Parameters:
            topic: the topic of all records; None if each is a ProducerRecord, which names its topic.
            values: values, or ProducerRecords with keys, headers and so on.
            on_delivery: as for `send`; called for each record.

        Returns:
            A future for each record. The call raises the errors of `send` for the first record that cannot be sent; the
            records before it are sent.
        """
        send = self.send
        futures = []
        for value in values:
            if isinstance(value, ProducerRecord):
                futures.append(
                    send(
                        topic or value.topic,
                        value.value,
                        value.key,
                        value.headers,
                        value.partition,
                        value.timestamp,
                        on_delivery,
                    )
                )
            elif topic is None:
                raise TypeError("send_many without a topic takes ProducerRecords")
            else:
                futures.append(send(topic, value, on_delivery=on_delivery))
        return futures

    def send_arrow(
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
        """Send each row of Arrow data as a record, without making Python objects of the rows.

        Partitions are chosen as by `send`; serializers are not used. A custom partitioner is called for each row, which
        makes Python objects of its key and value.

        Parameters:
            topic: the topic; None if topic_column names the column of topics.
            data: a RecordBatch or Table of pyarrow, or any object with the Arrow PyCapsule interface, such as those of
                polars and DuckDB.
            value: the column of values, binary or strings; None for records without a value.
            key: the column of keys, binary or strings; None for records without a key.
            headers: the column of lists of structs of key (string) and value (binary); null for no headers.
            partition: the column of integers; null lets the partitioner choose.
            timestamp: the column of timestamps, or of milliseconds since the epoch; null for the current time.
            topic_column: the column of topics, instead of `topic`.

        Returns:
            One future for all rows. The call waits for buffer memory and metadata as `send` does, not for delivery.

        Raises:
            ImportError: pyarrow is not installed.
            TypeError: the type of `data` or of a column is not supported; nothing was sent.
            ValueError: a column does not exist, or a row cannot be a record; nothing was sent.
            RecordTooLargeError: a row is larger than max_request_size or buffer_memory; nothing was sent.
            IllegalStateError: as by `send`, or the producer has interceptors.
            KafkaError: another error of `send`, with a note that names the row; the rows before it are sent.
        """
        core = self._core
        columns = RowColumns(value, key, headers, partition, timestamp, topic_column)
        call = RowsCall(core, topic, data, columns)
        for turn in call.turns:
            run(call.append(*turn), core.waiter())
        return call.future

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches now, and wait until each record that was sent before is delivered or failed.

        Parameters:
            timeout: seconds; None waits for all records, which delivery_timeout_ms limits.

        Raises:
            DeliveryError: records failed whose result nobody has seen.
            KafkaTimeoutError: the timeout passed; delivery continues.
        """
        run(self._core.flush(timeout), self._core.waiter())

    # -- transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional id: fence other producers of that id, and complete their transactions (KIP-98).

        Call it once before the first transaction, and again after `prepare_transaction` when that transaction has
        ended; a prepared transaction that has not ended is aborted.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout, call again to continue waiting.

        Raises:
            IllegalStateError: the producer has no transactional_id, or has registered it already.
            KafkaTimeoutError: the coordinator did not answer in time.
            TransactionalIdAuthorizationError: the client may not use the id; the call may be repeated.
            InvalidTxnTimeoutError: transaction_timeout_ms is more than the broker's transaction.max.timeout.ms.
        """
        run(self._core.calls.init_transactions(timeout), self._core.waiter())

    def begin_transaction(self) -> None:
        """Begin a transaction: records sent from now on become visible together when it is committed. Sends no request.

        Raises:
            IllegalStateError: the producer is in another state; the text names the state and what to do.
            KafkaError: an earlier error prevents it; its `abortable` or `fatal` is set.
        """
        self._core.calls.begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Add a consumer's offsets to the transaction; they are committed if and when the transaction is.

        Parameters:
            offsets: the next offset to read of each partition.
            group_metadata: `consumer.group_metadata()`, so that the coordinator can fence a consumer that lost its
                partitions (KIP-447).
            timeout: seconds; max_block_ms by default. After a timeout the request continues, and the commit waits for
                it.

        Raises:
            IllegalStateError: no transaction is open.
            KafkaTimeoutError: the coordinators did not answer in time.
            KafkaError: with `abortable`, such as CommitFailedError of a consumer that is no longer a member; or
                `fatal`.
        """
        run(self._core.calls.send_offsets(offsets, group_metadata, timeout), self._core.waiter())

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction and commit it, with its offsets.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout the outcome is not known: the same call waits for
                it again, and no other call is allowed until then.

        Raises:
            IllegalStateError: no transaction is open.
            KafkaTimeoutError: the transaction did not end in time.
            KafkaError: with `abortable`, the transaction is not committed, for example because a record could not be
                delivered: abort it. With `fatal`, such as ProducerFencedError, the producer can only be closed.
        """
        run(self._core.calls.commit_transaction(timeout), self._core.waiter())

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction; records that are not sent yet fail with a TransactionAbortedError.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout, call again to continue waiting.

        Raises:
            IllegalStateError: no transaction is open.
            KafkaTimeoutError: the transaction did not end in time.
            KafkaError: a fatal error.
        """
        run(self._core.calls.abort_transaction(timeout), self._core.waiter())

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Deliver all records and leave the transaction for `Admin.complete_transaction` to end (KIP-939).

        The producer may be closed afterwards, which leaves the transaction open; its timeout keeps running. After the
        transaction has ended, `init_transactions` makes the producer ready for the next one; before, it aborts it.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout, call again to continue waiting, or abort.

        Raises:
            IllegalStateError: no transaction is open.
            KafkaTimeoutError: not all records were delivered in time.
            KafkaError: with `abortable`, as by commit_transaction, and if nothing was sent; or `fatal`.
        """
        return run(self._core.calls.prepare_transaction(timeout), self._core.waiter())

    def transaction(self, timeout: float | None = None) -> Transaction:
        """Return a context manager that begins a transaction, and commits it, or aborts it if the body raises.

            with producer.transaction():
                producer.send("out", b"value")

        An exception of the body is raised again; if the abort fails as well, a note says so. An error of the commit is
        raised after an abort, if one is possible.

        Parameters:
            timeout: seconds for the commit or the abort; max_block_ms by default.
        """
        return Transaction(self, self._core.transaction_state, timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Return the partitions of a topic, from the metadata of this client.

        Parameters:
            timeout: seconds to wait for metadata; max_block_ms by default.

        Raises:
            KafkaTimeoutError: no metadata was received in time.
            UnknownTopicOrPartitionError: the topic does not exist.
            InvalidTopicError: the name of the topic is not valid.
            TopicAuthorizationError: the client may not see the topic.
        """
        return run(self._core.partitions_for(topic, timeout), self._core.waiter())

    @property
    def config(self) -> ProducerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable, and the last error of each that is not. Any thread may call this.

        The call sends no request.
        """
        return self._core.health()

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names; each key has a `name` and `labels` (topic, broker)."""
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
        self._core.engine.add_metrics_hook(hook, interval)

    def close(self, timeout: float | None = None) -> None:
        """Deliver all records, run the callbacks and stop; later calls raise ClosedError. Closing twice does nothing.

        An open transaction is aborted, within max_block_ms if there is no timeout; if that fails, the coordinator
        aborts it after transaction_timeout_ms. A commit in progress is waited for, and a prepared transaction stays
        open.

        Parameters:
            timeout: seconds. Records that are not delivered by then fail with a DeliveryUnknownError if they were
                sent, otherwise with a RecordNotDeliveredError. None is the option close_timeout_ms, by default until
                each record is delivered or failed.

        Raises:
            DeliveryError: records failed whose result nobody has seen.
        """
        core = self._core
        if core.closed:
            return
        timeout = core.close_timeout(timeout)
        deadline = None if timeout is None else core.engine.clock() + timeout
        try:
            run(core.begin_close(timeout), core.waiter())
        finally:
            core.end_close(core.closing_seconds(deadline))
            self._dispatcher.close(core.closing_seconds(deadline))
        core.raise_failures()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            # Ctrl-C and exits do not wait for long; an error of the program does not cost records.
            self.close(None if isinstance(error, Exception) else EXIT_SECONDS)
        except DeliveryError as failed:
            error.add_note(f"while it was raised: {failed}")

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else "open"
        return f"<Producer {self._core.config.client_id!r} {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.warn_unclosed(self)
