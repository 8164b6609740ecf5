"""The broker's periodic tasks: flushes, checkpoints, retention and expiry.

Intervals are measured by the broker's clock, so that a test that steps the clock triggers them. A round that fails is
logged, and the next one runs at its time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kclient.errors import KafkaStorageError
from refbroker.runtime.clock import WORK, Clock

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None] | None]


class Background:
    """The periodic tasks of one broker. Belongs to its event loop.

    Parameters:
        clock: the broker's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[tuple[str, Callable[[], int], Work]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def every(self, name: str, interval_ms: Callable[[], int], work: Work) -> None:
        """Run some work periodically after `start`, the first time after one interval.

        Parameters:
            name: for the log and for the asyncio task.
            interval_ms: the time between two rounds, in milliseconds; called before each round.
            work: a function or a coroutine function that does one round.
        """
        self._jobs.append((name, interval_ms, work))

    def start(self) -> None:
        """Start all tasks."""
        for name, interval_ms, work in self._jobs:
            self._tasks.append(asyncio.create_task(self._repeat(name, interval_ms, work), name=f"refbroker {name}"))

    async def stop(self) -> None:
        """Cancel all tasks, also in the middle of a round, and wait for the worker threads that run for them."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def settled(self) -> None:
        """Wait until every task that is due has run once or sleeps on the clock within its round."""
        await self._clock.all_asleep([name for name, _, _ in self._jobs])

    async def _repeat(self, name: str, interval_ms: Callable[[], int], work: Work) -> None:
        WORK.set(name)
        while True:
            await self._clock.sleep(interval_ms())
            await self.run_round(name, work)

    async def run_round(self, name: str, work: Work) -> None:
        """Run one round and log its failure."""
        try:
            done = work()
            if done is not None:
                await done
        except KafkaStorageError as error:
            logger.error("%s: %s", name, error)
        except Exception:
            # An unexpected failure of one round must not stop the later ones.
            logger.exception("%s went wrong", name)
