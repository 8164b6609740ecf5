"""The machines of replication under some seeds, and the mutants that few seeds catch.

`make sim-cluster SEEDS=10000` runs more of the former, `make mutants` all of the latter. KCLIENT_CLUSTER_SEEDS is the
number of seeds here, KCLIENT_TEST_SEED picks others than the default ones.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.sim.replication.mutants import MUTANTS, Mutant
from tests.sim.replication.simulation import Simulation

SEEDS = int(os.environ.get("KCLIENT_CLUSTER_SEEDS", "200"))
PARTS = 8
FEW_SEEDS = 200
CAUGHT_BY_FEW = ("KafkaTruncateToHighWatermark", "Kip101", "committed", "high watermark below")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_violates_an_invariant(part: int, rng: random.Random) -> None:
    first = rng.randrange(1 << 30) if "KCLIENT_TEST_SEED" in os.environ else 0
    acknowledged = 0
    for seed in range(first + part, first + SEEDS, PARTS):
        acknowledged += Simulation(seed).run().acknowledged
    # Otherwise nothing was tested.
    assert acknowledged > SEEDS // PARTS


def test_a_seed_repeats_itself() -> None:
    first, second = Simulation(5), Simulation(5)
    assert first.run().entries == second.run().entries
    assert first.history == second.history
    assert first.describe() == second.describe()


@pytest.mark.parametrize(
    "mutant", [pytest.param(each, id=each.function) for each in MUTANTS if each.name.startswith(CAUGHT_BY_FEW)]
)
def test_mutant_is_caught(mutant: Mutant) -> None:
    assert mutant.seeds_until_caught(range(FEW_SEEDS)) is not None
