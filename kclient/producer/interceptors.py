"""The interceptors of a producer: they see each record before it is serialized, and its result.

An exception of an interceptor is logged. Elsewhere: serialization (`record_serializer`), and the threads of callbacks
(`callbacks`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any

from kclient.producer.accumulator import OnDelivery
from kclient.producer.record import ProducerInterceptor, ProducerRecord
from kclient.types import Headers, RecordMetadata

_log = logging.getLogger(__name__)

UNKNOWN_PARTITION = -1
"""The partition in the metadata of a record that failed before one was chosen, as in Java."""


class Interceptors:
    """The interceptors of one producer, in the order of its option."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._before = [each for each in interceptors if hasattr(each, "on_send")]
        self._after = [each for each in interceptors if hasattr(each, "on_acknowledgement")]

    @property
    def see_results(self) -> bool:
        """Whether one of them has `on_acknowledgement`."""
        return bool(self._after)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send.

        Raises:
            TypeError: an interceptor returned no record.
        """
        for interceptor in self._before:
            try:
                returned: Any = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - user code; as in Java, the record is sent without it
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

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, headers: Headers) -> None:
        """Report the result of a record."""
        for interceptor in self._after:
            try:
                interceptor.on_acknowledgement(metadata, error, headers)
            except Exception:  # noqa: BLE001 - user code; the other interceptors and the callback have to run
                _log.exception("on_acknowledgement of %r failed", interceptor)


class Acknowledgement:
    """The delivery callback of an intercepted record: it reports to the interceptors, then to the caller's function.

    Parameters:
        interceptors: the producer's.
        headers: the headers as sent, with those that interceptors and serializers have added.
        on_delivery: the caller's function.
    """

    __slots__ = ("headers", "interceptors", "on_delivery")

    def __init__(self, interceptors: Interceptors, headers: Headers, on_delivery: OnDelivery | None) -> None:
        self.interceptors = interceptors
        self.headers = headers
        self.on_delivery = on_delivery

    def __call__(self, metadata: RecordMetadata, error: BaseException | None) -> Any:
        """Report; `metadata` has topic and partition also with an error, unlike that of the caller's function."""
        self.interceptors.on_acknowledgement(metadata, error, self.headers)
        if self.on_delivery is not None:
            return self.on_delivery(None if error is not None else metadata, error)
        return None


def failed_metadata(topic: str, partition: int | None) -> RecordMetadata:
    """Return the metadata of a record that was not delivered, which has no offset and no timestamp."""
    return RecordMetadata(topic, UNKNOWN_PARTITION if partition is None else partition, -1, -1)
