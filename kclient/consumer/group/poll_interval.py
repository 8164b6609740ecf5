"""Watches that the application makes progress: it has to ask for records every `max_poll_interval_ms`.

While it waits for records it has none to work on, however long that takes. While it iterates over a chunk, each
record that it takes is a sign of life; these are noticed whenever somebody looks here, which costs nothing per record.
"""

from __future__ import annotations

from collections.abc import Callable

from kclient.net.manager import NEVER


class PollInterval:
    """The clock of one consumer's application.

    Parameters:
        milliseconds: how long it may take.
        taken: gives another object whenever the application took another record of its chunk.
    """

    def __init__(self, milliseconds: int, taken: Callable[[], object]) -> None:
        self.milliseconds = milliseconds
        self._taken = taken
        self._last: object = None
        # Written by the owner alone, as the one below by the network thread alone.
        self._polled_at = NEVER
        self._progress_at = 0.0

    def polled(self, now: float) -> None:
        """The application asks for records (owner's thread)."""
        self._polled_at = now

    def waits(self) -> None:
        """It waits for them, until it is `polled` again (owner's thread)."""
        self._polled_at = NEVER

    def expired(self, now: float) -> bool:
        """Whether there was no sign of life for too long (network thread)."""
        taken = self._taken()
        if taken is not self._last:
            self._last = taken
            self._progress_at = now
        return now >= self.deadline()

    def deadline(self) -> float:
        """When it is too long, as far as is known (network thread)."""
        return max(self._polled_at, self._progress_at) + self.milliseconds / 1000
