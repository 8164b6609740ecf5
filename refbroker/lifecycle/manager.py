"""The task that sends a broker's registrations and heartbeats when they are due.

Elsewhere: what is sent, and when (`machine`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from kclient.errors import KafkaError
from refbroker.lifecycle.machine import BrokerReport, Lifecycle
from refbroker.lifecycle.states import BrokerState
from refbroker.peers.controller_client import ControllerClient
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)


class LifecycleManager:
    """Sends registrations and heartbeats when they are due.

    Parameters:
        lifecycle: what to send, and when.
        controller: sends requests to the active controller.
        report: returns what heartbeats report.
        clock: the broker's clock.
        on_fatal: called if the controller refuses the broker permanently.

    Attributes:
        caught_up, unfenced, stopped: complete when the state is reached for the first time; the first two are cancelled
            if the broker stops before.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        controller: ControllerClient,
        report: Callable[[], BrokerReport],
        clock: Clock,
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.lifecycle = lifecycle
        self.caught_up: asyncio.Future[None] = loop.create_future()
        self.unfenced: asyncio.Future[None] = loop.create_future()
        self.stopped: asyncio.Future[None] = loop.create_future()
        self._controller = controller
        self._report = report
        self._clock = clock
        self._on_fatal = on_fatal
        self._is_urgent = False
        self._woken: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration; -1 before the first one."""
        return self.lifecycle.broker_epoch

    def start(self) -> None:
        """Begin to register."""
        self.lifecycle.start(self._clock.elapsed_ms())
        self._task = asyncio.create_task(self._run(), name="refbroker lifecycle")

    def ready(self) -> None:
        """Ask to be unfenced."""
        self.lifecycle.ready(self._clock.elapsed_ms())
        self.wake()

    def leave(self) -> None:
        """Begin a controlled shutdown; `stopped` completes when the controller has moved the leaders elsewhere."""
        self.lifecycle.leave(self._clock.elapsed_ms())
        self.wake()

    def wake(self) -> None:
        """Send at once, as when a directory has failed."""
        self._is_urgent = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def stop(self) -> None:
        """Send nothing more."""
        self.lifecycle.stop()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._complete()

    async def _run(self) -> None:
        lifecycle = self.lifecycle
        while lifecycle.state is not BrokerState.SHUTTING_DOWN:
            wait_ms = lifecycle.next_ms - self._clock.elapsed_ms()
            if wait_ms > 0 and not self._is_urgent:
                self._woken = self._clock.wake_after(wait_ms)
                await self._woken
                continue
            try:
                await self._communicate()
            except KafkaError as error:
                self._on_fatal(error)
                return
            self._complete()

    async def _communicate(self) -> None:
        """Send what is due.

        Raises:
            KafkaError: the controller refuses the broker permanently.
        """
        lifecycle = self.lifecycle
        request = lifecycle.request(self._report())
        self._is_urgent = False
        try:
            response = await self._controller.ask(request)
        except KafkaError as error:
            logger.warning("the controller did not answer: %s", error)
            # Never at once after a failure, whatever happened in the meantime.
            self._is_urgent = False
            lifecycle.on_failure(self._clock.elapsed_ms(), error)
        else:
            lifecycle.on_response(response, self._clock.elapsed_ms())

    def _complete(self) -> None:
        """Complete the futures of the states that are reached."""
        state = self.lifecycle.state
        is_over = state is BrokerState.SHUTTING_DOWN
        reached = {
            self.caught_up: state >= BrokerState.RECOVERY and not is_over,
            self.unfenced: state >= BrokerState.RUNNING and not is_over,
            self.stopped: is_over,
        }
        for future, is_reached in reached.items():
            if not future.done():
                if is_reached:
                    future.set_result(None)
                elif is_over:
                    future.cancel()
