"""Leaving something over: of the disk, and of the interpreter."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from refbroker.log.compaction.throttle import GilYielder, Throttle
from refbroker.runtime.clock import Clock
from tests.support.patience import ANSWER


def held_clock() -> Clock:
    clock = Clock()
    clock.hold(1_000_000)
    return clock


def test_what_is_read_and_written_keeps_to_the_rate_on_average() -> None:
    clock = held_clock()
    throttle = Throttle(lambda: 1000.0, clock)
    began, total = clock(), 0
    for _ in range(500):
        # As fast as the disk is: 400 bytes in 10 ms.
        clock.step(10)
        total += 400
        clock.step(throttle.observe(400))
    assert abs(total * 1000 / (clock() - began) - 1000) < 50


def test_who_is_slower_than_the_rate_never_waits() -> None:
    clock = held_clock()
    throttle = Throttle(lambda: 1000.0, clock)
    for _ in range(100):
        clock.step(100)
        assert throttle.observe(90) == 0


def test_a_rate_that_is_changed_counts_from_the_next_look_on() -> None:
    clock = held_clock()
    rate = 1e308
    throttle = Throttle(lambda: rate, clock)
    clock.step(301)
    assert throttle.observe(10**9) == 0
    rate = 100.0
    clock.step(301)
    assert throttle.observe(100) == 1000 - 301


def test_a_clock_that_was_set_back_is_no_reason_to_wait_for_it() -> None:
    clock = held_clock()
    throttle = Throttle(lambda: 1000.0, clock)
    clock.step(-1_000_000)
    assert throttle.observe(10) <= 10
    clock.step(10)
    assert throttle.observe(1) == 0


def test_who_computes_for_long_sleeps_after_each_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sleeps = 0.0, []
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(time, "sleep", lambda seconds: sleeps.append((round(now, 4), seconds > 0)))
    yield_gil = GilYielder()

    def compute() -> None:
        nonlocal now
        for _ in range(50):
            now += 0.0003
            yield_gil()

    compute()
    assert not sleeps, "the event loop's own thread has nobody to yield to"
    with ThreadPoolExecutor(1) as worker:
        now = 0.0
        worker.submit(compute).result(ANSWER)
    assert sleeps[:3] == [(0.0012, True), (0.0024, True), (0.0036, True)]
    assert len(sleeps) == 12
