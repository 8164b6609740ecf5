"""What a handler receives besides the body of its request, and what it may return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kclient.errors import ProtocolError
from kclient.protocol import Message
from refbroker.controller.change import Change
from refbroker.quotas.client_quotas import RequestQuota
from refbroker.security.authorizer import Access
from refbroker.security.principals import Principal
from refbroker.security.sasl import Authenticator

S = TypeVar("S")


class ClientConnection(Protocol):
    """The connection of a request.

    Attributes:
        peer: the client's address, for log lines.
        listener: the name of the listener that accepted it.
        authenticator: the client's login; None on a listener without SASL.
        client_software: name and version, as the client's ApiVersions request gave them.
        transport: writes to it.
    """

    peer: str
    listener: str
    authenticator: Authenticator | None
    client_software: tuple[str, str]
    transport: asyncio.Transport

    @property
    def principal(self) -> Principal:
        """Who the client is."""

    def close(self) -> None:
        """Close the connection after pending responses are sent."""

    def warn(self, what: str) -> None:
        """Log what is wrong with the connection, unless that was logged recently."""

    def hold(self, until: asyncio.Future[None]) -> None:
        """Read no further request until a future completes."""

    def ignore(self) -> None:
        """Discard all further input until the client disconnects."""


@dataclass(slots=True)
class Context(Generic[S]):
    """The request of a handler, without its body.

    Attributes:
        broker: the parts of the broker that the handler uses: a Protocol of `refbroker.handlers.services`, or `object`
            when it uses none.
        connection: the connection of the request.
        version: of the API.
        client_id: the client id in the request header.
        access: what the client may do.
        quota: how much it may use.
    """

    broker: S
    connection: ClientConnection
    version: int
    client_id: str | None
    access: Access
    quota: RequestQuota


@dataclass(slots=True)
class ErrorFree:
    """A response without error codes, which need not be searched for errors to count.

    Used for the large responses of Produce and Fetch.
    """

    message: Message


Reply = Message | ErrorFree | None
"""None is for requests without a response."""
Handler = Callable[[Context[Any], Any], Reply | Change | asyncio.Future[Any]]
"""The connection waits for a future of a Reply or a Change."""


class CloseConnectionError(ProtocolError):
    """Raised by a handler if the protocol has no other way to report the error."""
