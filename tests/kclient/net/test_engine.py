"""The engine's life: threads that wake it, what is fatal, closing by the deadline, forks, the interpreter's end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kclient.config import ClientConfig
from kclient.errors import ClosedError, ForkError, KafkaError
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE, IDLE, NEVER, Poll, Request
from kclient.protocol.messages.metadata import MetadataRequest
from tests.kclient.net.scripted import ScriptedEngine, ScriptedTransport, cluster
from tests.support.patience import ANSWER, GUARD, PROCESS


class SleepingTransport(ScriptedTransport):
    """Sleeps for real until woken, and counts the wake-ups that are pending."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = threading.Semaphore(0)
        self.sleeping = threading.Event()
        self.pending = 0
        self.most_pending = 0
        self.stuck = threading.Event()
        self.stuck.set()

    def wait(self, timeout: float) -> list[Any]:
        self.stuck.wait()
        if timeout > 0:
            self.sleeping.set()
            if self.woken.acquire(timeout=min(timeout, 60.0)):
                self.pending -= 1
        elif self.woken.acquire(blocking=False):
            self.pending -= 1
        self.sleeping.clear()
        events, self.events = self.events, []
        return events

    def wake(self) -> None:
        self.wakes += 1
        self.pending += 1
        self.most_pending = max(self.most_pending, self.pending)
        self.woken.release()


class Crashing:
    """A manager with a mistake, once told to."""

    def __init__(self) -> None:
        self.now = threading.Event()

    def poll(self, now: float) -> Poll:
        if self.now.is_set():
            raise ZeroDivisionError("a manager's mistake")
        return IDLE


@pytest.fixture
def network() -> SleepingTransport:
    return SleepingTransport()


@pytest.fixture
def engine(network: SleepingTransport) -> Iterator[Engine]:
    network.stuck_lookups = True
    made = Engine(ClientConfig(bootstrap_servers="boot:1"), transport=network, random=random.Random(1))
    yield made
    network.stuck.set()
    made.close(ANSWER)


