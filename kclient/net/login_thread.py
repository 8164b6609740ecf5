"""The thread on which a client computes what it needs to log in and what may take long: tokens, tickets, signatures.

It is started for the first such computation. A manager on the network thread has tokens refreshed in time, also while
the client is idle. Elsewhere: what is computed (`kclient.security`), and who waits for it (`sasl`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kclient.errors import KafkaError
from kclient.net.handshake import Await
from kclient.net.manager import NEVER, Poll
from kclient.net.runtime import Worker

_log = logging.getLogger(__name__)

_END_SECONDS = 0.0
"""Seconds that the end of a client waits for a computation: its result would be of no use."""


class Refreshable(Protocol):
    """Something that expires and has to be computed again before, such as a token."""

    @property
    def refresh_at(self) -> float:
        """When to refresh it, in seconds of the client's clock; NEVER until it is used."""

    def refresh(self) -> None:
        """Compute it again, and keep the present one if that fails. Blocks."""


class LoginThread:
    """The thread of one client; also the manager that has things refreshed (`net.manager.Manager`).

    Parameters:
        worker: the thread.
        submit: runs a function on the network thread.
        clock: seconds.
    """

    def __init__(
        self, worker: Worker, submit: Callable[[Callable[[], None]], None], clock: Callable[[], float]
    ) -> None:
        self._worker = worker
        self._submit = submit
        self._clock = clock
        self._refreshed: list[Refreshable] = []
        self._is_refreshing = False

    def keep_fresh(self, what: Refreshable) -> None:
        """Refresh something when it is time; call before the first poll."""
        self._refreshed.append(what)

    def call(self, function: Callable[[], Any], what: str) -> Await:
        """Return what a step yields to receive the result of a function, which runs on this thread.

        Parameters:
            function: returns the result, or raises.
            what: the computation, for the error of a step that waits for too long.
        """

        def start(resume: Callable[[Any, float], None]) -> None:
            self._worker.submit(lambda: self._run(function, resume))

        return Await(start, what)

    def _run(self, function: Callable[[], Any], resume: Callable[[Any, float], None]) -> None:
        outcome: Any
        try:
            outcome = function()
        except KafkaError as expected:
            outcome = expected
        except Exception as bug:  # noqa: BLE001 - the thread must continue; the connection reports the error
            _log.exception("an unexpected error while logging in")
            outcome = KafkaError(f"logging in failed unexpectedly: {bug!r}")
            outcome.__cause__ = bug
        self._submit(lambda: resume(outcome, self._clock()))

    def poll(self, now: float) -> Poll:
        """Have refreshed what is due."""
        if self._is_refreshing:
            return Poll([], NEVER)
        due = [what for what in self._refreshed if what.refresh_at <= now]
        if due:
            self._is_refreshing = True
            self._worker.submit(lambda: self._refresh(due))
            return Poll([], NEVER)
        return Poll([], min((what.refresh_at for what in self._refreshed), default=NEVER))

    def _refresh(self, due: list[Refreshable]) -> None:
        for what in due:
            what.refresh()
        self._submit(self._has_refreshed)

    def _has_refreshed(self) -> None:
        self._is_refreshing = False

    def close(self) -> None:
        """End the thread without waiting for what it computes."""
        self._worker.close(_END_SECONDS)
