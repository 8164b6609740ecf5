"""`make bench-compare BASE=rev`: two revisions of kclient and refbroker measured in turn, beside an A/A run.

Each revision is installed, compiled, into a folder of its own. A round measures base, new and base again, in an order
that rotates; the second run of base shows how far equal code differs on this machine. Each measurement has a process of
its own and a broker that was just started. A client is measured against base's broker, a broker under confluent-kafka,
so that only one side differs.

Each revision is measured by its own `workers.py`, because public names may differ between the two: a change of the
measuring loops there shows up in the ratios as well.

Not implemented: the comparison with other clients and brokers (`python -m benchmarks`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
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

from benchmarks.broker_load import CONFLUENT, BrokerUnderTest
from benchmarks.brokers import create_topic
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parent.parent
ROUND_TRIPS = 4000
TOLERANCE = 0.03
"""The tolerance for a worse figure before the table marks it."""
RATE, MICROSECONDS, CPU = "records/s", "µs", "CPU s/M"
MEASURED = {"rate": RATE, "p50_us": MICROSECONDS, "p99_us": MICROSECONDS, "cpu_per_million": CPU}
"""The figures of workers with their units; a rate is better if it is higher."""


class Revision(NamedTuple):
    """A revision that is ready to run: its sources, and the folder of its installation."""

    commit: str
    sources: Path
    installed: Path

    def work(self, what: str, client: str, bootstrap: str, topic: str, count: int, mode: str) -> dict[str, Any]:
        """Run one measurement in a process of its own, with this revision's client and loop."""
        worker = self.sources / "benchmarks" / "workers.py"
        command = [sys.executable, str(worker), what, client, bootstrap, topic, str(count), "100", mode]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, cwd=self.installed, env=self.environment, check=False
        )
        if done.returncode:
            raise SystemExit(f"{what} by {client} of {self.commit} failed:\n{done.stderr[-3000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.installed)}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def install(commit: str, directory: Path) -> Revision:
    """Check out a commit and install it, compiled, without changing this checkout or its environment."""
    sources, installed = directory / "sources", directory / "installed"
    sources.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-xf", "-", "-C", str(sources)], input=archive, check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    environment = {**os.environ, "KCLIENT_REQUIRE_COMPILED": "1"}
    subprocess.run([*pip, "--target", str(installed), str(sources)], env=environment, check=True)
    revision = Revision(commit, sources, installed)
    # An environment with an editable installation must not lend its modules to a revision.
    check = "import kclient, kclient.records as r; print(kclient.__file__, r.IMPLEMENTATION)"
    said = subprocess.run(
        [sys.executable, "-c", check],
        cwd=installed,
        env=revision.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if said != [str(installed / "kclient" / "__init__.py"), "compiled"]:
        raise SystemExit(f"{commit} did not install: {said}")
    return revision


Figures = dict[tuple[str, str], float]
"""The results of one turn, by title and unit."""


class Turn:
    """One turn of one revision: a new broker in a new folder, and the measurements with it."""

    def __init__(self, directory: Path, broker: Revision, client: Revision, count: int) -> None:
        self._directory, self._broker, self._client, self._count = directory, broker, client, count
        self.figures: Figures = {}

    def run(self, measure: Callable[[Turn, BrokerUnderTest], None]) -> Figures:
        settings = {"log.retention.check.interval.ms": "3600000"}
        with (
            tempfile.TemporaryDirectory(dir=self._directory) as folder,
            BrokerProcess(Path(folder) / "data", settings=settings, imports_from=self._broker.installed) as process,
        ):
            measure(self, BrokerUnderTest("refbroker", process.bootstrap_servers, process.pid))
        return self.figures

    def topic(self, broker: BrokerUnderTest, partitions: int) -> str:
        name = f"compare-{uuid.uuid4().hex[:8]}"
        create_topic(broker.bootstrap, name, partitions)
        return name

    def client_side(self, broker: BrokerUnderTest) -> None:
        """Measure producing, consuming and round trips of this revision's client."""
        topic = self.topic(broker, 1)
        for what, title in (("produce", "produce"), ("consume", "consume"), ("arrow", "consume to Arrow")):
            result = self._client.work(what, "kclient", broker.bootstrap, topic, self._count, "default")
            self._note(title, result)
        again = self.topic(broker, 1)
        result = self._client.work("latency", "kclient", broker.bootstrap, again, ROUND_TRIPS, "default")
        self._note("round trip", result)

    def broker_side(self, broker: BrokerUnderTest) -> None:
        """Measure this revision's broker with another client's produce and fetch, over few and many partitions."""
        for partitions in (1, 100):
            topic = self.topic(broker, partitions)
            for what, title in (("produce", "refbroker's produce"), ("consume", "refbroker's fetch")):
                before = broker.cpu_seconds()
                result = self._client.work(what, CONFLUENT, broker.bootstrap, topic, self._count, "tuned")
                cpu = (broker.cpu_seconds() - before) / self._count * 1e6
                where = f"{partitions} partition{'s' * (partitions > 1)}"
                self._note(f"{title}, {where}", {"rate": result["rate"], "cpu_per_million": cpu})

    def _note(self, title: str, result: dict[str, Any]) -> None:
        for name, unit in MEASURED.items():
            if name in result:
                suffix = {"p50_us": " p50", "p99_us": " p99"}.get(name, "")
                self.figures[title + suffix, unit] = float(result[name])


class Ratio(NamedTuple):
    """The ratios of all rounds: the median, and the extremes."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, ours: list[float], base: list[float]) -> Ratio:
        ratios = [one / other for one, other in zip(ours, base, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.middle:.3f}  ({self.least:.2f} to {self.most:.2f})"


def verdict(unit: str, new: Ratio, same: Ratio) -> str:
    """Return "worse" if a ratio is worse in all rounds, by more than the tolerance and than equal code shows."""
    noise = max(TOLERANCE, abs(same.least - 1), abs(same.most - 1))
    if new.least <= 1 <= new.most or abs(new.middle - 1) <= noise:
        return ""
    return "[green]better[/]" if (new.middle > 1) == (unit == RATE) else "[red]worse[/]"


def table(rounds: list[dict[str, Figures]]) -> Table:
    made = Table("what", "unit", "base", "new", "new / base", "base / base", "")
    for column in range(2, 6):
        made.columns[column].justify = "right"
    for what, unit in rounds[0]["base"]:
        base, new, again = ([one[name][what, unit] for one in rounds] for name in ("base", "new", "base again"))
        ratio, same = Ratio.of(new, base), Ratio.of(again, base)
        digits = 0 if unit == RATE else 2
        middles = (f"{statistics.median(figures):,.{digits}f}" for figures in (base, new))
        made.add_row(what, unit, *middles, str(ratio), str(same), verdict(unit, ratio, same))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-compare", description=__doc__)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--new", help="the revision to measure; by default this checkout, with what git tracks in it")
    parser.add_argument("--count", type=int, default=1_000_000, help="records of each throughput measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("client", "broker"), help="measure one side alone")
    arguments = parser.parse_args()
    # A commit of the current checkout, on no branch; git prints none if nothing was changed.
    new = arguments.new or git("stash", "create") or "HEAD"
    commits = {
        "base": git("rev-parse", "--short", arguments.base + "^{commit}"),
        "new": git("rev-parse", "--short", new),
    }
    console, began = Console(width=150), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kclient-compare-") as name:
        directory = Path(name)
        ready: dict[str, Revision] = {}
        for label, commit in commits.items():
            console.print(f"installing {label} ({commit}) ...", highlight=False)
            if commit not in ready:
                ready[commit] = install(commit, directory / label)
        revisions = {label: ready[commit] for label, commit in commits.items()}
        revisions["base again"] = revisions["base"]
        rounds: list[dict[str, Figures]] = []
        for number in range(arguments.rounds):
            order = [*revisions][number % 3 :] + [*revisions][: number % 3]
            console.print(f"round {number + 1} of {arguments.rounds}: {', '.join(order)}", highlight=False)
            found: dict[str, Figures] = {}
            for label in order:
                ours, base = revisions[label], revisions["base"]
                figures = found.setdefault(label, {})
                if arguments.only != "broker":
                    figures |= Turn(directory, base, ours, arguments.count).run(Turn.client_side)
                if arguments.only != "client":
                    figures |= Turn(directory, ours, base, arguments.count).run(Turn.broker_side)
            rounds.append(found)
        console.print(table(rounds))
    console.print(
        f"{len(rounds)} rounds in {time.monotonic() - began:.0f} s; the ratio in the middle, and the outermost ones. "
        f"Marked: over {TOLERANCE:.0%}, more than base ever differs from itself by, and in all rounds alike."
    )


if __name__ == "__main__":
    main()
