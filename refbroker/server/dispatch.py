"""From a frame to the answer's parts: finds the handler, keeps its errors from the connection, encodes.

What a handler returns is an answer, None for no answer at all, a `Change` (metadata records to append,
and the answer once they are), or a future of an answer, while which the connection waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import ProtocolError
from kclient.protocol import Message
from kclient.protocol.frames import API_VERSIONS, decode_request_header, encode_response
from refbroker.handlers.registry import Found, find
from refbroker.metrics.requests import RequestStats

if TYPE_CHECKING:
    from refbroker.broker import Broker
    from refbroker.server.connection import Connection


@dataclass(slots=True)
class Change:
    """A change of the cluster's state.

    Attributes:
        records: what is appended to the metadata log, all or nothing.
        respond: makes the answer when the change has taken effect.
    """

    records: Sequence[Message]
    respond: Callable[[], Message]


class Waiting(NamedTuple):
    """An answer that is not there yet."""

    future: asyncio.Future[Message | None]
    version: int
    correlation_id: int
    stats: RequestStats

    def encode(self) -> list[Any] | None:
        """The parts of the answer, once it is there; None when there is no answer.

        Raises:
            KafkaError: what the handler raised.
        """
        answer = self.future.result()
        if answer is None:
            return None
        self.stats.count_errors(answer)
        return encode_response(answer, self.version, self.correlation_id)


Answer = Message | Change | None
Handler = Callable[["Context", Any], "Answer | asyncio.Future[Message | None]"]
Outcome = Message | None | asyncio.Future[Message | None]


@dataclass(slots=True)
class Context:
    """What a handler knows of its request beside the body.

    Attributes:
        broker: the broker.
        connection: where the request came from.
        version: of the API.
        client_id: as the client calls itself.
    """

    broker: Broker
    connection: Connection
    version: int
    client_id: str | None


FETCH = 1
"""Up to this API, that is for Produce and Fetch, answers are only searched for errors when their handlers had one."""


class CloseConnectionError(ProtocolError):
    """What a handler raises when the protocol has no other way to say that it went wrong."""


class Dispatcher:
    """Handles the requests of all connections.

    Parameters:
        broker: whose.

    Attributes:
        handled: the numbers of the API whose request was handled last.
    """

    handled: RequestStats

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._faults = broker.faults
        self._metrics = broker.metrics
        self._stats = broker.metrics.requests

    def handle(self, connection: Connection, frame: memoryview) -> list[Any] | Waiting | None:
        """Handle a request.

        Returns:
            The parts of the answer, what to wait for, or None when there is no answer.

        Raises:
            ProtocolError: the request cannot be understood; the connection is of no more use.
            KafkaStorageError: the metadata log could not be written.
        """
        header, body = decode_request_header(frame)
        version = header.request_api_version
        handler = find(header.request_api_key, version)
        stats = self.handled = self._stats[header.request_api_key]
        if handler is None:
            if header.request_api_key == API_VERSIONS:
                return self._unknown_api_versions(header.correlation_id)
            raise ProtocolError(f"this broker has no API {header.request_api_key} in version {version}")
        # What follows is passed over, as by Kafka: librdkafka asks for all topics with three bytes too many.
        request, _ = handler.request_type.decode_prefix(body, version)
        context = Context(self._broker, connection, version, header.client_id)
        if self._faults.rules:
            struck = self._strike(context, handler, request, body, header.correlation_id)
            if struck is not None:
                return struck
        answer = self._carry_out(handler, context, request)
        if isinstance(answer, Message):
            if self._metrics.has_failed or header.request_api_key > FETCH:
                self._metrics.has_failed = False
                stats.count_errors(answer)
            return encode_response(answer, version, header.correlation_id)
        if answer is None:
            return None
        return Waiting(answer, version, header.correlation_id, stats)

    def _carry_out(self, handler: Found, context: Context, request: Message) -> Outcome:
        answer = handler.handle(context, request)
        if isinstance(answer, Change):
            self._broker.metadata.append(answer.records)
            return answer.respond()
        return answer

    def _strike(
        self, context: Context, handler: Found, request: Message, body: memoryview, correlation_id: int
    ) -> Waiting | None:
        """Let the faults that are for a request strike; None when there are none."""
        from refbroker.testing.faults.injection import Exchange, StruckRequest, matching

        faults = matching(context, request)
        if not faults:
            return None

        async def carry_out(changed: Message) -> Message | None:
            answer = self._carry_out(handler, context, changed)
            return await answer if isinstance(answer, asyncio.Future) else answer

        # The connection may use the memory of the request again before it is carried out.
        own, _ = handler.request_type.decode_prefix(bytearray(body), context.version)
        exchange = Exchange(context, own, correlation_id, carry_out)
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(exchange.run(faults))
        return StruckRequest(task, context.version, correlation_id, self.handled)

    def _unknown_api_versions(self, correlation_id: int) -> list[Any]:
        from refbroker.handlers.api_versions import unsupported

        answer = unsupported()
        self.handled.count_errors(answer)
        return encode_response(answer, 0, correlation_id)