def test_any_number_of_wakeups_leaves_one_pending(engine: Engine, network: SleepingTransport) -> None:
    engine.start()
    for _ in range(20):
        assert network.sleeping.wait(ANSWER)
        threads = [threading.Thread(target=lambda: [engine.wakeup() for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert network.most_pending == 1
    assert network.wakes < 20 * 800


def test_a_thousand_wakeups_of_a_sleeping_driver_wake_its_transport_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = ScriptedEngine()

    def wait(timeout: float) -> list[Any]:
        for _ in range(1000):
            scripted.engine.wakeup()
        return []

    monkeypatch.setattr(scripted.network, "wait", wait)
    for turn in range(1, 4):
        scripted.engine.run_turn(NEVER)
        assert scripted.network.wakes == turn


def test_a_wakeup_while_the_driver_is_awake_makes_another_turn(engine: Engine, network: SleepingTransport) -> None:
    seen: list[int] = []

    def again() -> None:
        seen.append(len(seen))
        if len(seen) < 5:
            engine.submit(again)

    engine.submit(again)
    engine.run_turn(NEVER)
    while len(seen) < 5:
        engine.run_turn(0.0)
    assert network.wakes == 0


def test_submitted_functions_run_in_order_on_the_network_thread(engine: Engine) -> None:
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    engine.start()
    for number in range(100):
        engine.submit(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    engine.submit(done.set)
    assert done.wait(ANSWER)
    assert seen == [(number, "kclient-network") for number in range(100)]


def test_a_managers_mistake_is_raised_from_the_next_call_and_fails_what_waits(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    manager = Crashing()
    told: list[KafkaError] = []
    engine.add(manager)
    engine.on_failure(told.append)
    engine.start()
    waiting = engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
    engine.check_usable()
    manager.now.set()
    engine.wakeup()
    error = waiting.exception(timeout=ANSWER)
    assert isinstance(error, KafkaError)
    assert "ZeroDivisionError" in str(error)
    with pytest.raises(KafkaError, match="a manager's mistake") as caught:
        engine.check_usable()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.fatal
    assert len(told) == 1
    assert "network thread failed" in caplog.text
    late = engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
    assert isinstance(late.exception(timeout=ANSWER), KafkaError)


def test_a_callback_that_raises_is_a_managers_mistake_too(engine: Engine) -> None:
    def broken(answer: object, now: float) -> None:
        raise RuntimeError("in a callback")

    engine.start()
    request = Request(99, MetadataRequest, lambda version: MetadataRequest(), broken, broken)
    failed = threading.Event()
    engine.on_failure(lambda error: failed.set())
    engine.submit(lambda: engine.send(request))
    assert failed.wait(ANSWER)
    with pytest.raises(KafkaError, match="in a callback"):
        engine.check_usable()


def test_close_fails_what_is_under_way_and_every_later_call(engine: Engine) -> None:
    engine.start()
    future = engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
    said: list[str] = []
    engine.submit(lambda: said.append("last words"))
    engine.close(ANSWER)
    assert said == ["last words"]
    assert isinstance(future.exception(timeout=0), ClosedError)
    assert engine.closed
    with pytest.raises(ClosedError):
        engine.check_usable()
    late = engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
    assert isinstance(late.exception(timeout=0), ClosedError)
    engine.close(ANSWER)


def test_close_returns_by_its_deadline_even_if_the_thread_hangs(
    engine: Engine, network: SleepingTransport, caplog: pytest.LogCaptureFixture
) -> None:
    network.stuck.clear()
    engine.start()
    started = time.monotonic()
    engine.close(0.2)
    assert time.monotonic() - started > 0.15
    assert "did not stop" in caplog.text
    network.stuck.set()


def test_close_with_a_stuck_name_lookup_does_not_wait_for_it(engine: Engine, network: SleepingTransport) -> None:
    engine.start()
    assert network.sleeping.wait(ANSWER)
    assert network.lookups
    # Long enough for the guard to end the test if the lookup is waited for.
    engine.close(10 * GUARD)
    assert network.closed


def test_close_before_start_closes_too(engine: Engine, network: SleepingTransport) -> None:
    engine.close(1.0)
    assert network.closed
    with pytest.raises(ClosedError):
        engine.start()


def test_requests_in_flight_fail_in_order_when_the_client_closes() -> None:
    scripted = ScriptedEngine()
    scripted.start()
    scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    scripted.connect()
    order: list[int] = []
    for number in range(3):
        scripted.engine.send(
            Request(
                0,
                MetadataRequest,
                lambda version: MetadataRequest(),
                lambda response, now: None,
                lambda error, now, number=number: order.append(number),  # type: ignore[misc]
            )
        )
    scripted.settle()
    scripted.engine.close(1.0)
    assert order == [0, 1, 2]
    assert all(channel.closed for channel in scripted.network.channels)


def test_a_removed_manager_is_no_longer_asked(engine: Engine) -> None:
    manager = Crashing()
    engine.add(manager)
    engine.run_turn(0.0)
    engine.remove(manager)
    manager.now.set()
    engine.run_turn(0.0)


def test_a_call_that_was_cancelled_ignores_its_answer() -> None:
    scripted = ScriptedEngine()
    future = scripted.engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
    scripted.settle()
    channel = scripted.connect()
    assert future.cancel()
    channel.answer(cluster())
    channel.answer(cluster())
    scripted.settle()
    scripted.engine.check_usable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_reported_immediately(engine: Engine) -> None:
    engine.start()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.check_usable()
            os.write(writer, b"usable")
        except ForkError as error:
            engine.close(10 * GUARD)
            os.write(writer, f"closed {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    assert answer.startswith("closed ")
    assert str(os.getpid()) in answer
    engine.check_usable()


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "host.invalid:9092"])
def test_an_interpreter_with_an_open_engine_ends(servers: str) -> None:
    program = textwrap.dedent(
        f"""
        from kclient.config import ClientConfig
        from kclient.net.engine import Engine
        Engine(ClientConfig(bootstrap_servers={servers!r})).start()
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PROCESS, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_ctrl_c_interrupts_a_wait(tmp_path: Any) -> None:
    program = textwrap.dedent(
        """
        import signal, threading
        from kclient.config import ClientConfig
        from kclient.net.engine import Engine
        from kclient.net.manager import ANY_NODE
        from kclient.net.waiting import wait_future
        from kclient.protocol.messages.metadata import MetadataRequest
        engine = Engine(ClientConfig(bootstrap_servers="127.0.0.1:1"))
        engine.start()
        future = engine.call(ANY_NODE, MetadataRequest, lambda version: MetadataRequest())
        main = threading.main_thread().ident
        try:
            engine.submit(lambda: threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start())
            wait_future(future, None)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PROCESS, check=False)
    assert done.stdout == "interrupted\n"
    assert done.returncode == 0
