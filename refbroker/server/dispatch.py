"""From a frame to the parts of the response: finds the handler, turns its errors into responses, encodes.

`refbroker.handlers.context` defines what a handler may return. Tests may add an interceptor to make requests fail
(`refbroker.testing.faults`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kclient.errors import ProtocolError, RequestTimedOutError, UnknownServerError
from kclient.protocol import Message
from kclient.protocol.frames import API_VERSIONS, decode_request_header, decode_response_header, encode_response
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from refbroker.controller.change import Change
from refbroker.handlers.answers import host_of
from refbroker.handlers.context import ClientConnection, Context, ErrorFree, Reply
from refbroker.handlers.registry import FORWARDED, Found, find
from refbroker.handlers.services import BrokerServices
from refbroker.metrics.requests import RequestStats
from refbroker.quotas.client_quotas import UNLIMITED, LimitedRequest, RequestQuota
from refbroker.runtime.error_codes import code_of
from refbroker.security.authorizer import FULL_ACCESS, Access
from refbroker.server.services import ServerServices

if TYPE_CHECKING:
    from refbroker.peers.forwarding import Forwarder

_PRODUCE = 0
_SIZE = struct.Struct(">i")
_LOGIN = (SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key)


class PendingResponse(NamedTuple):
    """A response that is not available yet."""

    future: asyncio.Future[Any]
    version: int
    correlation_id: int
    stats: RequestStats
    throttle: Callable[[Message | None], None] | None = None
    commit: Callable[[Change], Message] | None = None

    def encode(self) -> list[Any] | None:
        """Return the parts of the response when it is available; None when there is no response.

        Raises:
            KafkaError: the handler's error.
        """
        reply: Reply | Change | bytes = self.future.result()
        if isinstance(reply, bytes):
            # A response of the controller, with its header.
            if self.throttle is not None:
                self.throttle(None)
            return [_SIZE.pack(len(reply)), reply]
        if isinstance(reply, Change):
            assert self.commit is not None
            reply = self.commit(reply)
        message = None if reply is None else _counted(reply, self.stats)
        if self.throttle is not None:
            self.throttle(message)
        return None if message is None else encode_response(message, self.version, self.correlation_id)


class Received(NamedTuple):
    """A request as an interceptor receives it.

    Attributes:
        body: the bytes of `request`, in memory that the connection may reuse after this turn.
    """

    context: Context[BrokerServices]
    request: Message
    body: memoryview
    correlation_id: int
    stats: RequestStats


class Interceptor(Protocol):
    """Called between the dispatcher and the handlers."""

    @property
    def is_active(self) -> bool:
        """Whether it may intercept any request at all."""

    def intercept(
        self, received: Received, carry_out: Callable[[Message], Awaitable[Message | None]]
    ) -> PendingResponse | None:
        """Take over a request; return None to leave it alone.

        Parameters:
            carry_out: handles the request as without an interceptor.
        """


class Dispatcher:
    """Handles the requests of all connections.

    Parameters:
        broker: the broker that receives the requests.
        interceptor: called before the handlers, if any.
    """

    def __init__(self, broker: ServerServices, interceptor: Interceptor | None = None) -> None:
        self._broker = broker
        self._interceptor = interceptor
        self._stats = broker.metrics.requests
        self._authorizer = broker.authorizer
        self._quotas = broker.quotas
        self._controllers = frozenset(broker.config.listeners.controllers)
        self._forwarder = broker.forwarder
        self._forwarding: set[asyncio.Task[Any]] = set()

    def handle(
        self, connection: ClientConnection, frame: memoryview
    ) -> tuple[RequestStats, list[Any] | PendingResponse | None]:
        """Handle a request.

        Returns: The metrics of its API, and the parts of the response, a pending response, or None when there is no
        response.

        Raises:
            ProtocolError: the request cannot be parsed; the connection must be closed.
            IllegalSaslStateError: the client has to log in first; the connection must be closed.
            KafkaStorageError: the metadata log could not be written.
        """
        header, body = decode_request_header(frame)
        version = header.request_api_version
        handler = find(header.request_api_key, version, of_controller=connection.listener in self._controllers)
        stats = self._stats[header.request_api_key]
        if connection.authenticator is not None:
            connection.authenticator.check_allowed(header.request_api_key)
        if handler is None:
            if header.request_api_key == API_VERSIONS:
                return stats, _unknown_api_versions(header.correlation_id, stats)
            raise ProtocolError(f"this broker has no API {header.request_api_key} in version {version}")
        # Trailing bytes are ignored, as in Kafka: librdkafka's request for all topics has three bytes too many.
        request, _ = handler.request_type.decode_prefix(body, version)
        access: Access = FULL_ACCESS
        if self._authorizer is not None:
            host = host_of(connection.peer)
            access = self._authorizer.access(connection.principal, host.removeprefix("/"), header.request_api_key)
        quota: RequestQuota = UNLIMITED
        throttle: Callable[[Message | None], None] | None = None
        if self._quotas.is_active and not _is_login(connection, header.request_api_key):
            limited = quota = self._quotas.of_request(connection.principal.name, header.client_id or "")
            throttle = partial(self._throttle, connection, limited, request, len(frame))
        context: Context[BrokerServices] = Context(self._broker, connection, version, header.client_id, access, quota)
        forward: Callable[[], asyncio.Future[Any]] | None = None
        if self._forwarder is not None and header.request_api_key in FORWARDED:
            forward = partial(self._forward, self._forwarder, connection, bytes(frame), request, version)
        if self._interceptor is not None and self._interceptor.is_active:
            received = Received(context, request, body, header.correlation_id, stats)
            intercepted = self._interceptor.intercept(received, self._later(handler, context, forward))
            if intercepted is not None:
                return stats, intercepted._replace(throttle=throttle)
        reply = self._carry_out(handler, context, request) if forward is None else forward()
        if isinstance(reply, asyncio.Future):
            if throttle is not None:
                limited.record_time()
            return stats, PendingResponse(reply, version, header.correlation_id, stats, throttle, self._commit)
        message = None if reply is None else _counted(reply, stats)
        if throttle is not None:
            throttle(message)
        return stats, None if message is None else encode_response(message, version, header.correlation_id)

    def _forward(
        self, forwarder: Forwarder, connection: ClientConnection, frame: bytes, request: Message, version: int
    ) -> asyncio.Future[Any]:
        """Return a future of the controller's response, or of an error response if no controller answers."""

        async def forward() -> bytes | Message:
            login = connection.authenticator
            try:
                return await forwarder.forward(
                    frame,
                    connection.principal,
                    host_of(connection.peer).removeprefix("/"),
                    with_token=login is not None and login.by_token,
                )
            except (RequestTimedOutError, UnknownServerError) as error:
                # Imported on first use: without other controllers nothing is forwarded.
                from refbroker.handlers.error_answers import outline, put_code

                answer = outline(request, version)
                put_code(answer, version, code_of(error), error.message)
                return answer

        task = asyncio.get_running_loop().create_task(forward())
        self._forwarding.add(task)
        task.add_done_callback(self._forwarding.discard)
        return task

    def _throttle(
        self,
        connection: ClientConnection,
        quota: LimitedRequest,
        request: Message,
        size: int,
        response: Message | None,
    ) -> None:
        """Record what a request has used; if that is too much, tell the client, and hold its connection (KIP-219).

        Parameters:
            size: bytes of the request.
            response: the response, before it is encoded; None if the client expects none.
        """
        if request.api_key == _PRODUCE:
            quota.record_produce(size)
        if response is not None:
            quota.record_time()
        if quota.throttle_ms > 0:
            if response is not None and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = quota.throttle_ms
            quota.note_throttled()
            connection.hold(self._quotas.clock.wake_after(quota.throttle_ms))

    def _carry_out(
        self, handler: Found, context: Context[BrokerServices], request: Message
    ) -> Reply | asyncio.Future[Any]:
        answer = handler.handle(context, request)
        return self._commit(answer) if isinstance(answer, Change) else answer

    def _commit(self, change: Change) -> Message:
        return self._broker.controller.commit(change)

    def _later(
        self, handler: Found, context: Context[BrokerServices], forward: Callable[[], asyncio.Future[Any]] | None
    ) -> Callable[[Message], Awaitable[Message | None]]:
        async def carry_out(request: Message) -> Message | None:
            answer = self._carry_out(handler, context, request) if forward is None else forward()
            reply: Reply | Change | bytes = await answer if isinstance(answer, asyncio.Future) else answer
            if isinstance(reply, bytes):
                _, body = decode_response_header(request.api_key, context.version, reply)
                return handler.request_type.response_type.decode(body, context.version)
            if isinstance(reply, Change):
                reply = self._commit(reply)
            return reply.message if isinstance(reply, ErrorFree) else reply

        return carry_out


def _is_login(connection: ClientConnection, api_key: int) -> bool:
    """Return whether a request is part of a login, which needs no quota, as in Kafka."""
    login = connection.authenticator
    return login is not None and (not login.is_complete or api_key in _LOGIN)


def _counted(reply: Message | ErrorFree, stats: RequestStats) -> Message:
    """Count the errors in a response, unless it is known to have none."""
    if isinstance(reply, ErrorFree):
        return reply.message
    stats.count_errors(reply)
    return reply


def _unknown_api_versions(correlation_id: int, stats: RequestStats) -> list[Any]:
    from refbroker.handlers.api_versions import unsupported

    answer = unsupported()
    stats.count_errors(answer)
    return encode_response(answer, 0, correlation_id)
