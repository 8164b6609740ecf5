"""How the parts of a broker ask the active controller, wherever it is.

On a node that is the active controller itself, the request is carried out in the same turn of the event loop
(`refbroker.controller.direct`), and the future is done on return. Other nodes send it (`controller_channel`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from kclient.protocol import Message


class ControllerClient(Protocol):
    """Sends requests to the active controller."""

    def ask(self, request: Message) -> asyncio.Future[Any]:
        """Return a future of the response.

        The future fails with a KafkaError if no controller answers in time, or if it cannot store the change. Errors of
        the request itself are in the response.
        """


def when_done(future: asyncio.Future[Any], act: Callable[[asyncio.Future[Any]], object]) -> None:
    """Call a function with a future when it is done: immediately if it is, unlike a callback of the future.

    A future that is cancelled, because this node stops, is ignored.
    """
    if future.done():
        act(future)
    else:
        future.add_done_callback(lambda done: None if done.cancelled() else act(done))
