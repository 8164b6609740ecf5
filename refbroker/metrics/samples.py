"""The values of metrics at one moment."""

from __future__ import annotations

from refbroker.metrics.histogram import Distribution
from refbroker.metrics.table import METRICS, Metric

Value = int | float | Distribution


class Samples:
    """Values by metric and labels. Made on the event loop; then it belongs to whoever reads it."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], Value]] = {metric.name: {} for metric in METRICS}

    def add(self, metric: Metric, value: Value, *labels: str) -> None:
        """Take a value, with one label for each that the metric has."""
        assert len(labels) == len(metric.labels), f"{metric.name} has the labels {metric.labels}, not {labels}"
        self._values[metric.name][labels] = value

    def of(self, metric: Metric) -> dict[tuple[str, ...], Value]:
        """The values of a metric, by its labels; empty when there was nothing to count."""
        return self._values[metric.name]
