"""The interface of clock and timers for groups of both protocols, implemented by a partition's runtime and by tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from refbroker.coordinators.runtime import CoordinatorResult

Result = CoordinatorResult[None]
NOTHING: Result = CoordinatorResult((), None)

RETRY_AFTER_MS = 500
"""When an operation of a timer is retried after a failed write."""


class CoordinatorTimer(Protocol):
    """The clock of a coordinator's partition, and operations at later times (Kafka's `CoordinatorTimer`)."""

    def now(self) -> int:
        """Return the time, in milliseconds since the epoch."""

    def schedule(
        self, name: str, delay_ms: int, operation: Callable[[], Result], retry_after_ms: int | None = None
    ) -> None:
        """Run an operation later; it replaces one with the same name."""

    def cancel(self, name: str) -> None:
        """Cancel an operation."""
