"""The thread on which a client computes what it needs to log in and what may take long: tokens, tickets, signatures,
the keys of SCRAM.

It is started for the first such computation. A manager on the network thread has tokens refreshed in time, also while
the client is idle. A computation that takes longer than any connection waits is given up: its thread is left to itself,
and another one continues with the next computation, so that a function of the application that hangs does not keep the
client from logging in. Elsewhere: what is computed (`kclient.security`), and who waits for it (`sasl`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from kclient.errors import CredentialsUnavailableError, KafkaError
from kclient.net.handshake import Await
from kclient.net.manager import NEVER, Poll
from kclient.net.runtime import Worker

_log = logging.getLogger(__name__)

_END_SECONDS = 0.0
"""Seconds that the end of a client waits for a computation: its result would be of no use."""
_MOST_HANGING = 2
"""The most computations that are left to themselves: each keeps a thread."""


class Refreshable(Protocol):
    """Something that expires and has to be computed again before, such as a token."""

    @property
    def refresh_at(self) -> float:
        """When to refresh it, in seconds of the client's clock; NEVER until it is used."""

    @property
    def awaits(self) -> str:
        """What a refresh waits for, for errors."""

    def refresh(self) -> None:
        """Compute it again, and keep the present one if that fails. Blocks."""


class _Computation:
    """A function for the thread, and what to do with its outcome.

    Attributes:
        what: what it waits for, for errors.
        end: takes the result or a KafkaError, and the time; on the network thread.
    """

    def __init__(self, function: Callable[[], Any], what: str, end: Callable[[Any, float], None]) -> None:
        self.what = what
        self.end = end
        # A thread takes the function out, so that a second thread cannot call it as well.
        self._functions = [function]

    def take(self) -> Callable[[], Any] | None:
        """Return the function, None if another thread has it."""
        try:
            return self._functions.pop()
        except IndexError:
            return None


class LoginThread:
    """The thread of one client; also the manager that has things refreshed (`net.manager.Manager`).

    Parameters:
        new_worker: returns a new thread.
        submit: runs a function on the network thread.
        clock: seconds.
        limit: seconds after which a computation is given up.
    """

    def __init__(
        self,
        new_worker: Callable[[], Worker],
        submit: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        limit: float,
    ) -> None:
        self._new_worker = new_worker
        self._worker = new_worker()
        self._submit = submit
        self._clock = clock
        self._limit = limit
        self._waiting: deque[_Computation] = deque()
        """The computations without an outcome; the first one runs."""
        self._began = 0.0
        self._hanging = 0
        self._refreshed: list[Refreshable] = []
        self._is_refreshing = False
        self._retry_refresh: dict[Refreshable, float] = {}

    def keep_fresh(self, what: Refreshable) -> None:
        """Refresh something when it is time; call before the first poll."""
        self._refreshed.append(what)

    def call(self, function: Callable[[], Any], what: str) -> Await:
        """Return what a step yields to receive the result of a function, which runs on this thread.

        If the function has not returned after the limit, the step receives a CredentialsUnavailableError.

        Parameters:
            function: returns the result, or raises.
            what: what it waits for, for errors.
        """

        def start(resume: Callable[[Any, float], None]) -> None:
            self._begin(_Computation(function, what, resume))

        return Await(start, what)

    def _begin(self, computation: _Computation) -> None:
        if self._hanging >= _MOST_HANGING:
            error = CredentialsUnavailableError(
                f"{computation.what} is not called: {self._hanging} earlier calls have not returned; check what they "
                "wait for"
            )
            # Later, because the step that asks has not stopped yet.
            self._submit(lambda: computation.end(error, self._clock()))
            return
        self._waiting.append(computation)
        if len(self._waiting) == 1:
            self._began = self._clock()
        self._worker.submit(lambda: self._run(computation))

    def _run(self, computation: _Computation) -> None:
        """Call the function, on a thread of its own."""
        function = computation.take()
        if function is None:
            return
        outcome: Any
        try:
            outcome = function()
        except KafkaError as expected:
            outcome = expected
        except Exception as bug:  # noqa: BLE001 - the thread must continue; the connection reports the error
            _log.exception("an unexpected error while logging in")
            outcome = KafkaError(f"logging in failed unexpectedly: {bug!r}")
            outcome.__cause__ = bug
        self._submit(lambda: self._end(computation, outcome))

    def _end(self, computation: _Computation, outcome: Any) -> None:
        if computation not in self._waiting:
            self._hanging -= 1
            return
        self._waiting.remove(computation)
        self._began = now = self._clock()
        computation.end(outcome, now)

    def _give_up(self, now: float) -> None:
        """Fail the computation that runs, and continue with the others on another thread."""
        late = self._waiting.popleft()
        error = CredentialsUnavailableError(
            f"{late.what} did not return within {self._limit:.3g} s; check what it waits for"
        )
        _log.warning("logging in: %s", error.message)
        self._hanging += 1
        self._worker.close(_END_SECONDS)
        self._worker = self._new_worker()
        others, self._waiting = self._waiting, deque()
        for computation in others:
            self._begin(computation)
        late.end(error, now)

    def poll(self, now: float) -> Poll:
        """Give up what takes too long, and have refreshed what is due."""
        if self._waiting and now >= self._began + self._limit:
            self._give_up(now)
        due = [] if self._is_refreshing else [what for what in self._refreshed if self._due(what) <= now]
        if due:
            self._refresh(due)
        next_refresh = NEVER if self._is_refreshing else min(map(self._due, self._refreshed), default=NEVER)
        return Poll([], min(next_refresh, self._began + self._limit if self._waiting else NEVER))

    def _due(self, what: Refreshable) -> float:
        return min(what.refresh_at, self._retry_refresh.get(what, NEVER))

    def _refresh(self, due: list[Refreshable]) -> None:
        def refresh() -> None:
            for what in due:
                what.refresh()

        def end(outcome: Any, now: float) -> None:
            self._is_refreshing = False
            if isinstance(outcome, KafkaError):
                self._retry_refresh |= dict.fromkeys(due, now + self._limit)

        self._is_refreshing = True
        for what in due:
            self._retry_refresh.pop(what, None)
        self._begin(_Computation(refresh, " and ".join(what.awaits for what in due), end))

    def close(self) -> None:
        """End the thread without waiting for what it computes."""
        self._worker.close(_END_SECONDS)
