"""Threads, blocking sockets and coroutines on a simulated machine: a seed decides how they interleave."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kclient.net import runtime
from refbroker.testing import RefBroker
from tests.support.simulation.machine import simulated_machine
from tests.support.simulation.runtime import SimulatedRuntime
from tests.support.wire import Wire, fetch_request, produce_request, values


def turns(seed: int) -> list[int]:
    """Return the order in which three threads take a lock."""
    taken: list[int] = []
    with simulated_machine(seed):
        lock = threading.Lock()

        def take(number: int) -> None:
            for _ in range(5):
                with lock:
                    taken.append(number)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            assert not thread.is_alive()
    return taken


def test_a_seed_decides_how_threads_interleave() -> None:
    orders = {seed: turns(seed) for seed in range(10)}
    assert {seed: turns(seed) for seed in range(10)} == orders
    assert len({tuple(order) for order in orders.values()}) > 5


def test_threads_wait_for_each_other_in_simulated_time() -> None:
    with simulated_machine(1) as simulation:
        began = simulation.now
        given: queue.Queue[int] = queue.Queue(maxsize=1)
        done = threading.Event()

        def give() -> None:
            time.sleep(600.0)
            for number in range(3):
                given.put(number)
            done.set()

        threading.Thread(target=give).start()
        with pytest.raises(queue.Empty):
            given.get(timeout=60.0)
        assert [given.get() for _ in range(3)] == [0, 1, 2]
        assert done.wait(1.0)
        assert 600.0 <= simulation.now - began < 601.0


def test_a_lock_keeps_others_out_while_its_holder_waits() -> None:
    with simulated_machine(1), ThreadPoolExecutor(4) as pool:
        lock, inside, most = threading.Lock(), 0, 0

        def enter() -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
                time.sleep(1.0)
                inside -= 1

        for future in [pool.submit(enter) for _ in range(8)]:
            future.result(timeout=10.0)
        assert (most, lock.acquire(blocking=False), lock.acquire(timeout=0.5)) == (1, True, False)


def test_time_passes_where_the_application_takes_locks_and_not_within_the_scheduler() -> None:
    with simulated_machine(1) as simulation:
        lock = threading.Lock()
        passed: list[float] = []

        def take_often() -> bool:
            began = simulation.now
            for _ in range(100):
                with lock:
                    pass
            passed.append(simulation.now - began)
            return True

        take_often()
        simulation.run_until(take_often)
    assert passed[0] > 0.0 == passed[1]


def test_threads_that_still_wait_end_with_the_simulation() -> None:
    ended: list[str] = []

    def wait() -> None:
        try:
            threading.Event().wait()
        finally:
            ended.append(threading.current_thread().name)

    before = threading.active_count()
    with simulated_machine(1):
        thread = threading.Thread(target=wait, name="waits")
        thread.start()
        time.sleep(1.0)
    thread.join()
    assert (ended, threading.active_count()) == (["waits"], before)


def test_blocking_sockets_talk_to_a_broker_and_learn_of_its_end() -> None:
    with simulated_machine(1):
        with RefBroker() as broker:
            broker.create_topic("t", max_message_bytes=5_000_000)
            wire = Wire(broker.bootstrap_servers)
            wire.ask(produce_request("t", b"x" * 3_000_000), 9)
            assert [len(value or b"") for value in values(wire.ask(fetch_request("t"), 11))] == [3_000_000]
            wire.socket.settimeout(1.0)
            with pytest.raises(TimeoutError):
                wire.socket.recv(1)
        assert wire.is_closed()
        with pytest.raises(ConnectionRefusedError):
            Wire(broker.bootstrap_servers)


def test_a_coroutine_and_the_broker_that_it_blocks_for_have_loops_of_their_own() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with RefBroker() as broker:
            assert broker.call(lambda _: asyncio.get_running_loop()) is not loop
            assert asyncio.get_running_loop() is loop
            assert await asyncio.to_thread(lambda: broker.is_running)
        await asyncio.sleep(60.0)
        raise LookupError("raised by the coroutine")

    with simulated_machine(1):
        machine = runtime.current()
        assert isinstance(machine, SimulatedRuntime)
        with pytest.raises(LookupError, match="raised by the coroutine"):
            machine.run(main())
