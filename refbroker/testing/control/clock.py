"""The broker's clock, controlled by a test: held, stepped, or running."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from kclient.errors import ConfigError, IllegalStateError
from refbroker.broker import Broker
from refbroker.runtime.clock import Clock

T = TypeVar("T")

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""
STEP_SECONDS = 60.0
"""How long background work may take, in real time, before a step counts as stuck."""


class ClockMethods(ABC):
    """The clock of a broker. Any thread may call any method; it keeps its state while the broker restarts.

    Timestamps of records, retention, compaction and expiration use it. Network waits, such as that of a fetch for
    records, use real time.
    """

    @abstractmethod
    def hold(self, at_ms: int | None = None) -> None:
        """Stop the clock, now or at a time.

        Parameters:
            at_ms: milliseconds since the epoch.

        Raises:
            ConfigError: the time is before 1970 or after 9999.
        """

    @abstractmethod
    def step(self, seconds: float) -> None:
        """Move the clock, held or running, and return when the background work that became due has run once.

        Parameters:
            seconds: how far; negative to move it back.

        Raises:
            ConfigError: the time would be before 1970 or after 9999.
            TimeoutError: the work takes longer than a minute.
        """

    @abstractmethod
    def run(self) -> None:
        """Let the clock run from its current time."""

    @property
    @abstractmethod
    def now_ms(self) -> int:
        """Its time, in milliseconds since the epoch."""

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """Whether it is held."""


class BrokerThread(Protocol):
    """The broker as the clock sees it; implemented by `RefBroker`."""

    @property
    def is_running(self) -> bool:
        """Whether the broker runs."""

    def call(self, function: Callable[[Broker], T]) -> T:
        """Run a function on the broker's event loop; raise IllegalStateError if it does not run."""

    def wait_for(self, steps: Callable[[Broker], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Run a coroutine function on the broker's event loop, for at most `timeout` seconds."""


class LocalClock(ClockMethods):
    """The clock of a broker in this process.

    Parameters:
        clock: the broker's clock.
        kafka: the broker.
    """

    def __init__(self, clock: Clock, kafka: BrokerThread) -> None:
        self._clock = clock
        self._kafka = kafka

    def hold(self, at_ms: int | None = None) -> None:
        if at_ms is not None:
            _check(at_ms)
        self._change(lambda: self._clock.hold(at_ms))

    def step(self, seconds: float) -> None:
        ms = round(seconds * 1000)
        _check(self.now_ms + ms)
        self._change(lambda: self._clock.step(ms))

    def run(self) -> None:
        self._change(self._clock.run)

    @property
    def now_ms(self) -> int:
        return self._clock()

    @property
    def is_held(self) -> bool:
        return self._clock.is_held

    def _change(self, change: Callable[[], None]) -> None:
        try:
            self._kafka.call(lambda broker: change())
        except IllegalStateError:
            # The broker does not run, so nothing waits for the clock.
            change()
        else:
            if self._kafka.is_running:
                self._kafka.wait_for(_settled, STEP_SECONDS)


async def _settled(broker: Broker) -> None:
    """Wait until due work has run, or a failed disk has stopped the broker."""
    settled = asyncio.create_task(broker.background.settled())
    ends: list[asyncio.Future[Any]] = [settled, broker.parts.failed]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        settled.cancel()


def _check(time_ms: int) -> None:
    if not 0 <= time_ms <= LATEST_MS:
        raise ConfigError(f"the clock cannot show {time_ms} ms since the epoch; it goes from 1970 to 9999")
