"""The functions that an application has asked to receive a client's metrics at an interval.

A manager on the network thread decides when a hook is due; the hook itself runs on a worker of the client, so that a
slow one delays neither requests nor the callbacks of records. A call that has not started yet is not submitted again.

Elsewhere: the metrics themselves (`kclient.metrics`), and the figures that a consumer computes for each snapshot
(`consumer.health.gauges`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kclient.metrics import MetricsHook, MetricValues
from kclient.net.manager import NEVER, Poll
from kclient.net.runtime import Worker

_log = logging.getLogger(__name__)

_LAST_CALL = 1.0
"""Seconds that the end of a client waits for the last calls."""


@dataclass(slots=True)
class _Registration:
    hook: MetricsHook
    interval: float
    snapshot: Callable[[], MetricValues]
    due: float
    running: bool = False


class MetricsHooks:
    """The metrics hooks of one client; a manager (`net.manager.Manager`).

    Parameters:
        worker: calls the hooks.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._registrations: list[_Registration] = []

    def add(self, hook: MetricsHook, interval: float, snapshot: Callable[[], MetricValues], now: float) -> None:
        """Call a hook from now on; on the network thread.

        Parameters:
            hook: receives the metrics.
            interval: seconds between two calls; the first is after one interval.
            snapshot: returns the metrics, on the worker.
            now: the driver's clock.
        """
        self._registrations.append(_Registration(hook, interval, snapshot, now + interval))

    def poll(self, now: float) -> Poll:
        """Submit the hooks that are due."""
        for registration in self._registrations:
            if now >= registration.due:
                registration.due = now + registration.interval
                self._submit(registration)
        return Poll([], min((registration.due for registration in self._registrations), default=NEVER))

    def close(self) -> None:
        """Call each hook with the last values; a hook that blocks is waited for briefly."""
        for registration in self._registrations:
            self._submit(registration)
        self._worker.close(_LAST_CALL)

    def _submit(self, registration: _Registration) -> None:
        if registration.running:
            return
        registration.running = True

        def call() -> None:
            registration.running = False
            try:
                registration.hook(registration.snapshot())
            except Exception:  # noqa: BLE001 - user code; the next call may succeed
                _log.exception("a metrics hook failed; it is called again after its interval")

        self._worker.submit(call)
