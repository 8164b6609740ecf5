"""The callbacks of commits: they run in the application's calls or in its event loop, never on the network thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

RunSoon = Callable[[Callable[[], None]], None]
"""Runs a function in the application's event loop, in order."""


class CommitCallbacks:
    """The callbacks that are due.

    Parameters:
        run_soon: runs them in the application's event loop; None to run them in its calls.
        wake: wakes a call that waits.
    """

    def __init__(self, run_soon: RunSoon | None, wake: Callable[[], None]) -> None:
        self._run_soon = run_soon
        self._wake = wake
        self._due: deque[Callable[[], None]] = deque()

    def add(self, callback: Callable[[], None]) -> None:
        """Add a callback to run soon (network thread)."""
        if self._run_soon is not None:
            self._run_soon(callback)
        else:
            self._due.append(callback)
            self._wake()

    def run(self) -> None:
        """Run the due callbacks, in a call of the application."""
        while self._due:
            self._due.popleft()()
