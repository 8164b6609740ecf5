"""What a broker sends to the controller, and when: registrations, then heartbeats.

A controller that does not know the broker's epoch makes it register again, with the same incarnation. Times are
arguments. Elsewhere: the states (`states`), the task that sends (`manager`). Source: Kafka's BrokerLifecycleManager.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    BrokerIdNotRegisteredError,
    KafkaError,
    RequestTimedOutError,
    StaleBrokerEpochError,
    error_from_code,
)
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from refbroker.lifecycle.registration import LASTING_REFUSALS, NO_EPOCH, Registration, refusal
from refbroker.lifecycle.states import STATES, BrokerEvent, BrokerState

logger = logging.getLogger(__name__)

CATCHING_UP_MS = 10
"""The interval of heartbeats while the broker is starting."""
SOON_MS = 50
"""The time to the second heartbeat of a controlled shutdown, which is often the last."""
_LOST = (StaleBrokerEpochError.code, BrokerIdNotRegisteredError.code)


class Timing(NamedTuple):
    """The intervals of a lifecycle in milliseconds, with the names of the settings.

    Attributes:
        broker_heartbeat_interval_ms: between heartbeats.
        initial_broker_registration_timeout_ms: how long the first registration may take.
    """

    broker_heartbeat_interval_ms: int = 2000
    initial_broker_registration_timeout_ms: int = 60_000


@dataclass(slots=True)
class BrokerReport:
    """What heartbeats report besides the state.

    Attributes:
        metadata_offset: the offset of the last record in the image; -1 without records.
        offline: the ids of failed data directories.
        cordoned: the ids of the cordoned ones; None if the cluster's metadata.version has no such thing.
    """

    metadata_offset: int = -1
    offline: list[UUID] = field(default_factory=list)
    cordoned: list[UUID] | None = None


class Lifecycle:
    """The state of a broker, and what it sends next.

    Parameters:
        registration: what it registers with.
        timing: the intervals.

    Attributes:
        state: the state.
        broker_epoch: the epoch of the registration; -1 before the first one.
        is_registered: whether the controller knows this epoch, as far as this broker knows.
        is_ready: whether the broker may be unfenced.
        next_ms: when to send next, in milliseconds since the epoch.
    """

    def __init__(self, registration: Registration, timing: Timing) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        self.is_registered = False
        self.is_ready = False
        self.next_ms = 0
        self._registration = registration
        self._timing = timing
        self._register_by_ms: int | None = None
        self._has_left_response = False

    def start(self, now_ms: int) -> None:
        """Begin to register."""
        self._change(BrokerEvent.START)
        self._register_by_ms = now_ms + self._timing.initial_broker_registration_timeout_ms
        self.next_ms = now_ms

    def ready(self, now_ms: int) -> None:
        """Note that the broker can serve: it asks to be unfenced at once."""
        self.is_ready = True
        self.next_ms = now_ms

    def leave(self, now_ms: int) -> None:
        """Begin a controlled shutdown; a broker that is not running stops without one."""
        self._change(BrokerEvent.LEAVE)
        self.next_ms = now_ms

    def stop(self) -> None:
        """Send nothing more."""
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._change(BrokerEvent.STOP)

    def request(self, report: BrokerReport) -> BrokerRegistrationRequest | BrokerHeartbeatRequest:
        """Return what to send now."""
        if not self.is_registered:
            return self._registration.request()
        is_caught_up = self.state not in (BrokerState.NOT_RUNNING, BrokerState.STARTING)
        return BrokerHeartbeatRequest(
            broker_id=self._registration.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=report.metadata_offset,
            want_fence=not self.is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=report.offline,
            cordoned_log_dirs=report.cordoned if is_caught_up else None,
        )

    def on_failure(self, now_ms: int, reason: KafkaError | None = None) -> None:
        """Note that a request got no response.

        Parameters:
            reason: why.

        Raises:
            RequestTimedOutError: the broker has never been registered, and the time for that has passed.
        """
        self._check_registered_in_time(now_ms, reason)
        self.next_ms = now_ms + self._timing.broker_heartbeat_interval_ms

    def on_response(self, response: BrokerRegistrationResponse | BrokerHeartbeatResponse, now_ms: int) -> None:
        """Carry out what a response says.

        Raises:
            InconsistentClusterIdError, UnsupportedVersionError, InvalidRegistrationError: the controller refuses the
                first registration for a reason that does not pass.
            RequestTimedOutError: the broker has never been registered, and the time for that has passed.
        """
        if isinstance(response, BrokerRegistrationResponse):
            self._on_registration(response, now_ms)
        else:
            self._on_heartbeat(response, now_ms)

    def _on_registration(self, response: BrokerRegistrationResponse, now_ms: int) -> None:
        node = self._registration.node_id
        if response.error_code:
            error = refusal(response.error_code, self._registration)
            if isinstance(error, LASTING_REFUSALS) and self._register_by_ms is not None:
                raise error
            logger.warning("broker %d could not register: %s", node, error)
            self.on_failure(now_ms, error)
            return
        self.broker_epoch, self.is_registered, self._register_by_ms = response.broker_epoch, True, None
        self.next_ms = now_ms
        logger.info("broker %d is registered with the epoch %d", node, self.broker_epoch)

    def _on_heartbeat(self, response: BrokerHeartbeatResponse, now_ms: int) -> None:
        interval = self._timing.broker_heartbeat_interval_ms
        self.next_ms = now_ms + interval
        if response.error_code:
            logger.warning("a heartbeat was refused: %s", error_from_code(response.error_code))
            if response.error_code in _LOST:
                self.is_registered = False
            return
        if self.state is BrokerState.STARTING:
            if response.is_caught_up:
                self._change(BrokerEvent.CAUGHT_UP)
            # While there is nothing to recover, this makes the start quicker.
            self.next_ms = now_ms + CATCHING_UP_MS
        elif self.state is BrokerState.RECOVERY:
            if not response.is_fenced:
                self._change(BrokerEvent.UNFENCED)
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._change(BrokerEvent.STOP)
            elif not self._has_left_response:
                self.next_ms = now_ms + min(SOON_MS, interval)
            self._has_left_response = True

    def _check_registered_in_time(self, now_ms: int, reason: KafkaError | None) -> None:
        if self._register_by_ms is not None and now_ms >= self._register_by_ms:
            why = "" if reason is None else f": {reason.message}"
            raise RequestTimedOutError(
                f"broker {self._registration.node_id} could not register within "
                f"{self._timing.initial_broker_registration_timeout_ms} ms{why}; check that a majority of the "
                f"controllers runs, and controller.quorum.voters or controller.quorum.bootstrap.servers",
                broker=None if reason is None else reason.broker,
            )

    def _change(self, event: BrokerEvent) -> None:
        before, self.state = self.state, STATES.next_state(self.state, event, str(self._registration.node_id))
        logger.info("broker %d: %s -> %s", self._registration.node_id, before.name, self.state.name)
