"""The health of a consumer as metrics: gauges of each partition, dropped with the partition."""

from __future__ import annotations

from typing import Any

from kclient.consumer.assignment.partition_state import PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.health.report import PartitionHealth
from kclient.consumer.health.snapshot import HealthView, between
from kclient.metrics import Metrics
from kclient.types import TopicPartition

Gauge = tuple[str, str | None]
"""The name of a gauge, and its label `reason`, if it has one."""


class HealthGauges:
    """The gauges of one consumer.

    Parameters:
        metrics: has the gauges.
        subscription: the assigned partitions.
        view: computes the health.
    """

    def __init__(self, metrics: Metrics, subscription: Subscription, view: HealthView) -> None:
        self._metrics = metrics
        self._subscription = subscription
        self._view = view
        self._shown: dict[TopicPartition, tuple[PartitionState, frozenset[Gauge]]] = {}

    def publish(self, now: float) -> None:
        """Set the gauges to the current values; any thread."""
        metrics = self._metrics
        with self._subscription.lock:
            self.drop_gone()
            found = self._view.partitions(now)
            for tp, health in found.items():
                self._show(self._subscription.partitions[tp], health)
            lags = [health.lag for health in found.values() if health.lag is not None]
            if found and not lags:
                metrics.drop_gauge("records_lag_max")
            else:
                metrics.gauge("records_lag_max").set(max(lags, default=0))
            metrics.gauge("stalled_partitions").set(sum(one.stalled for one in self._view.progress.values()))

    def drop_gone(self) -> None:
        """Drop the gauges of partitions that are no longer assigned (lock held)."""
        partitions = self._subscription.partitions
        for tp in [tp for tp, (state, _) in self._shown.items() if partitions.get(tp) is not state]:
            _, gauges = self._shown.pop(tp)
            self._drop(tp, gauges)

    def _show(self, state: PartitionState, health: PartitionHealth) -> None:
        """Set the gauges of a partition, and drop those whose value is no longer known."""
        tp = state.tp
        figures = {
            ("records_lag", None): health.lag,
            ("records_lead", None): between(state.log_start_offset, health.position),
            ("position", None): health.position,
            ("committed_offset", None): health.committed,
            ("end_offset", None): health.end_offset,
            ("last_progress_seconds_ago", None): health.last_progress,
            ("stall_reason", health.reason.value): 1,
        }
        known: dict[Gauge, float] = {gauge: value for gauge, value in figures.items() if value is not None}
        _, before = self._shown.get(tp, (state, frozenset[Gauge]()))
        self._drop(tp, before.difference(known))
        self._shown[tp] = (state, frozenset(known))
        for (name, reason), value in known.items():
            self._metrics.gauge(name, **_labels(tp, reason)).set(value)

    def _drop(self, tp: TopicPartition, gauges: frozenset[Gauge]) -> None:
        for name, reason in gauges:
            self._metrics.drop_gauge(name, **_labels(tp, reason))


def _labels(tp: TopicPartition, reason: str | None) -> dict[str, Any]:
    labels: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition}
    return labels if reason is None else {**labels, "reason": reason}
