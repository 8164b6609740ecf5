"""Lines about clients are limited by cause and address."""

from __future__ import annotations

import logging

import pytest

from refbroker.runtime.limited_log import CAUSES_LIMIT, INTERVAL, REASON_LIMIT, SOURCES_LIMIT, LimitedLog

TEMPLATE = "closing %s: %s"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> LimitedLog:
    return LimitedLog(logging.getLogger("test"), clock)


def test_the_first_line_of_a_cause_and_address_is_logged(lines: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    for peer in ("a:1", "a:2", "b:1"):
        for reason in ("a request of 5 bytes", "a request of 70 bytes", "no login"):
            lines.warning(peer, TEMPLATE, reason)
    assert caplog.messages == [
        "closing a:1: a request of 5 bytes",
        "closing a:1: no login",
        "closing b:1: a request of 5 bytes",
        "closing b:1: no login",
    ]


def test_the_next_line_says_how_many_there_were(
    lines: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        lines.warning("a:1", TEMPLATE, "no login")
    clock.now = INTERVAL
    lines.warning("a:2", TEMPLATE, "no login")
    clock.now = 2 * INTERVAL
    lines.warning("a:3", TEMPLATE, "no login")
    assert caplog.messages == [
        "closing a:1: no login",
        "closing a:2: no login (3 more like it from a before)",
        "closing a:3: no login",
    ]


def test_memory_stays_limited_whatever_clients_do(
    lines: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3 * SOURCES_LIMIT):
        lines.warning(f"host-{number}:1", TEMPLATE, f"name {chr(0x4E00 + number)}")
    assert len(caplog.messages) == SOURCES_LIMIT + 1
    assert len(lines._sources) == SOURCES_LIMIT + 1
    clock.now = INTERVAL
    lines.warning("late:1", TEMPLATE, "no login")
    assert caplog.messages[-1] == "closing late:1: no login"
    assert len(lines._sources) == 1


def test_an_address_with_a_scope_is_counted(lines: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for now in (0, 0, INTERVAL):
        clock.now = now
        lines.warning("fe80::1%eth0:1", TEMPLATE, "no login")
    assert caplog.messages[-1] == "closing fe80::1%eth0:1: no login (1 more like it from fe80::1%eth0 before)"


def test_an_address_has_a_few_causes_however_it_words_them(
    lines: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10 * CAUSES_LIMIT):
        lines.warning(f"a:{number}", TEMPLATE, f"no mechanism {chr(0x4E00 + number)}")
    assert len(caplog.messages) == CAUSES_LIMIT + 1
    lines.warning("b:1", TEMPLATE, "no login")
    assert caplog.messages[-1] == "closing b:1: no login"
    clock.now = INTERVAL
    lines.warning("a:1", TEMPLATE, "no login")
    assert caplog.messages[-1] == "closing a:1: no login"


def test_a_reason_of_a_client_is_one_short_line(lines: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    lines.warning("a:1", TEMPLATE, "no mechanism X\nWARNING \x1b[31m forged\u2028line")
    assert caplog.messages == ["closing a:1: no mechanism X\\nWARNING \\x1b[31m forged\\u2028line"]
    lines.warning("b:1", TEMPLATE, "x" * 100_000)
    assert len(caplog.messages[-1]) < REASON_LIMIT + 100
    assert caplog.messages[-1].endswith("x...")
    assert max(len(cause) for cause, _ in lines._sources) < REASON_LIMIT + 100
