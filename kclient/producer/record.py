"""A record as an application hands it over whole, and the interceptors that see it on its way."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from kclient.types import GivenHeaders, Headers, RecordMetadata


class ProducerRecord(msgspec.Struct):
    """What `send_many` takes and interceptors see; the fields are the parameters of `Producer.send`."""

    topic: str
    value: Any = None
    key: Any = None
    headers: GivenHeaders = ()
    partition: int | None = None
    timestamp: int | None = None


class ProducerInterceptor(Protocol):
    """Sees every record before it is serialized, and what came of it (KIP-42, KIP-512).

    What an interceptor raises is logged, and the record goes on without it. An `on_send` that returns something else
    than a record fails the `send`. One of the two methods may be left out.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, the same or another; in the thread or task that calls `send`."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, headers: Headers) -> None:
        """Note that a record was delivered, or failed; called once for each record, where delivery callbacks run.

        Parameters:
            metadata: where the record is. With an error it has the topic and the partition, which is -1 if none had
                been chosen; offset and timestamp are -1.
            error: why the record was not delivered, also where `send` raised it.
            headers: of the record as it was sent, with what interceptors and serializers added.
        """
