"""Prepares a record for the accumulator: interceptors, serializers and checks.

Everything runs in the caller's thread or task; an error fails this `send` only.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from kclient._bound_serializers import BoundSerializer, bind_serializer
from kclient._misuse import check_callback
from kclient.config import ProducerConfig
from kclient.producer.accumulator import OnDelivery
from kclient.producer.callbacks import Deliveries
from kclient.producer.interceptors import Acknowledgement, Interceptors, failed_metadata
from kclient.producer.record import ProducerRecord
from kclient.records.batch import HEADER_OVERHEAD
from kclient.types import GivenHeaders, Headers


class SerializedRecord:
    """A record ready to be appended; `size` is that of key, value and headers."""

    __slots__ = ("headers", "key", "on_delivery", "partition", "size", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.partition = partition
        self.timestamp = timestamp
        self.on_delivery = on_delivery
        self.size = len(key or b"") + len(value or b"")
        for name, data in headers:
            self.size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")


class RecordSerializer:
    """The preparation of records according to the options."""

    def __init__(self, config: ProducerConfig, deliveries: Deliveries) -> None:
        self._key_serializer = config.key_serializer and bind_serializer("key", config.key_serializer)
        self._value_serializer = config.value_serializer and bind_serializer("value", config.value_serializer)
        self._interceptors = Interceptors(config.interceptors)
        self.intercepts = bool(config.interceptors)
        self._deliveries = deliveries

    @property
    def is_plain(self) -> bool:
        """Whether no code of the application has to run."""
        return not (self._key_serializer or self._value_serializer or self.intercepts)

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None = None,
    ) -> SerializedRecord:
        """Run interceptors and serializers, and check the result.

        Raises:
            SerializationError: a serializer failed.
            TypeError: an interceptor's on_send returned no record; on_delivery cannot be called, or is a coroutine
                function.
            TypeError, ValueError: a part of the record is of the wrong type or out of range.
        """
        if on_delivery is not None:
            check_callback("on_delivery", on_delivery)
        if not self.intercepts:
            return self._serialized(topic, value, key, _headers(headers), partition, timestamp, on_delivery)
        record = ProducerRecord(topic, value, key, headers or (), partition, timestamp)
        given: Headers = ()
        try:
            record = self._interceptors.on_send(record)
            given = _headers(record.headers)
            return self._serialized(
                record.topic, record.value, record.key, given, record.partition, record.timestamp, on_delivery
            )
        except Exception as error:
            self._report(record.topic, record.partition, given, error)
            raise

    def _serialized(
        self,
        topic: str,
        value: Any,
        key: Any,
        given: Headers,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> SerializedRecord:
        if not isinstance(topic, str):
            raise TypeError(f"a topic is a str, not {type(topic).__name__}")
        headers = list(given)
        key_bytes = _bytes("key", key, self._key_serializer, topic, headers)
        value_bytes = _bytes("value", value, self._value_serializer, topic, headers)
        sent = _headers(headers)  # serializers may have added some
        if self._interceptors.see_results:
            on_delivery = Acknowledgement(self._interceptors, sent, on_delivery)
        partition, timestamp = _number("partition", partition), _number("timestamp", timestamp)
        return SerializedRecord(str(topic), value_bytes, key_bytes, sent, partition, timestamp, on_delivery)

    def failed(self, record: SerializedRecord, error: BaseException) -> None:
        """Report to the interceptors that a prepared record was not accepted; `send` raises the error."""
        if isinstance(record.on_delivery, Acknowledgement):
            self._report(record.topic, record.partition, record.headers, error)

    def _report(self, topic: str, partition: int | None, headers: Headers, error: BaseException) -> None:
        if self._interceptors.see_results:
            metadata = failed_metadata(topic, partition)
            report = self._interceptors.on_acknowledgement
            self._deliveries.dispatcher.dispatch([(None, lambda _: report(metadata, error, headers))])


def _bytes(
    part: str, data: Any, serializer: BoundSerializer | None, topic: str, headers: list[tuple[str, bytes | None]]
) -> bytes | None:
    if serializer is not None:
        return serializer(data, topic, headers)
    if data is None or type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"a {part} must be bytes-like or None, not {type(data).__name__}; encode it, or set {part}_serializer"
        ) from None


def _headers(headers: Iterable[tuple[str, Any]] | None) -> Headers:
    if not headers:
        return ()
    if isinstance(headers, Mapping):
        raise TypeError("headers are pairs, because a name may occur more than once; for a mapping, pass its items()")
    checked: list[tuple[str, bytes | None]] = []
    for item in headers:
        try:
            name, value = item
            if not isinstance(name, str):
                raise TypeError
            checked.append((str(name), None if value is None else bytes(memoryview(value))))
        except (TypeError, ValueError):
            raise TypeError(f"a header is a pair of str and bytes or None, not {item!r}") from None
    return tuple(checked)


def _number(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {value!r}") from None
    if number < 0:
        raise ValueError(f"{name} must be 0 or more, not {number}")
    return int(number)
