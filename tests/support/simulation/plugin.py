"""The pytest plugin behind `--broker=sim`: a simulated machine for each test, and repetitions over many seeds.

A test that needs the real machine is skipped: it is marked `not_simulated("why")`, or runs on trio. A coroutine runs on
an event loop of the simulation. `KCLIENT_SIM_SWEEP` repeats each test under so many seeds, the first of which is
`KCLIENT_SIM_SEED`, by default the run's own seed. `KCLIENT_SIM_CUT` is how likely (0 to 1, by default 0) the network
resets a connection when one end sends.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kclient.net import runtime
from refbroker.testing.simulation.network import Conduct
from refbroker.testing.simulation.scheduler import Simulation
from tests.support.simulation.machine import simulated_machine
from tests.support.simulation.runtime import SimulatedRuntime

SEED = "simulation_seed"
"""The parameter of a simulated test."""


class SimulationPlugin:
    """The plugin of one run.

    Parameters:
        seed: the first seed.
    """

    def __init__(self, seed: int) -> None:
        first = int(os.environ.get("KCLIENT_SIM_SEED", "0")) or seed
        self._seeds = range(first, first + int(os.environ.get("KCLIENT_SIM_SWEEP", "1")))
        self._conduct = Conduct(cut=cut_chance())

    def pytest_report_header(self) -> str:
        """Name the seeds, and what else a repetition depends on."""
        order = os.environ.get("PYTHONHASHSEED", "unset, so that sets of strings differ from run to run")
        return f"simulation: seeds {self._seeds[0]} to {self._seeds[-1]}, PYTHONHASHSEED {order}"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test once for each seed."""
        if reason_to_skip(metafunc.definition) is None:
            metafunc.fixturenames.append(SEED)
            metafunc.parametrize(SEED, self._seeds, ids="seed{}".format)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what needs the real machine."""
        for item in items:
            if (reason := reason_to_skip(item)) is not None:
                item.add_marker(pytest.mark.skip(reason=f"not simulated: {reason}"))

    @pytest.fixture(autouse=True)
    def simulation(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
        """The simulated machine that the test and its other fixtures run on."""
        forbid_the_real_machine(monkeypatch)
        with simulated_machine(seed_of(request.node), self._conduct) as simulation:
            yield simulation

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a coroutine in the simulation."""
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        machine = runtime.current()
        assert isinstance(machine, SimulatedRuntime)
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        machine.run(pyfuncitem.obj(**arguments))
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Print with a failure the command that repeats it."""
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        if report.failed:
            report.sections.append(("repeat with", repetition(item)))


def reason_to_skip(item: pytest.Item) -> str | None:
    """Return why a test needs the real machine; None if it runs in a simulation."""
    mark = item.get_closest_marker("not_simulated")
    if mark is not None:
        return str(mark.args[0])
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("anyio_backend") == "trio":
        return "trio has an event loop of its own"
    return None


def cut_chance() -> float:
    """Return how likely the network resets a connection when an end sends."""
    return float(os.environ.get("KCLIENT_SIM_CUT", "0"))


def seed_of(item: pytest.Item) -> int:
    """Return the seed of a test's simulation."""
    return int(getattr(item, "callspec").params[SEED])  # noqa: B009 - Item does not declare it


def repetition(item: pytest.Item) -> str:
    """Return the command that repeats one test with its seed."""
    seed = seed_of(item)
    hashes = os.environ.get("PYTHONHASHSEED", "0")
    cuts = f"KCLIENT_SIM_CUT={chance:g} " if (chance := cut_chance()) else ""
    command = f"KCLIENT_SIM_SEED={seed} {cuts}PYTHONHASHSEED={hashes} {sys.executable} -m pytest --broker=sim"
    return f"{command} '{item.nodeid}'"


def forbid_the_real_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a simulated test fail at once where it starts a process."""

    def refuse(*arguments: object, **options: object) -> None:
        pytest.fail("a simulated test has no processes: mark it `not_simulated`", pytrace=True)

    monkeypatch.setattr(subprocess, "Popen", refuse)
