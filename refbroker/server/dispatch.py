"""From a frame to the answer's parts: finds the handler, keeps its errors from the connection, encodes.

`refbroker.handlers.context` says what a handler may return. Tests may put an interceptor in between, for requests that
are to go wrong (`refbroker.testing.faults`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from kclient.errors import ProtocolError
from kclient.protocol import Message
from kclient.protocol.frames import API_VERSIONS, decode_request_header, encode_response
from refbroker.handlers.context import Change, ClientConnection, Context, ErrorFree, Reply
from refbroker.handlers.registry import Found, find
from refbroker.handlers.services import BrokerServices
from refbroker.metrics.requests import RequestStats
from refbroker.server.services import ServerServices


class PendingResponse(NamedTuple):
    """An answer that is not there yet."""

    future: asyncio.Future[Any]
    version: int
    correlation_id: int
    stats: RequestStats

    def encode(self) -> list[Any] | None:
        """The parts of the answer, once it is there; None when there is no answer.

        Raises:
            KafkaError: what the handler raised.
        """
        reply: Reply = self.future.result()
        if reply is None:
            return None
        return encode_response(_counted(reply, self.stats), self.version, self.correlation_id)


class Received(NamedTuple):
    """A request that an interceptor looks at.

    Attributes:
        body: the bytes of `request`, in memory that the connection may use again once this turn is over.
    """

    context: Context[BrokerServices]
    request: Message
    body: memoryview
    correlation_id: int
    stats: RequestStats


class Interceptor(Protocol):
    """What comes between requests and their handlers."""

    @property
    def is_active(self) -> bool:
        """Whether it may want any request at all."""

    def intercept(
        self, received: Received, carry_out: Callable[[Message], Awaitable[Message | None]]
    ) -> PendingResponse | None:
        """Take over a request; None leaves it alone.

        Parameters:
            carry_out: does what is done without an interceptor.
        """


class Dispatcher:
    """Handles the requests of all connections.

    Parameters:
        broker: whose requests they are.
        interceptor: what comes between requests and their handlers, if anything.
    """

    def __init__(self, broker: ServerServices, interceptor: Interceptor | None = None) -> None:
        self._broker = broker
        self._interceptor = interceptor
        self._stats = broker.metrics.requests

    def handle(
        self, connection: ClientConnection, frame: memoryview
    ) -> tuple[RequestStats, list[Any] | PendingResponse | None]:
        """Handle a request.

        Returns:
            The numbers of its API, and the parts of the answer, what to wait for, or None when there is no answer.

        Raises:
            ProtocolError: the request cannot be understood; the connection is of no more use.
            KafkaStorageError: the metadata log could not be written.
        """
        header, body = decode_request_header(frame)
        version = header.request_api_version
        handler = find(header.request_api_key, version)
        stats = self._stats[header.request_api_key]
        if handler is None:
            if header.request_api_key == API_VERSIONS:
                return stats, _unknown_api_versions(header.correlation_id, stats)
            raise ProtocolError(f"this broker has no API {header.request_api_key} in version {version}")
        # What follows is passed over, as by Kafka: librdkafka asks for all topics with three bytes too many.
        request, _ = handler.request_type.decode_prefix(body, version)
        context: Context[BrokerServices] = Context(self._broker, connection, version, header.client_id)
        if self._interceptor is not None and self._interceptor.is_active:
            received = Received(context, request, body, header.correlation_id, stats)
            intercepted = self._interceptor.intercept(received, self._later(handler, context))
            if intercepted is not None:
                return stats, intercepted
        reply = self._carry_out(handler, context, request)
        if reply is None:
            return stats, None
        if isinstance(reply, asyncio.Future):
            return stats, PendingResponse(reply, version, header.correlation_id, stats)
        return stats, encode_response(_counted(reply, stats), version, header.correlation_id)

    def _carry_out(
        self, handler: Found, context: Context[BrokerServices], request: Message
    ) -> Reply | asyncio.Future[Any]:
        answer = handler.handle(context, request)
        if isinstance(answer, Change):
            self._broker.metadata.append(answer.records)
            return answer.respond()
        return answer

    def _later(
        self, handler: Found, context: Context[BrokerServices]
    ) -> Callable[[Message], Awaitable[Message | None]]:
        async def carry_out(request: Message) -> Message | None:
            answer = self._carry_out(handler, context, request)
            reply: Reply = await answer if isinstance(answer, asyncio.Future) else answer
            return reply.message if isinstance(reply, ErrorFree) else reply

        return carry_out


def _counted(reply: Message | ErrorFree, stats: RequestStats) -> Message:
    """Count the errors in an answer, unless it is known to have none."""
    if isinstance(reply, ErrorFree):
        return reply.message
    stats.count_errors(reply)
    return reply


def _unknown_api_versions(correlation_id: int, stats: RequestStats) -> list[Any]:
    from refbroker.handlers.api_versions import unsupported

    answer = unsupported()
    stats.count_errors(answer)
    return encode_response(answer, 0, correlation_id)
