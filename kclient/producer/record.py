"""A whole record as an application passes it, and the interface of interceptors."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from kclient.types import GivenHeaders, Headers, RecordMetadata


class ProducerRecord(msgspec.Struct):
    """The parameter of `send_many` and interceptors; its fields are the parameters of `Producer.send`."""

    topic: str
    value: Any = None
    key: Any = None
    headers: GivenHeaders = ()
    partition: int | None = None
    timestamp: int | None = None


class ProducerInterceptor(Protocol):
    """Sees every record before it is serialized, and its result (KIP-42, KIP-512).

    An exception of an interceptor is logged, and the record is sent without it. An `on_send` that does not return a
    record fails the `send`. One of the two methods is optional.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, the same or another; in the thread or task that calls `send`."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, headers: Headers) -> None:
        """Note that a record was delivered, or failed; called once for each record, where delivery callbacks run.

        Parameters:
            metadata: where the record is. With an error it has the topic and the partition, which is -1 if none had
                been chosen; offset and timestamp are -1.
            error: why the record was not delivered, also where `send` raised it.
            headers: the headers as sent, with those that interceptors and serializers added.
        """
