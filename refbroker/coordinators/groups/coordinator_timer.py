"""The clock and the timers that groups of both protocols use, those of a partition's runtime or of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from refbroker.coordinators.runtime import CoordinatorResult

Result = CoordinatorResult[None]
NOTHING: Result = CoordinatorResult((), None)

RETRY_AFTER_MS = 500
"""When what a timer was to write is tried again."""


class CoordinatorTimer(Protocol):
    """The clock of a coordinator's partition, and operations at later times (Kafka's `CoordinatorTimer`)."""

    def now(self) -> int:
        """The time, milliseconds since the epoch."""

    def schedule(
        self, name: str, delay_ms: int, operation: Callable[[], Result], retry_after_ms: int | None = None
    ) -> None:
        """Carry out an operation later; in the place of one with the same name."""

    def cancel(self, name: str) -> None:
        """Forget an operation."""
