"""What a handler gets beside the body of its request, and what it may return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kclient.errors import ProtocolError
from kclient.protocol import Message

S = TypeVar("S")


class ClientConnection(Protocol):
    """The connection that a request came by.

    Attributes:
        peer: the client's address, for log lines.
        client_software: name and version, as the client's ApiVersions request gave them.
        transport: writes to it.
    """

    peer: str
    client_software: tuple[str, str]
    transport: asyncio.Transport

    def close(self) -> None:
        """Close it, once what was written is sent."""

    def ignore(self) -> None:
        """Read and drop whatever comes until the client goes."""


@dataclass(slots=True)
class Context(Generic[S]):
    """What a handler knows of its request beside the body.

    Attributes:
        broker: the parts of the broker that the handler uses: a Protocol of `refbroker.handlers.services`, or `object`
            when it uses none.
        connection: where the request came from.
        version: of the API.
        client_id: as the client calls itself.
    """

    broker: S
    connection: ClientConnection
    version: int
    client_id: str | None


@dataclass(slots=True)
class Change:
    """A change of the cluster's state.

    Attributes:
        records: what is appended to the metadata log, all or nothing.
        respond: makes the answer when the change has taken effect.
    """

    records: Sequence[Message]
    respond: Callable[[], Message]


@dataclass(slots=True)
class ErrorFree:
    """An answer that has no error code set, so that none has to be searched for to be counted.

    Answers with many partitions are worth it: those of Produce and Fetch.
    """

    message: Message


Reply = Message | ErrorFree | None
"""None is for requests that get no answer."""
Handler = Callable[[Context[Any], Any], Reply | Change | asyncio.Future[Any]]
"""A future is of a Reply; the connection waits for it."""


class CloseConnectionError(ProtocolError):
    """What a handler raises when the protocol has no other way to say that it went wrong."""
