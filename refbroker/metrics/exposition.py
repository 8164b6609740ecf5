"""Renders samples as a page for Prometheus (text format 0.0.4) or as a plain dict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refbroker.metrics.histogram import BOUNDS_MS, Distribution
from refbroker.metrics.samples import Samples
from refbroker.metrics.table import METRICS, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def as_text(samples: Samples) -> str:
    """Return the page; metrics without a value are omitted."""
    return "".join(line for metric in METRICS for line in _family(metric, samples))


def _family(metric: Metric, samples: Samples) -> Iterator[str]:
    values = samples.of(metric)
    if not values:
        return
    yield f"# HELP {metric.name} {metric.text.translate(_IN_HELP)}\n# TYPE {metric.name} {metric.kind}\n"
    for given, value in values.items():
        labels = ",".join(
            f'{name}="{text.translate(_IN_LABEL)}"' for name, text in zip(metric.labels, given, strict=True) if text
        )
        if isinstance(value, Distribution):
            before = f"{labels}," if labels else ""
            for bound, number in zip((*BOUNDS_MS, "+Inf"), (*value.cumulative, value.count), strict=True):
                yield f'{metric.name}_bucket{{{before}le="{bound}"}} {number}\n'
            shown = f"{{{labels}}}" if labels else ""
            yield f"{metric.name}_sum{shown} {value.total_ms}\n{metric.name}_count{shown} {value.count}\n"
        else:
            yield f"{metric.name}{{{labels}}} {value}\n" if labels else f"{metric.name} {value}\n"


def as_dict(samples: Samples) -> dict[str, Any]:
    """Return the samples by metric, with one level of dict for each label.

    A distribution is a dict of `count`, `sum` (milliseconds) and `buckets`, which maps each upper bound to the number
    of values below it.
    """
    found: dict[str, Any] = {}
    for metric in METRICS:
        for labels, value in samples.of(metric).items():
            path = (metric.name, *labels)
            level = found
            for step in path[:-1]:
                level = level.setdefault(step, {})
            level[path[-1]] = _plain(value) if isinstance(value, Distribution) else value
        if metric.labels:
            found.setdefault(metric.name, {})
    return found


def _plain(value: Distribution) -> dict[str, Any]:
    return {"count": value.count, "sum": value.total_ms, "buckets": dict(zip(BOUNDS_MS, value.cumulative, strict=True))}
