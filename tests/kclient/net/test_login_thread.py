"""The thread for logins: computations in turn, those that hang, and what has to be refreshed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from kclient.errors import CredentialsUnavailableError, KafkaError
from kclient.net.login_thread import LoginThread
from tests.kclient.net.scripted import Clock

LIMIT = 30.0


class ScriptedWorker:
    """A thread that runs its functions when the test says so, and hangs in the first one until then."""

    is_started = is_current = False

    def __init__(self) -> None:
        self.functions: list[Callable[[], None]] = []
        self.closed = False

    def submit(self, function: Callable[[], None]) -> None:
        self.functions.append(function)

    def close(self, timeout: float) -> None:
        self.closed = True

    def run(self) -> None:
        while self.functions:
            self.functions.pop(0)()


class Token:
    """Something to refresh."""

    awaits = "vault.token"

    def __init__(self) -> None:
        self.refresh_at = math.inf
        self.refreshes = 0

    def refresh(self) -> None:
        self.refresh_at = math.inf
        self.refreshes += 1


class Scripted:
    """A login thread whose workers and time belong to the test."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.workers: list[ScriptedWorker] = []
        self.submitted: list[Callable[[], None]] = []
        self.thread = LoginThread(self.new_worker, self.submitted.append, self.clock, LIMIT)
        self.outcomes: dict[str, Any] = {}
        self.calls: list[str] = []

    def new_worker(self) -> ScriptedWorker:
        self.workers.append(ScriptedWorker())
        return self.workers[-1]

    def ask(self, name: str) -> None:
        """Let a connection wait for a computation."""

        def compute() -> str:
            self.calls.append(name)
            return name.upper()

        self.thread.call(compute, f"provider {name}").start(lambda outcome, now: self.outcomes.update({name: outcome}))

    def run(self, worker: int = -1) -> None:
        """Let a thread run what it has, and the network thread what that submits."""
        self.workers[worker].run()
        self.deliver()

    def deliver(self) -> None:
        while self.submitted:
            self.submitted.pop(0)()

    def pass_time(self, seconds: float) -> float:
        """Move the clock, and poll; return the time of the next poll."""
        self.clock.now += seconds
        deadline = self.thread.poll(self.clock.now).deadline
        self.deliver()
        return deadline

    def error(self, name: str) -> str:
        outcome = self.outcomes[name]
        assert isinstance(outcome, CredentialsUnavailableError), self.outcomes
        return outcome.message


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


def test_computations_run_one_after_the_other(scripted: Scripted) -> None:
    for name in ("a", "b"):
        scripted.ask(name)
    assert scripted.outcomes == {}
    scripted.run()
    assert scripted.outcomes == {"a": "A", "b": "B"}
    assert scripted.pass_time(2 * LIMIT) == math.inf
    assert len(scripted.workers) == 1


def test_a_computation_that_hangs_is_given_up_and_the_others_continue(scripted: Scripted) -> None:
    scripted.ask("a")
    hanging = scripted.workers[0].functions.pop(0)
    scripted.ask("b")
    assert scripted.pass_time(LIMIT - 1) == scripted.clock.now + 1
    assert scripted.outcomes == {}
    assert scripted.pass_time(1) == scripted.clock.now + LIMIT
    assert scripted.error("a") == "provider a did not return within 30 s; check what it waits for"
    assert scripted.workers[0].closed
    scripted.run()
    assert scripted.outcomes["b"] == "B"
    # It returns in the end, and so does its thread, which computes nothing again.
    hanging()
    scripted.run(0)
    assert scripted.calls == ["b", "a"]
    assert isinstance(scripted.outcomes["a"], KafkaError)


def test_the_time_of_a_computation_begins_when_the_one_before_has_ended(scripted: Scripted) -> None:
    scripted.ask("a")
    scripted.ask("b")
    scripted.pass_time(LIMIT - 1)
    scripted.workers[0].functions.pop(0)()
    scripted.deliver()
    assert scripted.pass_time(LIMIT - 1) == scripted.clock.now + 1
    assert scripted.outcomes == {"a": "A"}
    scripted.pass_time(1)
    assert "provider b did not return" in scripted.error("b")


def test_few_threads_hang_and_further_computations_fail_at_once(scripted: Scripted) -> None:
    hanging = []
    for name in ("a", "b"):
        scripted.ask(name)
        hanging.append(scripted.workers[-1].functions.pop(0))
        scripted.pass_time(LIMIT)
    scripted.ask("c")
    scripted.deliver()
    assert scripted.error("c").startswith("provider c is not called: 2 earlier calls have not returned")
    assert scripted.workers[-1].functions == []
    hanging[0]()
    scripted.deliver()
    scripted.ask("d")
    scripted.run()
    assert scripted.outcomes["d"] == "D"


def test_what_expires_is_refreshed_when_it_is_time(scripted: Scripted) -> None:
    token = Token()
    scripted.thread.keep_fresh(token)
    assert scripted.pass_time(0) == math.inf
    token.refresh_at = scripted.clock.now + 5
    assert scripted.pass_time(4) == token.refresh_at
    scripted.pass_time(1)
    scripted.run()
    assert token.refreshes == 1
    assert scripted.pass_time(100) == math.inf


def test_a_refresh_that_hangs_is_given_up_and_tried_again(scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    token = Token()
    scripted.thread.keep_fresh(token)
    token.refresh_at = scripted.clock.now
    scripted.pass_time(0)
    # The provider hangs before it has returned a time.
    token.refresh_at = math.inf
    scripted.workers[0].functions.pop(0)
    again = scripted.clock.now + 2 * LIMIT
    assert scripted.pass_time(LIMIT) == again
    assert "vault.token did not return within 30 s" in caplog.text
    scripted.pass_time(LIMIT)
    scripted.run()
    assert token.refreshes == 1


def test_the_end_of_a_client_does_not_wait_for_a_computation(scripted: Scripted) -> None:
    scripted.ask("a")
    scripted.thread.close()
    assert scripted.workers[0].closed
    assert scripted.outcomes == {}
