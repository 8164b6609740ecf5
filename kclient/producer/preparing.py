"""From what a caller of `send` hands over to what the accumulator takes: interceptors, serializers, checks.

All of it runs in the caller's thread or task; what fails here fails this one `send`.
"""

from __future__ import annotations

import inspect
import logging
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from kclient._bound_serializers import BoundSerializer, bind_serializer
from kclient._misuse import is_coroutine_function
from kclient.config import ProducerConfig
from kclient.errors import SerializationError
from kclient.producer.accumulator import OnDelivery
from kclient.producer.callbacks import Deliveries
from kclient.producer.record import ProducerInterceptor, ProducerRecord
from kclient.records.batch import HEADER_OVERHEAD
from kclient.types import RecordMetadata

_log = logging.getLogger(__name__)


class Prepared:
    """A record as it will be appended; `size` is that of key, value and headers."""

    __slots__ = ("headers", "key", "partition", "size", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.partition = partition
        self.timestamp = timestamp
        self.size = len(key or b"") + len(value or b"")
        for name, data in headers:
            self.size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")


class Preparation:
    """What the options say happens to each record first."""

    def __init__(self, config: ProducerConfig, deliveries: Deliveries) -> None:
        self._key_serializer = config.key_serializer and bind_serializer("key", config.key_serializer)
        self._value_serializer = config.value_serializer and bind_serializer("value", config.value_serializer)
        self._interceptors: tuple[ProducerInterceptor, ...] = tuple(config.interceptors)
        self._before = [each for each in self._interceptors if hasattr(each, "on_send")]
        self._after = [each for each in self._interceptors if hasattr(each, "on_acknowledgement")]
        self._deliveries = deliveries

    @property
    def is_plain(self) -> bool:
        """Whether nothing of the user's has to run."""
        return not (self._key_serializer or self._value_serializer or self._interceptors)

    @property
    def intercepts(self) -> bool:
        """Whether interceptors are to see each record."""
        return bool(self._interceptors)

    def prepare(
        self, topic: str, value: Any, key: Any, headers: Any, partition: int | None, timestamp: int | None
    ) -> Prepared:
        """Run interceptors and serializers, and check what comes out.

        Raises:
            SerializationError: a serializer failed; interceptors are told.
            TypeError: an interceptor's on_send returned no record.
            TypeError, ValueError: a part of the record is of the wrong type or out of range.
        """
        if self._before:
            record = self._intercept(ProducerRecord(topic, value, key, headers or (), partition, timestamp))
            topic, value, key = record.topic, record.value, record.key
            headers, partition, timestamp = record.headers, record.partition, record.timestamp
        if not isinstance(topic, str):
            raise TypeError(f"a topic is a str, not {type(topic).__name__}")
        checked = list(_headers(headers))
        try:
            key_bytes = _bytes("key", key, self._key_serializer, topic, checked)
            value_bytes = _bytes("value", value, self._value_serializer, topic, checked)
        except SerializationError as error:
            self._tell_interceptors(error)
            raise
        return Prepared(
            str(topic),
            value_bytes,
            key_bytes,
            _headers(checked),  # serializers may have added some
            _number("partition", partition),
            _number("timestamp", timestamp),
        )

    def _intercept(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._before:
            try:
                returned: Any = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - user code; as with Java, the record goes on without it
                _log.exception("on_send of %r failed", interceptor)
                continue
            if not isinstance(returned, ProducerRecord):
                if inspect.iscoroutine(returned):
                    returned.close()
                kind = "None" if returned is None else f"a {type(returned).__name__}"
                raise TypeError(
                    f"on_send of {interceptor!r} returned {kind}; it must return the ProducerRecord to send"
                )
            record = returned
        return record

    def _tell_interceptors(self, error: BaseException) -> None:
        if self._after:
            self._deliveries.dispatcher.dispatch([(None, lambda _: self._acknowledge(None, error))])

    def _acknowledge(self, result: Any, error: BaseException | None) -> None:
        for interceptor in self._after:
            try:
                interceptor.on_acknowledgement(result, error)
            except Exception:  # noqa: BLE001 - user code; the other interceptors and the callback have to run
                _log.exception("on_acknowledgement of %r failed", interceptor)

    def on_delivery(self, own: OnDelivery | None) -> OnDelivery | None:
        """What is to be told of the record's result: interceptors, then the caller's function.

        Raises:
            TypeError: the caller's function cannot be called, or is a coroutine function.
        """
        if own is not None and not callable(own):
            raise TypeError(f"on_delivery is a function or None, not {own!r}")
        if own is not None and is_coroutine_function(own):
            raise TypeError(
                f"on_delivery must be a plain function, not the coroutine function {own!r}: nothing would await it"
            )
        if not self._after:
            return own

        def tell(result: RecordMetadata | None, error: BaseException | None) -> None:
            self._acknowledge(result, error)
            if own is not None:
                own(result, error)

        return tell


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
            f"a {part} is bytes-like or None, not {type(data).__name__}; encode it, or set {part}_serializer"
        ) from None


def _headers(headers: Iterable[tuple[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    if isinstance(headers, Mapping):
        raise TypeError("headers are pairs, since a name may stand more than once: of a mapping, give its items()")
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
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < 0:
        raise ValueError(f"{name} must be 0 or more, not {number}")
    return int(number)
