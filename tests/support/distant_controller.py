"""A controller on another node, whose answers the test sends."""

from __future__ import annotations

import asyncio
from typing import Any

from kclient.protocol import Message
from tests.support.broker_harness import turns


class DistantController:
    """A `ControllerClient`.

    Attributes:
        requests: the requests that are not answered yet.
    """

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self._futures: list[asyncio.Future[Any]] = []

    def ask(self, request: Message) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.append(request)
        self._futures.append(future)
        return future

    async def answer(self, outcome: Message | Exception) -> None:
        """Answer the oldest request, or fail it."""
        future = self._take()
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        await turns()

    async def cancel(self) -> None:
        """Cancel the oldest request, as the end of the node does."""
        self._take().cancel()
        await turns()

    def _take(self) -> asyncio.Future[Any]:
        del self.requests[0]
        return self._futures.pop(0)
