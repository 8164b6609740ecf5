"""The values of the metrics at one moment."""

from __future__ import annotations

from refbroker.metrics.histogram import Distribution
from refbroker.metrics.table import METRICS, Metric

Value = int | float | Distribution


class Samples:
    """Values by metric and labels. Created on the event loop; afterwards it belongs to its reader."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], Value]] = {metric.name: {} for metric in METRICS}

    def add(self, metric: Metric, value: Value, *labels: str) -> None:
        """Add a value, with one value for each label of the metric."""
        assert len(labels) == len(metric.labels), f"{metric.name} has the labels {metric.labels}, not {labels}"
        self._values[metric.name][labels] = value

    def of(self, metric: Metric) -> dict[tuple[str, ...], Value]:
        """Return the values of a metric by its labels; empty when nothing was counted."""
        return self._values[metric.name]
