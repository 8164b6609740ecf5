"""Run many seeds: ``python -m tests.sim.replication --seeds 10000``; a violation prints its seed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Sequence

from tests.sim.replication.invariants import Violation
from tests.sim.replication.simulation import Simulation

SEEDS_AT_ONCE = 50


def run(seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Run seeds, and return what happened how often, and the violations."""
    happened: Counter[str] = Counter()
    violations = []
    for seed in seeds:
        simulation = Simulation(seed)
        try:
            found = simulation.run()
        except Violation as violation:
            violations.append(str(violation))
        else:
            happened.update({"acknowledged": found.acknowledged, "committed": len(found.entries)})
            happened.update(simulation.happened)
    return happened, violations


def main() -> int:
    """Run the seeds of the command line; return 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one; with --seeds 1, it repeats a violation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    last = options.first + options.seeds
    parts = [range(at, min(at + SEEDS_AT_ONCE, last)) for at in range(options.first, last, SEEDS_AT_ONCE)]
    began = time.monotonic()
    happened: Counter[str] = Counter()
    violations: list[str] = []
    with multiprocessing.Pool(min(options.jobs, len(parts))) as pool:
        for counts, found in pool.imap_unordered(run, parts):
            happened.update(counts)
            violations += found
            for violation in found:
                print(violation, flush=True)
    seconds = time.monotonic() - began
    print(f"{options.seeds} seeds from {options.first} in {seconds:.0f} s: {len(violations)} violations")
    for what, count in sorted(happened.items()):
        print(f"    {count:9,} {what}")
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
