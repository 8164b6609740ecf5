"""TLS: its cost for clients with and without a busy thread beside them, for brokers, and for each connection.

A client with TLS is compared with itself without TLS, and with confluent-kafka with TLS; refbroker with Apache Kafka,
both under confluent-kafka. All negotiate the same cipher suite. Elsewhere: the brokers (`secured`), the loops of the
clients (`workers`), new connections (`tls_load`).
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil

from benchmarks import brokers
from benchmarks.broker_load import CONFLUENT
from benchmarks.secured import SecuredBroker

HERE = Path(__file__).parent
SUITE = "TLS_AES_256_GCM_SHA384"
HANDSHAKES = 1000
KEPT = 400
"""The connections whose memory is measured."""
MODES = {"kclient": "default", CONFLUENT: "tuned"}


class Worker(Protocol):
    """Runs one measurement in a separate process; see `__main__`."""

    def __call__(
        self, what: str, client: str, bootstrap: str, topic: str, count: int, mode: str, *, variables: dict[str, str]
    ) -> dict[str, Any]: ...


class Case(NamedTuple):
    """What is measured of a client."""

    what: str
    client: str
    has_tls: bool
    is_busy: bool


CASES = tuple(
    Case(what, client, has_tls, is_busy)
    for what in ("produce", "consume")
    for is_busy in (False, True)
    for client, has_tls in (("kclient", False), ("kclient", True), (CONFLUENT, True))
)


def check_suite(broker: SecuredBroker, authority: Path) -> None:
    """Raise SystemExit if a broker negotiates another cipher suite than the one that is compared."""
    context = ssl.create_default_context(cafile=str(authority))
    host, _, port = broker.tls.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        found = tls.cipher()
    if found is None or found[0] != SUITE:
        raise SystemExit(f"{broker.name} negotiates {found}, not {SUITE}")


class TlsBench:
    """The measurements of one run.

    Parameters:
        worker: runs a measurement.
        authority: the file that clients trust.
        count: the records of each measurement.
        rounds: how often each is repeated.
    """

    def __init__(self, worker: Worker, authority: Path, count: int, rounds: int) -> None:
        self._worker, self._authority, self._count, self._rounds = worker, authority, count, rounds

    def clients(self, broker: SecuredBroker) -> dict[Case, list[dict[str, Any]]]:
        """Measure the clients on one broker, in turn."""
        source = self._new_topic(broker)
        for what in ("produce", "consume"):  # which also warms up the broker, since a JVM is slow in its first seconds
            self._run(broker, Case(what, "kclient", has_tls=True, is_busy=False), source)
        found: dict[Case, list[dict[str, Any]]] = {}
        for _ in range(self._rounds):
            for case in CASES:
                topic = source if case.what == "consume" else self._new_topic(broker)
                found.setdefault(case, []).append(self._run(broker, case, topic))
        return found

    def brokers(self, under_test: list[SecuredBroker]) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """Measure the brokers under the same client with TLS, in turn; with the CPU time of each broker."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for _ in range(self._rounds):
            for broker in under_test:
                topic = self._new_topic(broker)
                for what in ("produce", "consume"):
                    before = _cpu_seconds(broker)
                    result = self._run(broker, Case(what, CONFLUENT, has_tls=True, is_busy=False), topic)
                    cpu = (_cpu_seconds(broker) - before) / self._count * 1e6
                    found.setdefault((what, broker.name), []).append({**result, "broker_cpu": cpu})
        return found

    def handshakes(self, under_test: list[SecuredBroker]) -> dict[str, list[dict[str, Any]]]:
        """Measure new connections with TLS on each broker, in turn."""
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(self._rounds):
            for broker in under_test:
                before = _cpu_seconds(broker)
                done = subprocess.run(
                    self._load("open", broker.tls, HANDSHAKES),
                    env=self._environment(has_tls=True),
                    capture_output=True,
                    text=True,
                    check=True,
                )
                cpu = (_cpu_seconds(broker) - before) / HANDSHAKES * 1e3
                found.setdefault(broker.name, []).append({**json.loads(done.stdout), "broker_cpu_ms": cpu})
        return found

    def memory(self, broker: SecuredBroker, *, has_tls: bool) -> float:
        """Return the kilobytes that each of many connections takes of a broker that has just started."""
        address = broker.tls if has_tls else broker.plaintext
        self._keep(broker, address, KEPT // 10, has_tls)  # what the first connections load
        return self._keep(broker, address, KEPT, has_tls) / KEPT / 1000

    def _keep(self, broker: SecuredBroker, address: str, count: int, has_tls: bool) -> float:
        before = psutil.Process(broker.pid).memory_info().rss
        with subprocess.Popen(
            self._load("keep", address, count),
            env=self._environment(has_tls),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            if int(process.stdout.readline() or 0) != count:
                raise SystemExit(f"{broker.name} did not take {count} connections")
            return float(psutil.Process(broker.pid).memory_info().rss - before)

    def _run(self, broker: SecuredBroker, case: Case, topic: str) -> dict[str, Any]:
        variables = {"KCLIENT_BENCH_CA": str(self._authority)} if case.has_tls else {}
        if case.is_busy:
            variables["KCLIENT_BENCH_BUSY"] = "1"
        address = broker.tls if case.has_tls else broker.plaintext
        result = self._worker(
            case.what, case.client, address, topic, self._count, MODES[case.client], variables=variables
        )
        if case.what == "produce" and (landed := brokers.count_records(broker.plaintext, topic)) != self._count:
            raise SystemExit(f"{case.client} said it produced {self._count:,} records, and {landed:,} are there")
        return result

    def _new_topic(self, broker: SecuredBroker) -> str:
        topic = f"tls-{uuid.uuid4().hex[:8]}"
        brokers.create_topic(broker.plaintext, topic, 1)
        return topic

    def _environment(self, has_tls: bool) -> dict[str, str]:
        return {**os.environ, **({"KCLIENT_BENCH_CA": str(self._authority)} if has_tls else {})}

    def _load(self, what: str, address: str, count: int) -> list[str]:
        return [sys.executable, str(HERE / "tls_load.py"), what, address, str(count)]


def best(results: list[dict[str, Any]], figure: str, choose: Callable[[list[float]], float] = max) -> float:
    """Return the best of one figure over the rounds."""
    return choose([float(one[figure]) for one in results])


def _cpu_seconds(broker: SecuredBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)
