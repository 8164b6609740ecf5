"""The page on the clients' metrics names every metric that they have, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from kclient import Consumer, Producer
from kclient.metrics import MetricValues
from kclient.transform.metrics import TransformMetrics
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client-metrics.md"
DISTRIBUTION = ("_avg", "_max", "_p50", "_p99", "_count")
COMPILED_ONLY = {
    "network_thread_gil_waits_total",
    "network_thread_gil_wait_seconds_total",
    "network_thread_gil_wait_seconds_max",
}


def documented() -> dict[str, str]:
    """Return the kind of each metric in the tables, by name."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            found.update(dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1]))
    return found


def shown(name: str, kind: str) -> set[str]:
    """Return the names under which a metric of this kind appears."""
    if kind == "distribution":
        return {name + suffix for suffix in DISTRIBUTION}
    return {name, name.removesuffix("_total") + "_rate"} if kind == "counter" else {name}


def produce(bootstrap_servers: str, topic: str) -> MetricValues:
    """Return the metrics of a producer that has committed one transaction and aborted another."""
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"v")
        producer.begin_transaction()
        producer.abort_transaction()
        return producer.metrics()


def consume(bootstrap_servers: str, topic: str, protocol: Literal["classic", "consumer"]) -> MetricValues:
    """Return the metrics of a member of a group that has read and committed."""
    with Consumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=f"{topic}-{protocol}",
        group_protocol=protocol,
        auto_offset_reset="earliest",
    ) as consumer:
        wait_until(lambda: len(consumer.poll(ANSWER)) > 0)
        consumer.commit()
        wait_until(lambda: "stall_reason" in {key.name for key in consumer.metrics()})
        return consumer.metrics()


def test_every_metric_is_documented(bootstrap_servers: str, topic: str) -> None:
    values = produce(bootstrap_servers, topic)
    values.update(consume(bootstrap_servers, topic, "classic"))
    values.update(consume(bootstrap_servers, topic, "consumer"))
    values.update(TransformMetrics().metrics.snapshot())
    names = {key.name for key in values}
    expected: set[str] = set()
    for name, kind in documented().items():
        expected |= shown(name, kind)
    assert {name for name in names - expected if not name.startswith("txn_")} == set()
    assert expected - names - COMPILED_ONLY == set()
