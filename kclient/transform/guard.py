"""The listener that ends a batch before partitions are revoked, and then calls the application's listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from kclient.consumer import RebalanceListener
from kclient.net.operation import Call, Operation
from kclient.types import TopicPartition

Drive = Callable[[Operation[None]], Any]
"""Drives an operation to its end; awaitable for AsyncTransform."""
Before = Callable[[Collection[TopicPartition]], Operation[None]]
"""An operation that runs before the application's listener."""


class Guard(RebalanceListener):
    """Wraps the application's listener while the loop runs.

    Parameters:
        listener: the application's listener.
        drive: drives operations.
        before_revoked, before_lost: run before the listener's methods.
    """

    def __init__(self, listener: RebalanceListener, drive: Drive, before_revoked: Before, before_lost: Before) -> None:
        self._listener = listener
        self._drive = drive
        self._before_revoked = before_revoked
        self._before_lost = before_lost

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._listener.on_assigned(partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._after(self._before_revoked(partitions), Call(self._listener.on_revoked, partitions))

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._after(self._before_lost(partitions), Call(self._listener.on_lost, partitions))

    def _after(self, before: Operation[None], call: Call) -> Awaitable[None] | None:
        driven: Awaitable[None] | None = self._drive(_in_turn(before, call))
        return driven


def _in_turn(before: Operation[None], call: Call) -> Operation[None]:
    yield from before
    yield call
