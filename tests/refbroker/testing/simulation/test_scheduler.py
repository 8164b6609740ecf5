"""The scheduler: what runs next, when the clock moves, and how a wait that cannot end fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refbroker.testing.simulation.scheduler import NEVER, START_SECONDS, DeadlockError, Simulation


class Ticker:
    """An actor that makes so many steps, each after an interval."""

    def __init__(self, simulation: Simulation, name: str, steps: int, interval: float, log: list[str]) -> None:
        self.name = name
        self._simulation = simulation
        self._steps = steps
        self._interval = interval
        self._log = log
        self._due = simulation.now

    def due(self) -> float:
        return self._due if self._steps else NEVER

    def step(self) -> None:
        self._log.append(self.name)
        self._steps -= 1
        self._due = self._simulation.now + self._interval

    def describe(self) -> str:
        return f"{self._steps} steps left"


def order(seed: int) -> list[str]:
    """The order in which three actors take ten steps each, all due at once."""
    simulation, log = Simulation(seed), list[str]()
    for name in "abc":
        simulation.add(Ticker(simulation, name, 10, 0.0, log))
    simulation.run_until(lambda: len(log) == 30)
    return log


def test_a_seed_repeats_the_order_of_actors_and_another_changes_it() -> None:
    assert order(1) == order(1)
    assert len({"".join(order(seed)) for seed in range(10)}) == 10


def test_the_clock_moves_only_when_no_actor_can_run() -> None:
    simulation, log = Simulation(1), list[str]()
    simulation.add(Ticker(simulation, "now", 5, 0.0, log))
    simulation.add(Ticker(simulation, "later", 2, 60.0, log))
    simulation.run_until(lambda: log.count("now") == 5)
    assert simulation.now == START_SECONDS
    simulation.run_until(lambda: log.count("later") == 2)
    assert simulation.now == START_SECONDS + 60.0


def test_a_wait_ends_at_its_timeout_and_events_come_in_order() -> None:
    simulation, seen = Simulation(1), list[float]()

    def note() -> None:
        seen.append(simulation.now - START_SECONDS)

    for seconds in (3.0, 1.0, 2.0):
        simulation.later(seconds, note)
    assert not simulation.run_until(lambda: False, 2.5)
    assert seen == [1.0, 2.0]
    assert simulation.now == START_SECONDS + 2.5


def test_a_wait_within_a_step_gives_the_waiting_actor_no_further_step() -> None:
    simulation, log = Simulation(1), list[str]()
    other = Ticker(simulation, "other", 1, 0.0, log)

    class Waiting(Ticker):
        def step(self) -> None:
            super().step()
            simulation.run_until(lambda: "other" in log)
            self._log.append("done")

    simulation.add(Waiting(simulation, "waiting", 1, 0.0, log))
    simulation.later(1.0, lambda: simulation.add(other))
    simulation.run_until(lambda: "done" in log)
    assert log == ["waiting", "other", "done"]


def forever(simulation: Simulation) -> None:
    """Keep a timer going, as brokers do."""
    simulation.later(1.0, lambda: forever(simulation))


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        pytest.param(lambda simulation: None, "no actor has anything left to do", id="nothing left"),
        pytest.param(forever, "the time it may take has passed", id="timers only"),
    ],
)
def test_a_wait_that_cannot_end_fails_with_the_state_of_every_actor(
    prepare: Callable[[Simulation], None], why: str
) -> None:
    simulation = Simulation(7)
    simulation.add(Ticker(simulation, "idle", 0, 0.0, []))
    prepare(simulation)
    with pytest.raises(DeadlockError, match=f"deadlock in simulation: {why}.*seed 7[^\n]*\n  idle: 0 steps left"):
        simulation.run_until(lambda: False)


def test_actors_that_wake_each_other_indefinitely_fail() -> None:
    simulation = Simulation(1)
    simulation.add(Ticker(simulation, "busy", -1, 0.0, []))
    with pytest.raises(DeadlockError, match="no time passed"):
        simulation.run_until(lambda: False)
