"""`make bench`: the goals of DESIGN.md section 9, each as a ratio to a peer in the same run.

Every measurement is a separate process (`workers.py`). Clients take turns, and the best of several rounds counts,
because the machine may be shared. Prints a table and writes `results/latest.json`. A ratio is always kclient (or
refbroker) to the peer; a missed goal is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import brokers, groups, permissions, tls, transactions
from benchmarks.broker_load import (
    CONFLUENT,
    CONNECTIONS,
    LOADS,
    SEGMENT_BYTES,
    BrokerUnderTest,
    Measured,
    best_of,
    measure,
    measure_old_and_new,
    measure_together,
)
from benchmarks.secured import secured_brokers, write_authority
from kclient import __version__, records

SECTIONS = "produce, consume, latency, transactions, refbroker, permissions, groups, start or tls"
OWN_BROKERS = ("start", "tls", "permissions")
"""The sections that start brokers of their own."""
HERE = Path(__file__).parent
ROOT = HERE.parent


class Goal(NamedTuple):
    """A minimum or maximum of a ratio to the peer."""

    value: float
    at_least: bool = True

    def met(self, ratio: float) -> bool:
        return ratio >= self.value if self.at_least else ratio <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:.2g}"


class Row(NamedTuple):
    name: str
    unit: str
    ours: float
    peer: str
    theirs: float
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")


class Bench:
    """A run: the brokers, the measurements, and the results."""

    def __init__(self, count: int, rounds: int, only: str, console: Console) -> None:
        self.count = count
        self.rounds = rounds
        self.only = only
        self.console = console
        self.rows: list[Row] = []
        self.raw: list[dict[str, Any]] = []

    def wants(self, section: str) -> bool:
        return not self.only or self.only in section

    def worker(
        self,
        what: str,
        client: str,
        bootstrap: str,
        topic: str,
        count: int,
        mode: str,
        *,
        size: int = 100,
        variables: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run one measurement in a separate process; `variables` of the environment add TLS or a busy thread."""
        figures_of = [what, client, bootstrap, topic, str(count), str(size), mode]
        command = [sys.executable, str(HERE / "workers.py"), *figures_of]
        environment = {**os.environ, **(variables or {})}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment, check=False
        )
        if done.returncode:
            raise SystemExit(f"{what} by {client} failed:\n{done.stderr[-3000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if what == "produce" and variables is None and (landed := brokers.count_records(bootstrap, topic)) != count:
            raise SystemExit(f"{client} said it produced {count:,} records, and {landed:,} are there")
        with_ = {"variables": sorted(variables)} if variables else {}
        self.raw.append({"what": what, "client": client, "mode": mode, "size": size, "topic": topic, **with_, **result})
        figures = ", ".join(f"{name} {value:,.0f}" for name, value in result.items() if isinstance(value, int | float))
        self.console.print(f"  {what:8} {client:16} {mode:8} {figures}", highlight=False)
        return result

    def best(
        self, what: str, clients: list[tuple[str, str, str]], bootstrap: str, topic: Callable[[], str], count: int
    ) -> dict[tuple[str, str, str], dict[str, float]]:
        """Return the best of every figure by (what, client, mode), over interleaved rounds."""
        found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for _ in range(self.rounds):
            for work, client, mode in clients:
                result = self.worker(work, client, bootstrap, topic(), count, mode)
                found.setdefault((work, client, mode), []).append(result)
        return {
            key: {
                name: (max if name == "rate" else min)(result[name] for result in results)
                for name in results[0]
                if isinstance(results[0][name], int | float)
            }
            for key, results in found.items()
        }

    def fresh(self, bootstrap: str, partitions: int) -> Callable[[], str]:
        def make() -> str:
            topic = f"bench-{uuid.uuid4().hex[:8]}"
            brokers.create_topic(bootstrap, topic, partitions)
            return topic

        return make

    def add(self, name: str, unit: str, ours: float, peer: str, theirs: float, goal: Goal | None = None) -> None:
        self.rows.append(Row(name, unit, ours, peer, theirs, goal))


def produce(bench: Bench, broker: str, bootstrap: str, partitions: int, peers: list[str]) -> None:
    modes = [("produce", client, mode) for mode in ("default", "tuned") for client in ("kclient", CONFLUENT)]
    modes += [("produce", client, "tuned") for client in peers]
    best = bench.best("produce", modes, bootstrap, bench.fresh(bootstrap, partitions), bench.count)
    where = f"{broker}, {partitions} partition{'s' if partitions > 1 else ''}"
    ours, theirs = best["produce", "kclient", "default"], best["produce", CONFLUENT, "tuned"]
    goal = Goal(4) if partitions == 1 and broker == "Apache Kafka" else None
    bench.add(f"produce, {where}", "records/s", ours["rate"], f"{CONFLUENT} tuned", theirs["rate"], goal)
    tuned, untuned = best["produce", "kclient", "tuned"], best["produce", CONFLUENT, "default"]
    bench.add(f"produce tuned, {where}", "records/s", tuned["rate"], f"{CONFLUENT} tuned", theirs["rate"])
    bench.add(f"produce, {where}", "records/s", ours["rate"], f"{CONFLUENT} default", untuned["rate"])
    for client in peers:
        bench.add(f"produce, {where}", "records/s", ours["rate"], client, best["produce", client, "tuned"]["rate"])
    cpu = "cpu_per_million"
    cpu_goal = Goal(1 / 3, at_least=False) if goal else None
    bench.add(f"CPU to produce, {where}", "s/M", ours[cpu], f"{CONFLUENT} tuned", theirs[cpu], cpu_goal)
    bench.add(f"memory producing, {where}", "MB", ours["rss_mb"], f"{CONFLUENT} tuned", theirs["rss_mb"])


def consume(bench: Bench, broker: str, bootstrap: str, partitions: int, peers: list[str]) -> None:
    topic = bench.fresh(bootstrap, partitions)()
    bench.worker("produce", "kclient", bootstrap, topic, bench.count, "default")
    modes = [(what, "kclient", mode) for what in ("consume", "poll", "arrow") for mode in ("default", "tuned")]
    modes += [("consume", CONFLUENT, "tuned"), ("consume", CONFLUENT, "default")]
    modes += [("consume", client, "tuned") for client in peers]
    best = bench.best("consume", modes, bootstrap, lambda: topic, bench.count)
    theirs = best["consume", CONFLUENT, "tuned"]
    where = f"{broker}, {partitions} partition{'s' if partitions > 1 else ''}"
    main = partitions == 1 and broker == "Apache Kafka"
    for what, title, goal in (
        ("consume", "consume", 5.0),
        ("poll", "consume by poll", 5.0),
        ("arrow", "to Arrow", 15.0),
    ):
        for mode in ("default", "tuned"):
            bench.add(
                f"{title}{' tuned' if mode == 'tuned' else ''}, {where}",
                "records/s",
                best[what, "kclient", mode]["rate"],
                f"{CONFLUENT} tuned",
                theirs["rate"],
                Goal(goal) if main else None,
            )
    ours = best["consume", "kclient", "default"]
    for client in [CONFLUENT, *peers]:
        mode = "default" if client == CONFLUENT else "tuned"
        bench.add(
            f"consume, {where}", "records/s", ours["rate"], f"{client} {mode}", best["consume", client, mode]["rate"]
        )
    cpu = "cpu_per_million"
    cpu_goal = Goal(1 / 3, at_least=False) if main else None
    bench.add(f"CPU to consume, {where}", "s/M", ours[cpu], f"{CONFLUENT} tuned", theirs[cpu], cpu_goal)
    bench.add(f"memory consuming, {where}", "MB", ours["rss_mb"], f"{CONFLUENT} tuned", theirs["rss_mb"])


def latency(bench: Bench, broker: str, bootstrap: str) -> None:
    modes = [("latency", "kclient", "default"), ("latency", CONFLUENT, "default")]
    best = bench.best("latency", modes, bootstrap, bench.fresh(bootstrap, 1), max(500, bench.count // 500))
    for figure, title in (("p50_us", "p50"), ("p99_us", "p99")):
        goal = Goal(1, at_least=False) if broker == "Apache Kafka" else None
        ours, theirs = best["latency", "kclient", "default"][figure], best["latency", CONFLUENT, "default"][figure]
        bench.add(f"round trip {title}, {broker}", "µs", ours, CONFLUENT, theirs, goal)


def broker_under_the_same_client(bench: Bench, brokers_under_test: list[BrokerUnderTest]) -> None:
    """Measure refbroker and Apache Kafka in turn with confluent-kafka's produce and consume."""
    for load in LOADS:
        # As many bytes of large records as of small ones would take ten times as long for the same figure.
        count = bench.count if load.size == 100 else bench.count // 4
        found: dict[str, list[Measured]] = {}
        for _ in range(bench.rounds):
            for broker in brokers_under_test:
                fresh = bench.fresh(broker.bootstrap, load.partitions)
                found.setdefault(broker.name, []).append(measure(bench.worker, fresh, broker, load, count))
        ours, theirs = best_of(found["refbroker"]), best_of(found["Apache Kafka"])
        bench.add(f"refbroker under {CONFLUENT}'s {load}", "records/s", ours.rate, "Apache Kafka", theirs.rate, Goal(1))
        cpu = (ours.cpu_per_million, theirs.cpu_per_million)
        bench.add(f"broker's CPU, {load}", "s/M", cpu[0], "Apache Kafka", cpu[1])


def many_connections(bench: Bench, brokers_under_test: list[BrokerUnderTest]) -> None:
    """Measure many concurrent producers, as in a busy service."""
    found: dict[str, list[Measured]] = {}
    for _ in range(bench.rounds):
        for broker in brokers_under_test:
            fresh = bench.fresh(broker.bootstrap, 10)
            found.setdefault(broker.name, []).append(measure_together(bench.worker, fresh, broker, bench.count // 2))
    ours, theirs = best_of(found["refbroker"]), best_of(found["Apache Kafka"])
    title = f"refbroker under {CONNECTIONS} producers, 10 partitions"
    bench.add(title, "records/s", ours.rate, "Apache Kafka", theirs.rate, Goal(1))
    bench.add(f"broker's CPU, {title}", "s/M", ours.cpu_per_million, "Apache Kafka", theirs.cpu_per_million)


def long_log(bench: Bench, broker: BrokerUnderTest) -> None:
    """Measure the cost of a long log: reading its oldest segments, and the broker's memory."""
    topic, count = f"bench-{uuid.uuid4().hex[:8]}", bench.count // 4
    brokers.create_topic(broker.bootstrap, topic, 1, {"segment.bytes": str(SEGMENT_BYTES)})
    empty = broker.resident_mb()
    bench.worker("produce", CONFLUENT, broker.bootstrap, topic, 5 * bench.count, "tuned")
    rates = [
        measure_old_and_new(bench.worker, topic, broker, count, 5 * bench.count) for _ in range(max(bench.rounds, 2))
    ]
    old, new = (max(pair[index] for pair in rates) for index in (0, 1))
    bench.add("refbroker, oldest segments of a long log", "records/s", old, "its newest", new, Goal(0.9))
    size = f"{5 * bench.count * 100 / 1e6:,.0f} MB"
    bench.add(f"refbroker's memory with a log of {size}", "MB", broker.resident_mb(), "before it", empty)


def guarded(bench: Bench, directory: Path) -> None:
    """Measure refbroker with ACLs and quotas beside refbroker without."""
    with (
        permissions.guarded_refbroker(directory / "guarded") as (guarded, guarded_pid),
        brokers.refbroker(directory / "open") as (plain, plain_pid),
    ):
        both = [BrokerUnderTest("guarded", guarded, guarded_pid), BrokerUnderTest("open", plain, plain_pid)]
        for load in (one for one in LOADS if (one.partitions, one.codec) == (100, "none")):
            found: dict[str, list[Measured]] = {}
            for _ in range(bench.rounds):
                for broker in both:
                    fresh = bench.fresh(broker.bootstrap, load.partitions)
                    found.setdefault(broker.name, []).append(measure(bench.worker, fresh, broker, load, bench.count))
            ours, theirs = best_of(found["guarded"]), best_of(found["open"])
            bench.add(f"{permissions.TITLE}: {load}", "records/s", ours.rate, "without", theirs.rate, Goal(0.9))
            bench.add(f"its CPU: {load}", "s/M", ours.cpu_per_million, "without", theirs.cpu_per_million)
        trips = [("latency", CONFLUENT, "default")]
        count = max(500, bench.count // 500)
        best = {
            broker.name: bench.best("latency", trips, broker.bootstrap, bench.fresh(broker.bootstrap, 1), count)[
                trips[0]
            ]
            for broker in both
        }
        title = f"{permissions.TITLE}: round trip p50"
        bench.add(title, "µs", best["guarded"]["p50_us"], "without", best["open"]["p50_us"], Goal(1.25, at_least=False))


def many_groups(bench: Bench, brokers_under_test: list[BrokerUnderTest]) -> None:
    """Measure a hundred groups on each broker, and what a rebalance interrupts."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(bench.rounds):
        for broker in brokers_under_test:
            result = groups.coordinator(broker)
            found.setdefault(broker.name, []).append(result)
            bench.raw.append({"what": "groups", "broker": broker.name, **result})
    for title, unit, figure in groups.ROWS:
        ours, theirs = (min(one[figure] for one in found[name]) for name in ("refbroker", "Apache Kafka"))
        bench.add(f"{groups.TITLE}: {title}", unit, ours, "Apache Kafka", theirs)
    for broker in brokers_under_test:
        for way, name in groups.WAYS.items():
            gaps = [groups.gap(broker.bootstrap, way) for _ in range(bench.rounds)]
            bench.raw += [{"what": "gap", "broker": broker.name, "way": way, **one} for one in gaps]
            best = min(gaps, key=lambda one: float(one["gap_ms"]))
            for figure, which in (("gap_ms", f"{best['stays']} partitions that stay"), ("moved_ms", "those that move")):
                title = f"longest gap of {which}, {name}, {broker.name}"
                bench.add(title, "ms", best[figure], "while nobody joins", best["quiet_ms"])


def transactional(bench: Bench, broker: str, bootstrap: str) -> None:
    """Measure transactions: each client against itself without them, then against the others."""
    found = transactions.measure(bootstrap, bench.fresh(bootstrap, 1), bench.count, bench.rounds)
    for (client, with_them), results in found.items():
        bench.raw += [
            {"what": "transactions", "broker": broker, "client": client, "with": with_them, **one} for one in results
        ]
    rates = {key: max(one["rate"] for one in results) for key, results in found.items()}
    shares = {}
    for client in transactions.CLIENTS:
        with_them, without = rates[client, True], rates[client, False]
        shares[client] = 100 * with_them / without
        bench.add(f"{client} with a commit every 100 ms, {broker}", "records/s", with_them, "without any", without)
    for client in transactions.CLIENTS[1:]:
        title = f"with a commit every 100 ms, {broker}"
        bench.add(f"kclient {title}", "records/s", rates["kclient", True], client, rates[client, True])
        bench.add(f"share of plain producing, {title}", "%", shares["kclient"], client, shares[client])
    ours, theirs = (min(one["commit_ms"] for one in found[client, True]) for client in ("kclient", CONFLUENT))
    bench.add(f"a commit of 100 ms of records, p50, {broker}", "ms", ours, CONFLUENT, theirs)


def with_tls(bench: Bench, directory: Path) -> None:
    """Measure TLS: clients with and without a busy thread, brokers, and new connections."""
    authority = write_authority(directory)
    of = tls.TlsBench(bench.worker, authority, bench.count, bench.rounds)
    with secured_brokers(directory) as under_test:
        ours, kafka = under_test
        for broker in under_test:
            tls.check_suite(broker, authority)
        memory = {broker.name: of.memory(broker, has_tls=True) for broker in under_test}
        bench.add("memory of a TLS connection", "kB", memory[ours.name], kafka.name, memory[kafka.name])
        opened = of.handshakes(under_test)
        rates = [tls.best(opened[broker.name], "rate") for broker in under_test]
        bench.add("new TLS connections, refbroker", "1/s", rates[0], kafka.name, rates[1], Goal(1))
        cpu = [tls.best(opened[broker.name], "broker_cpu_ms", min) for broker in under_test]
        bench.add("broker's CPU, a new TLS connection", "ms", cpu[0], kafka.name, cpu[1])
        _add_clients(bench, of.clients(kafka), kafka.name)
        for (what, _), results in (found := of.brokers(under_test)).items():
            bench.raw += [{"what": f"{what} with TLS", **one} for one in results]
        for what in ("produce", "consume"):
            rate, cpu = (
                [tls.best(found[what, broker.name], figure, choose) for broker in under_test]
                for figure, choose in (("rate", max), ("broker_cpu", min))
            )
            title = f"{CONFLUENT}'s {what} with TLS"
            bench.add(f"refbroker under {title}", "records/s", rate[0], kafka.name, rate[1], Goal(1))
            bench.add(f"broker's CPU, {title}", "s/M", cpu[0], kafka.name, cpu[1])


def _add_clients(bench: Bench, found: dict[tls.Case, list[dict[str, Any]]], broker: str) -> None:
    for what in ("produce", "consume"):
        for is_busy, beside in ((False, ""), (True, " beside a busy thread")):
            title = f"{what} with TLS{beside}, {broker}"
            ours, plain, theirs = (
                found[tls.Case(what, client, has_tls, is_busy)]
                for client, has_tls in (("kclient", True), ("kclient", False), (CONFLUENT, True))
            )
            rate = tls.best(ours, "rate")
            goal = None if is_busy else Goal(0.7)
            bench.add(title, "records/s", rate, "kclient without TLS", tls.best(plain, "rate"), goal)
            bench.add(title, "records/s", rate, f"{CONFLUENT} with TLS", tls.best(theirs, "rate"), Goal(1))
            if not is_busy:
                cpu = [tls.best(results, "cpu_per_million", min) for results in (ours, plain)]
                bench.add(f"CPU to {title}", "s/M", cpu[0], "kclient without TLS", cpu[1])


def start(bench: Bench, directory: Path) -> None:
    figures = {
        name: brokers.start_and_idle(name, directory / f"start-{name.replace(' ', '-')}") for name in brokers.BROKERS
    }
    rows = (
        ("refbroker start to first produce", "s", "start_s", Goal(1 / 20, at_least=False)),
        ("refbroker memory when idle", "MB", "idle_mb", Goal(1 / 6, at_least=False)),
    )
    for title, unit, figure, goal in rows:
        ours, theirs = figures["refbroker"][figure], figures["Apache Kafka"][figure]
        bench.add(title, unit, ours, "Apache Kafka", theirs, goal)


def warm_up(bench: Bench, bootstrap: str) -> None:
    """Warm up a broker before the measurements: a JVM is slow in its first seconds."""
    bench.console.print("warming up", bootstrap)
    topic = bench.fresh(bootstrap, 1)()
    bench.worker("produce", CONFLUENT, bootstrap, topic, bench.count, "tuned")
    bench.worker("consume", CONFLUENT, bootstrap, topic, bench.count, "tuned")


def on_both_brokers(bench: Bench, directory: Path, peers: list[str], *, quick: bool) -> None:
    """Run the sections that share two brokers."""
    with (
        brokers.apache_kafka(directory / "kafka") as (kafka, kafka_pid),
        brokers.refbroker(directory / "ref") as (ref, ref_pid),
    ):
        warm_up(bench, kafka)
        warm_up(bench, ref)
        for broker, bootstrap in (("Apache Kafka", kafka), ("refbroker", ref)):
            for partitions in (1,) if quick else (1, 100):
                if bench.wants("produce"):
                    produce(bench, broker, bootstrap, partitions, peers if partitions == 1 else [])
                if bench.wants("consume"):
                    consume(bench, broker, bootstrap, partitions, peers if partitions == 1 else [])
            if bench.wants("latency"):
                latency(bench, broker, bootstrap)
            if bench.wants("transactions"):
                transactional(bench, broker, bootstrap)
        both = [BrokerUnderTest("Apache Kafka", kafka, kafka_pid), BrokerUnderTest("refbroker", ref, ref_pid)]
        if bench.wants("refbroker"):
            broker_under_the_same_client(bench, both)
            many_connections(bench, both)
            long_log(bench, both[1])
        if bench.wants("groups"):
            many_groups(bench, both)


def table(rows: list[Row]) -> Table:
    made = Table("what", "unit", "kclient / refbroker", "peer", "its figure", "ratio", "goal", "")
    for column in (2, 4, 5, 6):
        made.columns[column].justify = "right"
    for row in rows:
        mark = "" if row.goal is None else ("[green]met[/]" if row.goal.met(row.ratio) else "[red]missed[/]")
        digits = 0 if row.ours >= 100 else 2
        figures = (f"{row.ours:,.{digits}f}", row.peer, f"{row.theirs:,.{digits}f}", f"{row.ratio:.2f}")
        made.add_row(row.name, row.unit, *figures, str(row.goal or ""), mark)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000_000, help="records of each throughput measurement")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few records, one round, one partition")
    parser.add_argument("--only", default="", help=f"a section: {SECTIONS}")
    parser.add_argument("--all-peers", action="store_true", help="kafka-python and aiokafka as well")
    arguments = parser.parse_args()
    count, rounds = (50_000, 1) if arguments.quick else (arguments.count, arguments.rounds)
    console = Console(width=170)
    bench = Bench(count, rounds, arguments.only, console)
    peers = ["kafka-python", "aiokafka"] if arguments.all_peers else []
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="kclient-bench-") as name:
        directory = Path(name)
        if bench.wants("start"):
            start(bench, directory)
        if bench.wants("permissions"):
            guarded(bench, directory)
        if bench.wants("tls"):
            (directory / "tls").mkdir()
            with_tls(bench, directory / "tls")
        if arguments.only not in OWN_BROKERS:
            on_both_brokers(bench, directory, peers, quick=arguments.quick)
    console.print(table(bench.rows))
    run = {
        "kclient": __version__,
        "records": records.IMPLEMENTATION,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "seconds": round(time.time() - began),
        "count": count,
        "rounds": rounds,
    }
    rows = [{**row._asdict(), "ratio": row.ratio, "goal": str(row.goal or "")} for row in bench.rows]
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "latest.json").write_text(json.dumps({"run": run, "rows": rows, "raw": bench.raw}, indent=1))


if __name__ == "__main__":
    main()
