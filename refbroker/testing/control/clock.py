"""The broker's clock in the hands of a test: held, stepped, or running."""

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
"""How long background work may take, by the real time, before a step is taken to be stuck."""


class ClockMethods(ABC):
    """The clock of a broker. Everything may be called by any thread; it stays as it is while the broker is restarted.

    Timestamps of records, retention, compaction and expiry go by it. Waits that belong to the network, such as the
    time a fetch waits for records, go by the real time.
    """

    @abstractmethod
    def hold(self, at_ms: int | None = None) -> None:
        """Stand still, now or at a time.

        Parameters:
            at_ms: milliseconds since the epoch.

        Raises:
            ConfigError: the time is before 1970 or after 9999.
        """

    @abstractmethod
    def step(self, seconds: float) -> None:
        """Move, held or running, and return when the background work that became due has been done once.

        Parameters:
            seconds: how far; a negative number moves it back.

        Raises:
            ConfigError: the time would be before 1970 or after 9999.
            TimeoutError: the work takes longer than a minute.
        """

    @abstractmethod
    def run(self) -> None:
        """Go on from the time it shows."""

    @property
    @abstractmethod
    def now_ms(self) -> int:
        """The time it shows, in milliseconds since the epoch."""

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """Whether it stands still."""


class BrokerThread(Protocol):
    """What the clock needs of a broker in this process; `RefBroker` has it."""

    @property
    def is_running(self) -> bool:
        """Whether it serves."""

    def call(self, function: Callable[[Broker], T]) -> T:
        """Run a function on the broker's event loop; raises IllegalStateError if it does not run."""

    def wait_for(self, steps: Callable[[Broker], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Run a coroutine function on the broker's event loop, for at most `timeout` seconds."""


class LocalClock(ClockMethods):
    """The clock of a broker in this process.

    Parameters:
        clock: the broker's own.
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
            # It does not run, so that nothing waits for the clock.
            change()
        else:
            if self._kafka.is_running:
                self._kafka.wait_for(_settled, STEP_SECONDS)


async def _settled(broker: Broker) -> None:
    """Wait until what is due has been done, or a disk that failed with that has ended the broker."""
    settled = asyncio.create_task(broker.background.settled())
    ends: list[asyncio.Future[Any]] = [settled, broker.parts.failed]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        settled.cancel()


def _check(time_ms: int) -> None:
    if not 0 <= time_ms <= LATEST_MS:
        raise ConfigError(f"the clock cannot show {time_ms} ms since the epoch; it goes from 1970 to 9999")
