"""The timer that notices a consumer without progress.

A partition has stalled when it has records left and its position has not moved for `stall_timeout_ms`. A stall is
logged once and passed to `on_stall`; it ends when the position moves. A member that has nothing to read and cannot join
its group for that long is reported in the same way, without partitions. Positions are compared once a second on the
network thread, so that records cost nothing extra.

Elsewhere: why a partition waits (`snapshot`). Not implemented: recovery from a stall.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kclient.config import ConsumerConfig, StallCallback
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.health.gauges import HealthGauges
from kclient.consumer.health.report import PartitionHealth
from kclient.consumer.health.snapshot import GroupView, HealthView
from kclient.net.manager import Manager, Poll
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)

_INTERVAL = 1.0
"""Seconds between two comparisons of the positions."""
_PUBLISH = 5.0
"""Seconds between two updates of the metrics; a call that reads the metrics updates them first."""


class HealthMonitor(Manager):
    """A manager that sends nothing.

    Parameters:
        config: the consumer's options.
        subscription: the assigned partitions.
        view: computes the health.
        gauges: the same as metrics.
        group: the group.
        run_soon: runs `on_stall` where the application expects callbacks.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        view: HealthView,
        gauges: HealthGauges,
        group: GroupView,
        *,
        run_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._timeout = config.stall_timeout_ms / 1000
        self._interval = min(_INTERVAL, self._timeout / 4) if self._timeout else _INTERVAL
        self._on_stall = config.on_stall
        self._subscription = subscription
        self._view = view
        self._gauges = gauges
        self._group = group
        self._run_soon = run_soon
        self._next = 0.0
        self._next_publication = 0.0

    def poll(self, now: float) -> Poll:
        """Compare the positions once a second."""
        if now >= self._next:
            self._next = now + self._interval
            with self._subscription.lock:
                stalled = self._view.overdue(now, self._timeout)
                self._gauges.drop_gone()
            outside = self._has_stalled_outside(now)
            if stalled or outside:
                self._report(stalled)
            if now >= self._next_publication:
                self._next_publication = now + _PUBLISH
                self._gauges.publish(now)
        return Poll([], self._next)

    def _has_stalled_outside(self, now: float) -> bool:
        """Return whether it has become clear since the last time that this member cannot join its group."""
        member, subscription, progress = self._group.member, self._subscription, self._view.group_progress
        outside = (
            member is not None and member.joining and subscription.topics is not None and not subscription.partitions
        )
        waited = progress.note(outside, now)
        if not outside or progress.stalled or not self._timeout or waited < self._timeout:
            return False
        progress.stalled = True
        error = self._group.error
        because = "" if error is None else f"; its coordinator is unknown: {error}"
        _log.warning(
            "nothing to read for %.0f s: this member could not join its group (%s)%s",
            waited,
            self._group.state,
            because,
        )
        return True

    def _report(self, stalled: dict[TopicPartition, PartitionHealth]) -> None:
        for tp, health in stalled.items():
            _log.warning(
                "%s: no progress for %.0f s, at position %s, %s records behind; the reason: %s%s",
                tp,
                health.last_progress,
                health.position,
                "an unknown number of" if health.lag is None else health.lag,
                health.reason.value,
                "" if health.error is None else f": {health.error}",
            )
        callback = self._on_stall
        if callback is not None:
            self._run_soon(lambda: _call(callback, stalled))


def _call(callback: StallCallback, stalled: Mapping[TopicPartition, PartitionHealth]) -> None:
    try:
        callback(stalled)
    except Exception:  # noqa: BLE001 - user code
        _log.exception("on_stall failed")
