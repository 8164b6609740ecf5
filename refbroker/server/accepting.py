"""Accepts the connections of one listener as fast, and as many, as the limits allow.

As in Kafka, a connection that has to wait for a limit of the broker or of its listener holds up the later ones: the
listener pauses, so that they wait in the system's queue. An address that is over its own limit does not hold up
others; its connection is refused.

Elsewhere: the limits (`connection_limits`), the connections that are admitted (`server`). Source: KIP-402,
KIP-612, Kafka's Acceptor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from refbroker.runtime.clock import Clock
from refbroker.runtime.limited_log import LimitedLog
from refbroker.server.connection_limits import ConnectionLimits
from refbroker.server.listening import Accepted, Listener


class Acceptor:
    """The connections of one listener until they are admitted.

    Parameters:
        name: the listener.
        listener: its port.
        limits: how fast and how many connections are admitted.
        clock: measures how long connections wait.
        log: logs that connections wait.
        admit: admits or refuses a connection that need not wait.
    """

    def __init__(
        self,
        name: str,
        listener: Listener,
        limits: ConnectionLimits,
        clock: Clock,
        log: LimitedLog,
        admit: Callable[[str, Accepted], None],
    ) -> None:
        self._name = name
        self._listener = listener
        self._limits = limits
        self._clock = clock
        self._log = log
        self._admit = admit
        self._held: Accepted | None = None
        self._throttled: asyncio.Future[None] | None = None

    def start(self, backlog: int) -> None:
        """Accept connections.

        Raises:
            OSError: the port cannot be listened on.
        """
        self._listener.start(self._accepted, backlog)

    def proceed(self) -> bool:
        """Admit the connection that waits, if the limits allow it now; return whether there was one."""
        if self._held is None or self._throttled is not None or self._limits.obstacle(self._name) is not None:
            return False
        held, self._held = self._held, None
        self._listener.resume()
        self._admit(self._name, held)
        return True

    async def stop(self) -> None:
        """Accept no more connections; those that are admitted have reached their protocols when this returns."""
        self._drop()
        await self._listener.stop_accepting()

    def close(self) -> None:
        """Release the port."""
        self._drop()
        self._listener.close()

    def _accepted(self, connection: Accepted) -> None:
        wait_ms = self._limits.throttle_ms(self._name)
        obstacle = "connections are opened too fast" if wait_ms else self._limits.obstacle(self._name)
        if obstacle is None:
            self._admit(self._name, connection)
            return
        self._log.warning(connection.peer, "the connection of %s and later ones wait: %s", obstacle)
        self._held = connection
        self._listener.pause()
        if wait_ms:
            self._throttled = self._clock.wake_after(wait_ms)
            self._throttled.add_done_callback(self._released)

    def _released(self, _: asyncio.Future[None]) -> None:
        self._throttled = None
        self.proceed()

    def _drop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        if self._throttled is not None:
            self._throttled.cancel()
