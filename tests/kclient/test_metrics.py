"""What a client counts, as its users read it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kclient.metrics import MetricKey, Metrics


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counters_show_their_total_and_their_rate() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    sent = metrics.counter("record_send_total", topic="t")
    sent.add(100)
    clock.now += 10
    assert metrics.snapshot() == {"record_send_total{topic=t}": 100, "record_send_rate{topic=t}": 10.0}
    for _ in range(10):
        sent.add(30)
        clock.now += 10
        rate = metrics.snapshot()["record_send_rate{topic=t}"]
    assert rate == pytest.approx(3.0)


def test_the_same_name_and_labels_are_the_same_metric() -> None:
    metrics = Metrics()
    assert metrics.counter("a_total", topic="t", partition=0) is metrics.counter("a_total", partition=0, topic="t")
    assert metrics.counter("a_total", topic="t") is not metrics.counter("a_total", topic="u")
    assert metrics.histogram("h") is metrics.histogram("h")
    assert metrics.gauge("g") is metrics.gauge("g")


def test_gauges_show_what_was_set_or_what_a_function_says() -> None:
    metrics = Metrics()
    metrics.gauge("buffer_total_bytes").set(32)
    metrics.gauge("connection_count", lambda: 3)
    assert metrics.snapshot() == {"buffer_total_bytes": 32, "connection_count": 3}


def test_histograms_show_how_values_are_distributed() -> None:
    metrics = Metrics()
    latency = metrics.histogram("request_latency")
    for value in range(1, 101):
        latency.record(value)
    shown = metrics.snapshot()
    assert shown["request_latency_count"] == 100
    assert shown["request_latency_avg"] == 50.5
    assert shown["request_latency_max"] == 100
    assert 50 <= shown["request_latency_p50"] <= 70
    assert 99 <= shown["request_latency_p99"] <= 100


def test_metrics_of_what_is_gone_can_be_forgotten() -> None:
    metrics = Metrics()
    metrics.counter("a_total", topic="t", partition=1).add()
    metrics.gauge("records_lag", topic="t", partition=2).set(5)
    metrics.counter("a_total", topic="u").add()
    metrics.forget(topic="t")
    assert set(metrics.snapshot()) == {"a_total{topic=u}", "a_rate{topic=u}"}


def test_one_gauge_is_dropped_and_those_beside_it_stay() -> None:
    metrics = Metrics()
    for partition in range(2):
        metrics.gauge("records_lag", topic="t", partition=partition).set(5)
    metrics.drop_gauge("records_lag", topic="t", partition=0)
    metrics.drop_gauge("records_lag", topic="t", partition=7)
    assert metrics.snapshot() == {"records_lag{partition=1,topic=t}": 5}


def test_a_key_is_a_text_that_knows_its_name_and_labels() -> None:
    metrics = Metrics()
    metrics.gauge("records_lag", topic="orders", partition=0).set(5)
    metrics.gauge("connection_count").set(2)
    found = metrics.snapshot()
    assert [(key.name, dict(key.labels), value) for key, value in found.items()] == [
        ("records_lag", {"partition": "0", "topic": "orders"}, 5),
        ("connection_count", {}, 2),
    ]
    assert found["records_lag{partition=0,topic=orders}"] == 5
    (key, _) = found
    for other in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key)):
        assert (other, other.name, dict(other.labels)) == (key, key.name, dict(key.labels))
    labels: Any = key.labels
    with pytest.raises(TypeError):
        labels["topic"] = "other"
    assert MetricKey("connection_count") == "connection_count"
