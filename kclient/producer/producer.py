"""The blocking face of the producer."""

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
from kclient.metrics import MetricValues
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
        """Make one from Kafka's dotted names: a mapping or a .properties file; keyword options win."""
        made = cls.__new__(cls)
        made._open(ProducerConfig.from_properties(properties, **options))
        return made

    def _open(self, config: ProducerConfig) -> None:
        self._dispatcher = WorkerDispatcher(current().worker("kclient-producer-callbacks"))
        self._core = ProducerCore(config, self._dispatcher)
        self._set_accumulator(self._core.accumulator)

    if TYPE_CHECKING:
        # Comes from the base class, of which there is a compiled twin: appending a record and making its future is one
        # call, without a Python frame of its own. A test keeps the two declarations the same.
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
            """Send a record: it joins a batch, which travels when it is full or has waited for linger_ms.

            Parameters:
                topic: where to; looked up in the cluster on first use, which may take a moment.
                value: what the value serializer takes; bytes or None without a serializer.
                key: what the key serializer takes; bytes or None without a serializer.
                headers: pairs of str and bytes or None.
                partition: instead of the partitioner's choice.
                timestamp: milliseconds since the epoch; the current time by default.
                on_delivery: called with (RecordMetadata, None) or (None, error) in the producer's callback thread.

            Returns:
                A future; its `result()` is the record's RecordMetadata. It waits for room or for the topic's metadata
                up to max_block_ms; delivery itself is never waited for here.

            Raises:
                SerializationError: a serializer failed; nothing was sent.
                TypeError: a key, value or header that is not bytes-like, without a serializer; an on_delivery that
                    cannot be called or is a coroutine function; an interceptor that returns no record.
                RecordTooLargeError: the record is larger than max_request_size or buffer_memory.
                BufferExhaustedError: buffer_memory stayed full for max_block_ms.
                RecordNotAcceptedError: the metadata of the topic was not received within max_block_ms.
                UnknownTopicOrPartitionError, InvalidTopicError, TopicAuthorizationError: the topic's own error.
                IllegalStateError: the producer has a transactional_id, and no open transaction.
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
        """Send several records; they keep their order.

        Parameters:
            topic: where to; None if each is a ProducerRecord that says so itself.
            values: values, or ProducerRecords with keys, headers and so on.
            on_delivery: as for `send`, called for each.

        Returns:
            A future for each. Raises what `send` raises, for the first record that cannot be sent; those before
            it are on their way.
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
        """Send the rows of Arrow data, each as a record, without making Python objects of them.

        Partitions are chosen as by `send`. Serializers play no part. A partitioner of your own is asked for each row,
        which makes an object of it after all.

        Parameters:
            topic: where to; None if a column says so.
            data: a RecordBatch or Table of pyarrow's, or whatever else hands out Arrow data (PyCapsule interface), as
                what polars and DuckDB have.
            value: the column of values, binary or strings; None for records without a value.
            key: the column of keys, binary or strings; None for records without a key.
            headers: a column of lists of structs of key (string) and value (binary); null for none.
            partition: a column of whole numbers; null for the partitioner's choice.
            timestamp: a column of timestamps, or of milliseconds since the epoch; null for the current time.
            topic_column: a column of topics, instead of `topic`.

        Returns:
            One future for all rows. It waits for room and metadata as `send` does; not for delivery.

        Raises:
            ImportError: pyarrow is not installed.
            TypeError: what `data` is, or the type of a column, does not fit; nothing was sent.
            ValueError: a column does not exist, or a row cannot be a record; nothing was sent.
            RecordTooLargeError: a row is larger than max_request_size or buffer_memory; nothing was sent.
            IllegalStateError: as for `send`, and if the producer has interceptors.
            KafkaError: what else `send` raises, with a note that tells the row; those before it are on their way.
        """
        core = self._core
        columns = RowColumns(value, key, headers, partition, timestamp, topic_column)
        call = RowsCall(core, topic, data, columns)
        for turn in call.turns:
            run(call.append(*turn), core.waiter())
        return call.future

    def flush(self, timeout: float | None = None) -> None:
        """Send what waits for company, and wait until everything sent before is delivered or failed.

        Parameters:
            timeout: seconds; None waits as long as it takes, which delivery_timeout_ms limits.

        Raises:
            DeliveryError: records failed whose result nobody looked at.
            KafkaTimeoutError: the time passed; delivery goes on.
        """
        run(self._core.flush(timeout), self._core.waiter())

    # -- transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take the transactional id: finish what another producer of that id left open, and fence it (KIP-98).

        Called once, before the first transaction; and once more after `prepare_transaction`, when the transaction is
        ended: it aborts one that is not.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout the same call waits again.

        Raises:
            IllegalStateError: the producer has no transactional_id, or the id already.
            KafkaTimeoutError: the coordinator did not answer in time.
            TransactionalIdAuthorizationError: the id may not be used; the call may be repeated.
            InvalidTxnTimeoutError: transaction_timeout_ms is more than the broker's transaction.max.timeout.ms.
        """
        run(self._core.calls.init_transactions(timeout), self._core.waiter())

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on counts when it is committed. Asks no broker.

        Raises:
            IllegalStateError: the state does not allow it: it says which, and what to do.
            KafkaError: what stands in the way: `abortable` or `fatal` tells which kind it is.
        """
        self._core.calls.begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Let offsets of a consumer count as committed if and when the transaction is.

        Parameters:
            offsets: by partition, the next offset to read.
            group_metadata: `consumer.group_metadata()`, by which a consumer is found out that lost its partitions
                (KIP-447).
            timeout: seconds; max_block_ms by default. After a timeout it goes on, and the commit waits for it.

        Raises:
            IllegalStateError: there is no open transaction.
            KafkaTimeoutError: the coordinators did not answer in time.
            KafkaError: with `abortable`, as CommitFailedError of a consumer that is no member any more, or `fatal`.
        """
        run(self._core.calls.send_offsets(offsets, group_metadata, timeout), self._core.waiter())

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver everything, and commit the transaction: its records and offsets count, all of them.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout nobody knows yet whether it is committed: the
                same call waits for the result again, and nothing else is allowed until then.

        Raises:
            IllegalStateError: there is no open transaction.
            KafkaTimeoutError: it did not end in time.
            KafkaError: with `abortable`, the transaction is not committed, as when a record could not be delivered:
                abort it. With `fatal`, as ProducerFencedError, the producer can only be closed.
        """
        run(self._core.calls.commit_transaction(timeout), self._core.waiter())

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: nothing of it counts. What was not sent yet fails with TransactionAbortedError.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout the same call waits again.

        Raises:
            IllegalStateError: there is no open transaction.
            KafkaTimeoutError: it did not end in time.
            KafkaError: a fatal one.
        """
        run(self._core.calls.abort_transaction(timeout), self._core.waiter())

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Deliver everything, and let go of the transaction, for somebody else to end: `Admin.complete_transaction`.

        The producer may be closed then, which leaves the transaction as it is. The transaction's timeout runs on.
        When it is ended, `init_transactions` makes the producer ready for the next one; before, it aborts it.

        Parameters:
            timeout: seconds; max_block_ms by default. After a timeout the same call waits again; or abort.

        Raises:
            IllegalStateError: there is no open transaction.
            KafkaTimeoutError: not everything was delivered in time.
            KafkaError: with `abortable`, as for commit_transaction, and when nothing was sent; or `fatal`.
        """
        return run(self._core.calls.prepare_transaction(timeout), self._core.waiter())

    def transaction(self, timeout: float | None = None) -> Transaction:
        """A context manager: begins a transaction, and commits it, or aborts it if the body raises.

            with producer.transaction():
                producer.send("out", b"value")

        What the body raised is raised again; if the abort fails as well, a note on it says so. What the commit raises
        is raised after an abort, where that is possible.

        Parameters:
            timeout: seconds for the commit or the abort; max_block_ms by default.
        """
        return Transaction(self, self._core.transaction_state, timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, as the metadata has them.

        Parameters:
            timeout: seconds to wait for metadata; max_block_ms by default.

        Raises:
            KafkaTimeoutError: no metadata came.
            UnknownTopicOrPartitionError, InvalidTopicError, TopicAuthorizationError: the topic's own error.
        """
        return run(self._core.partitions_for(topic, timeout), self._core.waiter())

    @property
    def config(self) -> ProducerConfig:
        """The options, with the defaults of those that were not given."""
        return self._core.config

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable, and the last error of each that is not.

        From any thread; asks no broker.
        """
        return self._core.health()

    def metrics(self) -> MetricValues:
        """Return what the producer counts, by Kafka's names; each key has a `name` and `labels` (topic, broker)."""
        return self._core.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Deliver everything, run the callbacks, and stop; further calls raise ClosedError.

        A transaction that is open is aborted, within max_block_ms if there is no timeout; if that fails, the broker
        does it after transaction_timeout_ms. One that is being committed is waited for, and one that was prepared stays
        as it is.

        Parameters:
            timeout: seconds. Records that are not delivered by then fail with a DeliveryUnknownError if they were
                sent, else with a RecordNotDeliveredError.
                None is the option close_timeout_ms, by default until each record is delivered or failed. Closing
                twice does nothing.

        Raises:
            DeliveryError: records failed whose result nobody looked at.
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
            # Ctrl-C and exits do not wait for long; what is an error of the program's does not cost records.
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
