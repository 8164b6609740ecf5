"""The end of a failed login: response and close are delayed, which slows down further attempts."""

from __future__ import annotations

import asyncio
from typing import Any

from kclient.errors import KafkaError
from kclient.protocol import Message
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices


def close_later(context: Context[MetadataServices], response: Message, error: KafkaError) -> asyncio.Future[Any]:
    """Respond after `connection.failed.authentication.delay.ms`, and close the connection.

    Parameters:
        error: the reason, for the log.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def respond() -> None:
        if not answer.done():
            answer.set_result(response)
            # The response is written by a callback of the future, which comes first.
            loop.call_soon(context.connection.close)

    cause = "" if error.__cause__ is None else f" ({error.__cause__})"
    context.connection.warn(f"its login failed: {error.message}{cause}")
    loop.call_later(context.broker.config.integer("connection.failed.authentication.delay.ms") / 1000, respond)
    return answer
