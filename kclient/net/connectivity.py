"""Whether a client reaches any broker: the state, and the event when it changes.

No broker is reachable when nothing is connected and the last attempt to connect to each server of the current list
failed: the brokers of the metadata, then, if the client rebootstraps, the bootstrap servers. A connection that either
side closed because it was idle is not a failed attempt.

Elsewhere: connecting (`link`), which servers there are (`nodes`), the snapshot for the application (`kclient.types`).
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping

from kclient.config import ClientConfig, ConnectivityCallback
from kclient.errors import KafkaError
from kclient.metrics import Metrics
from kclient.state_machine import StateTable
from kclient.types import Connectivity, ConnectivityState

_log = logging.getLogger(__name__)


class ConnectivityEvent(enum.Enum):
    """The events that change whether a client reaches any broker."""

    CONNECTED = "a broker is connected"
    ALL_FAILED = "all attempts failed"


_FOLLOWING = {
    ConnectivityEvent.CONNECTED: ConnectivityState.REACHABLE,
    ConnectivityEvent.ALL_FAILED: ConnectivityState.UNREACHABLE,
}

STATES = StateTable("client", dict.fromkeys(ConnectivityState, _FOLLOWING))


class ConnectivityMonitor:
    """The connectivity state of one client; changed on the network thread, read by any thread.

    Parameters:
        config: the client's options.
        metrics: has a gauge of the state.
        clock: seconds.
        run_soon: runs `on_connectivity_change` where the application expects callbacks.
    """

    def __init__(
        self,
        config: ClientConfig,
        metrics: Metrics,
        clock: Callable[[], float],
        run_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._label = config.label
        self._callback = config.on_connectivity_change
        self._clock = clock
        self._run_soon = run_soon
        # One tuple, so that a reader on another thread gets a state with its own time.
        self._entered = (ConnectivityState.CONNECTING, clock())
        metrics.gauge("no_broker_reachable", lambda: int(self.is_unreachable))

    @property
    def is_unreachable(self) -> bool:
        """Whether no broker is reachable. Any thread."""
        return self._entered[0] is ConnectivityState.UNREACHABLE

    def snapshot(self, errors: Mapping[str, KafkaError]) -> Connectivity:
        """Return the state with these errors. Any thread."""
        state, since = self._entered
        return Connectivity(state, max(0.0, self._clock() - since), errors)

    def connected(self, broker: str, errors: Callable[[], Mapping[str, KafkaError]]) -> None:
        """Note that a connection was set up.

        Parameters:
            broker: its name in the log.
            errors: returns those of the other servers.
        """
        before, duration = self._change(ConnectivityEvent.CONNECTED)
        if before is ConnectivityState.UNREACHABLE:
            _log.warning("%s: a broker is reachable again, after %.3g s: %s", self._label, duration, broker)
            self._notify(errors())

    def all_failed(self, errors: Callable[[], Mapping[str, KafkaError]]) -> None:
        """Note that nothing is connected and that the last attempts failed."""
        before, _ = self._change(ConnectivityEvent.ALL_FAILED)
        if before is not ConnectivityState.UNREACHABLE:
            found = errors()
            causes = "; ".join(f"{server}: {error.message}" for server, error in found.items())
            _log.warning("%s: no broker is reachable; the client keeps trying (%s)", self._label, causes)
            self._notify(found)

    def _change(self, event: ConnectivityEvent) -> tuple[ConnectivityState, float]:
        """Enter the next state; return the previous one and its duration in seconds."""
        before, since = self._entered
        state = STATES.next_state(before, event)
        now = self._clock()
        if state is not before:
            self._entered = (state, now)
        return before, now - since

    def _notify(self, errors: Mapping[str, KafkaError]) -> None:
        callback = self._callback
        if callback is not None:
            change = self.snapshot(errors)
            self._run_soon(lambda: _call(callback, change))


def _call(callback: ConnectivityCallback, change: Connectivity) -> None:
    try:
        callback(change)
    except Exception:  # noqa: BLE001 - user code
        _log.exception("on_connectivity_change failed")
