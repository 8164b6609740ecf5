"""The blocking face of the producer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from kclient.config import ProducerConfig
from kclient.errors import DeliveryError
from kclient.options import ProducerOptions
from kclient.producer.accumulator import OnDelivery
from kclient.producer.callbacks import ThreadDispatcher
from kclient.producer.core import EXIT_SECONDS, ProducerCore
from kclient.producer.future import RecordFuture
from kclient.producer.implementation import SendPath
from kclient.producer.record import ProducerRecord
from kclient.producer.waiting import run
from kclient.types import PartitionInfo

CLOSE_SECONDS = 10.0
"""How long an unlimited close() waits for the network thread once all records are settled."""
LAST_SECONDS = 1.0
"""How long a close() whose time is over still waits for the records left to fail, and their callbacks to run."""


class Producer(SendPath):
    """Sends records to Kafka; may be used by many threads at once.

    `send` comes from the base class, of which there is a compiled twin: appending a record and making its
    future is one call, without a Python frame of its own.

        with Producer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("orders", b"value", key=b"k")
            print(future.result(timeout=10))

    Parameters:
        options: see `kclient.config.ProducerConfig`.

    Raises:
        ConfigError: an option does not exist or does not fit.
    """

    _core: ProducerCore

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
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
        self._dispatcher = ThreadDispatcher("kclient-producer-callbacks")
        self._core = ProducerCore(config, self._dispatcher)
        self._set_accumulator(self._core.accumulator)

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture:
        core = self._core
        told = core.preparation.on_delivery(on_delivery)
        record = core.prepare(topic, value, key, headers, partition, timestamp)
        future = core.try_append(record, told)
        if future is None:
            future = run(core.append_in_time(record, told), core.news)
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

    def flush(self, timeout: float | None = None) -> None:
        """Send what waits for company, and wait until everything sent before is delivered or failed.

        Parameters:
            timeout: seconds; None waits as long as it takes, which delivery_timeout_ms limits.

        Raises:
            DeliveryError: records failed whose result nobody looked at.
            KafkaTimeoutError: the time passed; delivery goes on.
        """
        run(self._core.flush(timeout), self._core.news)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, as the metadata has them.

        Parameters:
            timeout: seconds to wait for metadata; max_block_ms by default.

        Raises:
            KafkaTimeoutError: no metadata came.
            UnknownTopicOrPartitionError, InvalidTopicError, TopicAuthorizationError: the topic's own error.
        """
        return run(self._core.partitions_for(topic, timeout), self._core.news)

    def metrics(self) -> dict[str, float]:
        """What the producer counts: by Kafka's names, with labels for topic and broker."""
        return self._core.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Deliver everything, run the callbacks, and stop; further calls raise ClosedError.

        Parameters:
            timeout: seconds; what is not delivered by then fails with a ClosedError, which may take a moment more.
                None waits until all is delivered or failed. Closing twice does nothing.

        Raises:
            DeliveryError: records failed whose result nobody looked at.
        """
        core = self._core
        if core.closed:
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            run(core.begin_close(timeout), core.news)
        finally:
            core.end_close(closing_seconds(deadline))
            self._dispatcher.close(closing_seconds(deadline))
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

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else "open"
        return f"<Producer {self._core.config.client_id!r} {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.warn_unclosed(self)


def closing_seconds(deadline: float | None) -> float:
    """How long the end of a close() may take whose time is over at the deadline, on the monotonic clock."""
    return CLOSE_SECONDS if deadline is None else max(LAST_SECONDS, deadline - time.monotonic())
