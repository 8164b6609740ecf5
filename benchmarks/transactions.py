"""The cost of transactions: producing with a commit every 100 ms against the same without, by each client.

Each client is compared with itself, because its rate without transactions is its upper limit. kclient's share is then
compared with those of confluent-kafka and of Kafka's own client (ProducerPerformance, with batches as large as the
others'). Elsewhere: the measurements of the two Python clients (`transaction_load`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.broker_load import CONFLUENT
from benchmarks.brokers import count_records
from tests.support.kafka.jars import classpath

HERE = Path(__file__).parent
SECONDS = 0.1
JAVA = "Java client"
CLIENTS = ("kclient", CONFLUENT, JAVA)
JAVA_FLAGS = ("-XX:+UseSerialGC", "-Xmx1g")


def _python_load(client: str, bootstrap: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.transaction_load", client, bootstrap, topic, str(count), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=HERE.parent, check=False)
    if done.returncode:
        raise SystemExit(f"transactions of {client} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _java_load(bootstrap: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    """Run Kafka's tool, which reports its rate without start-up."""
    name, duration = ("--transactional-id", uuid.uuid4().hex), ("--transaction-duration-ms", str(int(seconds * 1000)))
    command = [
        *("java", *JAVA_FLAGS, "-cp", classpath(), "org.apache.kafka.tools.ProducerPerformance"),
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count), "--record-size", "100"),
        *("--throughput", "-1", *((*name, *duration) if seconds else ())),
        *("--command-property", "acks=all", "linger.ms=5", "batch.size=900000", "buffer.memory=268435456"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    found = re.search(rf"^{count} records sent, ([0-9.]+) records/sec", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        raise SystemExit(f"ProducerPerformance failed:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return {"rate": float(found[1])}


def load(client: str, bootstrap: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    """Run one measurement in a separate process."""
    if client == JAVA:
        result = _java_load(bootstrap, topic, count, seconds)
    else:
        result = _python_load(client, bootstrap, topic, count, seconds)
    # Markers take offsets too.
    if (landed := count_records(bootstrap, topic)) < count:
        raise SystemExit(f"{client} said it produced {count:,} records, and {landed:,} are there")
    return result


def measure(
    bootstrap: str, fresh: Callable[[], str], count: int, rounds: int
) -> dict[tuple[str, bool], list[dict[str, Any]]]:
    """Return the results of each client by round, by client and whether with transactions; clients take turns."""
    found: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for client in CLIENTS:
            for seconds in (0.0, SECONDS):
                result = load(client, bootstrap, fresh(), count, seconds)
                found.setdefault((client, bool(seconds)), []).append(result)
    return found
