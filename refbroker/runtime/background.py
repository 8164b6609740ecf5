"""What a broker does at intervals beside answering requests: flushes, checkpoints, retention, expiry.

Intervals are by the broker's clock, so that a test which moves it sees the work done. What goes wrong in a round is
logged, and the next round comes all the same.
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
    """The repeated work of one broker. Belongs to its event loop.

    Parameters:
        clock: the broker's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[tuple[str, Callable[[], int], Work]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def every(self, name: str, interval_ms: Callable[[], int], work: Work) -> None:
        """Do something again and again once `start` is called, the first time after one interval.

        Parameters:
            name: for the log and for the task.
            interval_ms: the time between two rounds, in milliseconds; asked before each.
            work: what to do, in one go or as a coroutine function.
        """
        self._jobs.append((name, interval_ms, work))

    def start(self) -> None:
        """Begin."""
        for name, interval_ms, work in self._jobs:
            self._tasks.append(asyncio.create_task(self._repeat(name, interval_ms, work), name=f"refbroker {name}"))

    async def stop(self) -> None:
        """End everything, in the middle of a round too; a worker thread that runs for it is waited for."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def settled(self) -> None:
        """Wait until all that is due has been done once, or waits for the clock in the middle of its round."""
        await self._clock.all_asleep([name for name, _, _ in self._jobs])

    async def _repeat(self, name: str, interval_ms: Callable[[], int], work: Work) -> None:
        WORK.set(name)
        while True:
            await self._clock.sleep(interval_ms())
            await self.run_round(name, work)

    async def run_round(self, name: str, work: Work) -> None:
        """One round of some work; what goes wrong is logged."""
        try:
            done = work()
            if done is not None:
                await done
        except KafkaStorageError as error:
            logger.error("%s: %s", name, error)
        except Exception:
            # One round that fails for a reason nobody has foreseen must not end all that would come after it.
            logger.exception("%s went wrong", name)
