"""The metrics of a client: cheap to record, and read as a dict. Elsewhere: hooks (`net.metrics_hooks`).

Names are Kafka's own with underscores (`record_send_total`, `request_latency_avg`, `records_lag_max`); labels say which
topic, partition or broker. A counter named `x_total` also appears as `x_rate` (per second), a histogram `x` as `x_avg`,
`x_max`, `x_p50`, `x_p99` and `x_count`. Times are in milliseconds, as Kafka's, where the name does not say otherwise.
Recording takes no lock: each metric is written by one thread, usually the network thread.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

_WINDOW = 30.0
"""Seconds; a rate is that of the last one to two windows. Histograms cover the client's whole life."""

_BOUNDS = tuple(round(mantissa * 10.0**power, 9) for power in range(-6, 4) for mantissa in (1, 1.5, 2, 3, 5, 7))
"""The upper bounds of a histogram's buckets: a few per decade; milliseconds from a nanosecond to seven seconds."""

Labels = tuple[tuple[str, str], ...]


class MetricKey(str):
    """The key of a metric: a string such as `records_lag{partition=0,topic=orders}` with its parts as attributes.

    Parameters:
        name: the name of the metric.
        labels: pairs of label and value, sorted by label.
    """

    __slots__ = ("_labels", "name")

    name: str
    _labels: Labels

    def __new__(cls, name: str, labels: Labels = ()) -> MetricKey:
        """Make the string; without labels it is the name."""
        shown = ",".join(f"{label}={value}" for label, value in labels)
        made = super().__new__(cls, f"{name}{{{shown}}}" if labels else name)
        made.name = name
        made._labels = labels
        return made

    @property
    def labels(self) -> Mapping[str, str]:
        """Which topic, partition or broker the metric is of; read-only."""
        return MappingProxyType(dict(self._labels))

    def __getnewargs__(self) -> Any:
        return self.name, self._labels


class MetricValues(dict[MetricKey, float]):
    """The values of all metrics of a client at one moment. A plain string of the same form finds a key too."""

    if TYPE_CHECKING:

        def __getitem__(self, key: str, /) -> float: ...


MetricsHook = Callable[[MetricValues], None]
"""A function that receives all metrics of a client; see `Producer.add_metrics_hook`."""


class Counter:
    """A number that only grows."""

    __slots__ = ("_before", "_started", "total")

    def __init__(self, now: float) -> None:
        self.total: float = 0
        self._before: tuple[float, float] = (now, 0)
        self._started: tuple[float, float] = (now, 0)

    def add(self, amount: float = 1) -> None:
        """Add an amount."""
        self.total += amount

    def rate(self, now: float) -> float:
        """Return the rate per second, over the last one to two windows."""
        if now - self._started[0] >= _WINDOW:
            self._before, self._started = self._started, (now, self.total)
        since, amount = self._before
        return (self.total - amount) / (now - since) if now > since else 0.0


class Gauge:
    """A number that is set, or computed by a function when it is read."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.read: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        """Set the value."""
        self.value = value


class Histogram:
    """The distribution of a quantity (milliseconds, bytes, records), in fixed buckets of about a fifth of a decade."""

    __slots__ = ("_buckets", "count", "maximum", "total")

    def __init__(self) -> None:
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self.count = 0
        self.total: float = 0
        self.maximum: float = 0

    def record(self, value: float) -> None:
        """Record one value."""
        self._buckets[bisect.bisect_left(_BOUNDS, value)] += 1
        self.count += 1
        self.total += value
        if value > self.maximum:
            self.maximum = value

    def quantile(self, part: float) -> float:
        """Return the upper bound of the bucket in which this quantile (0 to 1) lies."""
        wanted = part * self.count
        seen = 0
        for bound, size in zip((*_BOUNDS, self.maximum), self._buckets, strict=True):
            seen += size
            if size and seen >= wanted:
                return min(bound, self.maximum)
        return 0.0


class Metrics:
    """All metrics of one client.

    Parameters:
        clock: seconds, for rates.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counters: dict[tuple[str, Labels], Counter] = {}
        self._gauges: dict[tuple[str, Labels], Gauge] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}

    def counter(self, name: str, **labels: object) -> Counter:
        """Return the counter of this name (ending in `_total`) and labels; create it on first use."""
        key = _key(name, labels)
        found = self._counters.get(key)
        return found if found is not None else self._counters.setdefault(key, Counter(self._clock()))

    def gauge(self, name: str, read: Callable[[], float] | None = None, **labels: object) -> Gauge:
        """Return the gauge of this name and labels; `read` computes its value when the metrics are read."""
        gauge = self._gauges.setdefault(_key(name, labels), Gauge())
        if read is not None:
            gauge.read = read
        return gauge

    def histogram(self, name: str, **labels: object) -> Histogram:
        """Return the histogram of this name and labels; create it on first use."""
        key = _key(name, labels)
        found = self._histograms.get(key)
        return found if found is not None else self._histograms.setdefault(key, Histogram())

    def forget(self, **labels: object) -> None:
        """Drop all metrics with these labels, such as those of a partition that is no longer read."""
        gone = set(_key("", labels)[1])
        tables: tuple[dict[tuple[str, Labels], Any], ...] = (self._counters, self._gauges, self._histograms)
        for table in tables:
            for key in [key for key in list(table) if gone <= set(key[1])]:
                table.pop(key, None)

    def drop_gauge(self, name: str, **labels: object) -> None:
        """Drop one gauge, without the scan of all metrics that `forget` makes."""
        self._gauges.pop(_key(name, labels), None)

    def snapshot(self) -> MetricValues:
        """Return the values of all metrics."""
        now = self._clock()
        found = MetricValues()
        for (name, labels), counter in list(self._counters.items()):
            found[MetricKey(name, labels)] = counter.total
            found[MetricKey(name.removesuffix("_total") + "_rate", labels)] = counter.rate(now)
        for (name, labels), gauge in list(self._gauges.items()):
            found[MetricKey(name, labels)] = gauge.value if gauge.read is None else gauge.read()
        for (name, labels), histogram in list(self._histograms.items()):
            count = histogram.count
            found[MetricKey(name + "_count", labels)] = count
            found[MetricKey(name + "_avg", labels)] = histogram.total / count if count else 0.0
            found[MetricKey(name + "_max", labels)] = histogram.maximum
            found[MetricKey(name + "_p50", labels)] = histogram.quantile(0.5)
            found[MetricKey(name + "_p99", labels)] = histogram.quantile(0.99)
        return found


def _key(name: str, labels: dict[str, object]) -> tuple[str, Labels]:
    if not labels:
        return name, ()
    return name, tuple(sorted((label, str(value)) for label, value in labels.items()))
