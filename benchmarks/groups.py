"""Groups: the cost of a hundred of them for a broker, and which rebalances interrupt partitions that do not move.

Both brokers run with `group.initial.rebalance.delay.ms` 0, because waiting is not measured. Elsewhere: the measurements
(`group_load`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from benchmarks import brokers
from benchmarks.broker_load import BrokerUnderTest
from benchmarks.group_load import GAP_PARTITIONS, GROUPS, MEMBERS

HERE = Path(__file__).parent
WAYS = {"range": "range", "cooperative-sticky": "cooperative-sticky", "consumer": "the consumer protocol"}
"""The ways in which members divide partitions: eager, cooperative, and by heartbeats."""


def load(what: str, bootstrap: str, name: str, way: str = "-") -> dict[str, Any]:
    """Run one measurement in a separate process."""
    command = [sys.executable, str(HERE / "group_load.py"), what, bootstrap, name, way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=HERE.parent, check=False)
    if done.returncode:
        raise SystemExit(f"{what} of groups failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def coordinator(broker: BrokerUnderTest) -> dict[str, Any]:
    """Measure a hundred groups on one broker, with its memory before and after and its CPU time."""
    load("coordinator", broker.bootstrap, f"warm-{uuid.uuid4().hex[:8]}")  # to warm up, and to create the groups' topic
    memory, cpu = broker.resident_mb(), broker.cpu_seconds()
    result = load("coordinator", broker.bootstrap, f"light-{uuid.uuid4().hex[:8]}")
    after = broker.resident_mb()
    return {**result, "memory_mb": after, "more_mb": after - memory, "cpu_s": broker.cpu_seconds() - cpu}


def gap(bootstrap: str, way: str) -> dict[str, Any]:
    """Measure the longest gap of partitions that stay, and of those that move, while a tenth member joins."""
    topic = f"gap-{uuid.uuid4().hex[:8]}"
    brokers.create_topic(bootstrap, topic, GAP_PARTITIONS)
    return load("gap", bootstrap, topic, way)


ROWS = (
    ("form", "ms", "formed_ms"),
    ("rebalance all at once", "ms", "together_ms"),
    ("rebalance at once, each, p99", "ms", "p99_ms"),
    ("rebalance alone, each, p50", "ms", "alone_p50_ms"),
    ("heartbeat p99", "ms", "heartbeat_p99_ms"),
    ("broker's CPU", "s", "cpu_s"),
    ("broker's memory", "MB", "memory_mb"),
)
TITLE = f"{GROUPS} groups of {MEMBERS}"
