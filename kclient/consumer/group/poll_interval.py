"""The check that the application asks for records every `max_poll_interval_ms`.

An application that waits for records makes progress, however long that takes. Within a chunk of an iteration, every
record that the application takes counts as progress. The timer notices that when it is checked, without a cost per
record.
"""

from __future__ import annotations

from collections.abc import Callable

from kclient.net.manager import NEVER


class PollInterval:
    """The timer of one consumer's application.

    Parameters:
        milliseconds: the option max_poll_interval_ms.
        taken: returns a different object after the application has taken another record of its chunk.
    """

    def __init__(self, milliseconds: int, taken: Callable[[], object]) -> None:
        self.milliseconds = milliseconds
        self._taken = taken
        self._last: object = None
        # Written by the application only; the next one by the network thread only.
        self._polled_at = NEVER
        self._progress_at = 0.0

    def polled(self, now: float) -> None:
        """Note that the application asks for records (application's thread)."""
        self._polled_at = now

    def waits(self) -> None:
        """Note that it waits for records, until it is `polled` again (application's thread)."""
        self._polled_at = NEVER

    def expired(self, now: float) -> bool:
        """Return whether the application was silent for too long (network thread)."""
        taken = self._taken()
        if taken is not self._last:
            self._last = taken
            self._progress_at = now
        return now >= self.deadline()

    def deadline(self) -> float:
        """Return when the interval will have passed, as far as is known (network thread)."""
        return max(self._polled_at, self._progress_at) + self.milliseconds / 1000
