"""Transactions through lost, late and repeated messages, kills at any write, rivals and new terms: by seed.

Exactly once is what holds: see `ledger` for the model. And nobody waits indefinitely: once nothing fails, every
call ends, every transaction is decided, and readers of committed records come to the end of each log.

KCLIENT_SIM_ROUNDS says how many histories there are; two thousand take two or three minutes of a processor.
KCLIENT_TEST_SEED is the first one's number, by which a failed one is repeated: KCLIENT_TEST_SEED=1234
KCLIENT_SIM_ROUNDS=1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sim.transaction_runs import Run

FIRST = int(os.environ.get("KCLIENT_TEST_SEED", "0"))
ROUNDS = int(os.environ.get("KCLIENT_SIM_ROUNDS", "100"))
PARTS = max(ROUNDS // 10, 1)


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No threads, whose turns no seed repeats, and no log: everything goes wrong, and would say so."""
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def history(seed: int, path: Path) -> Run:
    """One history; which version of transactions it is about, and what a kill is, follows from the seed."""
    rng = random.Random(seed)
    version, power = rng.choice((0, 1, 2, 2)), rng.random() < 0.4
    run = Run(seed, path / str(seed), version=version, power=power)
    try:
        await run.go()
    except BaseException as error:
        error.add_note(f"seed {seed}, transactions of version {version}: KCLIENT_TEST_SEED={seed} KCLIENT_SIM_ROUNDS=1")
        raise
    finally:
        run.close()
        shutil.rmtree(path / str(seed))
    return run


@pytest.mark.parametrize("part", range(PARTS))
async def test_each_input_has_one_result_whatever_fails(tmp_path: Path, part: int) -> None:
    committed = 0
    for seed in range(FIRST + part, FIRST + ROUNDS, PARTS):
        run = await history(seed, tmp_path)
        committed += run.committed + run.handed_over
    # A single one may have nothing but rivals.
    assert committed or ROUNDS < 10


async def test_what_is_to_happen_happens(tmp_path: Path) -> None:
    """The histories are meaningful: programs see every kind of end, and brokers restart."""
    ends: Counter[str] = Counter()
    starts = 0
    for seed in range(20):
        run = await history(seed, tmp_path)
        ends += run.ends
        starts += run.broker.starts - 1
    assert starts > 10
    assert {"ProducerFencedError", "TransactionAbortableError", "InvalidProducerEpochError"} <= set(ends), ends


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_programs_learn_of_no_error_while_nothing_fails(tmp_path: Path, version: int) -> None:
    for seed in range(5):
        run = Run(seed, tmp_path / str(seed), version=version, calm=True)
        await run.go()
        run.close()
        assert not run.ends
        assert run.committed + run.handed_over >= run.wanted


async def test_a_seed_repeats_a_history(tmp_path: Path) -> None:
    first, second = [await history(7, tmp_path) for _ in range(2)]
    assert first.simulation.requests == second.simulation.requests
    assert first.ledger.entries == second.ledger.entries
    assert first.ledger.seen == second.ledger.seen
