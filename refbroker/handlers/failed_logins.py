"""The end of a failed login: response and close are delayed, which slows down further attempts."""

from __future__ import annotations

import asyncio
from typing import Any

from kclient.errors import KafkaError
from kclient.protocol import Message
from refbroker.config import BrokerConfig
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices


def close_later(
    context: Context[MetadataServices],
    response: Message,
    error: KafkaError,
    answer: asyncio.Future[Any] | None = None,
) -> asyncio.Future[Any]:
    """Respond after `connection.failed.authentication.delay.ms`, and close the connection.

    Parameters:
        error: the reason, for the log.
        answer: the future that the connection waits for, if it waits already.

    Returns:
        The future that the connection has to wait for.
    """
    loop = asyncio.get_running_loop()
    pending: asyncio.Future[Any] = loop.create_future() if answer is None else answer

    def respond() -> None:
        if not pending.done():
            pending.set_result(response)
            # The response is written by a callback of the future, which comes first.
            loop.call_soon(context.connection.close)

    context.connection.warn(f"its login failed: {with_cause(error)}")
    loop.call_later(delay_seconds(context.broker.config), respond)
    return pending


def delay_seconds(config: BrokerConfig) -> float:
    """Return how long the end of a failed login waits."""
    return config.integer("connection.failed.authentication.delay.ms") / 1000


def with_cause(error: KafkaError) -> str:
    """Return the message of an error with its cause, which the client does not learn."""
    cause = error.__cause__
    if cause is None:
        return error.message
    return f"{error.message} ({cause.message if isinstance(cause, KafkaError) else cause})"
