"""The listener that ends a batch before partitions go, and tells the application's own listener afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from kclient.consumer import RebalanceListener
from kclient.transform.driving import Steps
from kclient.types import TopicPartition

Then = Callable[[Steps[None], Callable[[], Any]], Any]
"""Runs steps, and then a function; awaitable on the async face."""
Before = Callable[[Collection[TopicPartition]], Steps[None]]
"""What is done before the application hears of it."""


class Guard(RebalanceListener):
    """Stands before the application's listener while the loop runs.

    Parameters:
        listener: the application's.
        then: how steps run.
        before_revoked, before_lost: what comes first.
    """

    def __init__(self, listener: RebalanceListener, then: Then, before_revoked: Before, before_lost: Before) -> None:
        self._listener = listener
        self._then = then
        self._before_revoked = before_revoked
        self._before_lost = before_lost

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._listener.on_assigned(partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        told: Awaitable[None] | None = self._then(
            self._before_revoked(partitions), lambda: self._listener.on_revoked(partitions)
        )
        return told

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        told: Awaitable[None] | None = self._then(
            self._before_lost(partitions), lambda: self._listener.on_lost(partitions)
        )
        return told
