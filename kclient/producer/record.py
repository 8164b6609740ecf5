"""A record as an application hands it over whole, and the interceptors that see it on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from kclient.types import RecordMetadata


class ProducerRecord(msgspec.Struct):
    """What `send_many` takes and interceptors see; the fields are the parameters of `Producer.send`."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Iterable[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


class ProducerInterceptor(Protocol):
    """Sees every record before it is serialized, and what came of it.

    What an interceptor raises is logged, and the record goes on without it. An `on_send` that returns something else
    than a record fails the `send`. One of the two methods may be left out.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record to send, the same or another; in the thread or task that calls `send`."""

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """One of the two is None; where delivery callbacks run."""
