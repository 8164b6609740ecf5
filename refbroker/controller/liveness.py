"""Which brokers are alive: their sessions, what they have read of the metadata, and whether they may shut down.

The controller sees a broker in one of these states, which a heartbeat may change (KIP-631):

FENCED                it does not lead, and is in no in-sync set: it has not caught up, or its session has expired
UNFENCED              it may lead
CONTROLLED_SHUTDOWN   it wants to shut down, and its leaderships are moved to other brokers
SHUTDOWN_NOW          it may shut down; the broker is fenced, so that its next heartbeat finds it FENCED

A broker in its own states STARTING and RECOVERY is FENCED here, in RUNNING UNFENCED, and in PENDING_CONTROLLED_SHUTDOWN
in CONTROLLED_SHUTDOWN until it may enter SHUTTING_DOWN. It waits there until it leads nothing, and until each active
broker has read the metadata in which the leaders were moved.

This state is not in the metadata log. It follows the records (`follow`), and begins with each active controller
(`load`), which gives each unfenced broker a whole session. Source: Kafka's `BrokerHeartbeatManager` and
`BrokerHeartbeatTracker`.

Elsewhere: the records that a heartbeat or an expired session causes (`heartbeats`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from kclient.protocol import Message
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.records.metadata_log import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kclient.state_machine import StateTable
from refbroker.metadata.image import ClusterImage

NO_OFFSET = -1
_CHECKS_PER_SESSION = 8


class BrokerState(enum.Enum):
    """A broker as the controller sees it."""

    FENCED = enum.auto()
    UNFENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    SHUTDOWN_NOW = enum.auto()

    @property
    def is_fenced(self) -> bool:
        """Whether the broker does not lead."""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


class HeartbeatEvent(enum.Enum):
    """What a heartbeat means in the state of its broker."""

    STAY = "nothing changes"
    UNFENCE = "caught up, wants to be unfenced"
    FENCE = "wants to be fenced"
    MOVE_LEADERS = "wants to shut down, leads partitions"
    SHUT_DOWN = "wants to shut down, nothing holds it up"


_S, _E = BrokerState, HeartbeatEvent

STATES = StateTable(
    "broker",
    {
        _S.FENCED: {
            _E.STAY: _S.FENCED,
            _E.UNFENCE: _S.UNFENCED,
            _E.SHUT_DOWN: _S.SHUTDOWN_NOW,
        },
        _S.UNFENCED: {
            _E.STAY: _S.UNFENCED,
            _E.FENCE: _S.FENCED,
            _E.MOVE_LEADERS: _S.CONTROLLED_SHUTDOWN,
            _E.SHUT_DOWN: _S.SHUTDOWN_NOW,
        },
        _S.CONTROLLED_SHUTDOWN: {
            _E.STAY: _S.CONTROLLED_SHUTDOWN,
            _E.SHUT_DOWN: _S.SHUTDOWN_NOW,
        },
        _S.SHUTDOWN_NOW: {},
    },
)
"""What follows a heartbeat. SHUTDOWN_NOW is only an answer: the broker is then fenced."""


@dataclass(slots=True)
class BrokerLiveness:
    """What the controller knows of a registered broker besides its registration.

    Attributes:
        fenced: whether it is fenced.
        registration_offset: the offset of its registration, which it must have read before it is unfenced; no lower
            than the true one.
        metadata_offset: the last offset that it has applied.
        shutdown_offset: the offset that other brokers must have applied before it may shut down; -1 if it does not
            want to.
    """

    fenced: bool
    registration_offset: int
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET

    @property
    def is_active(self) -> bool:
        """Whether it is unfenced and not shutting down."""
        return not self.fenced and self.shutdown_offset < 0

    @property
    def state(self) -> BrokerState:
        """The state between two heartbeats."""
        if self.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.fenced else BrokerState.UNFENCED

    def touch(self, *, fenced: bool, metadata_offset: int) -> None:
        """Note the outcome of a heartbeat; a fenced broker is no longer in controlled shutdown."""
        self.fenced, self.metadata_offset = fenced, metadata_offset
        if fenced:
            self.shutdown_offset = NO_OFFSET


class Liveness:
    """The sessions and offsets of all brokers.

    Parameters:
        image: the state of the cluster.
        session_timeout_ms: `broker.session.timeout.ms`.
        now_ms: the present, of a clock that does not go back.
        local: the broker in the same process, if there is one. Its session does not end, because it lives as long as
            this controller, and no other broker waits for it, because it has read all that is committed.

    Attributes:
        brokers: by id.
    """

    def __init__(self, image: ClusterImage, session_timeout_ms: int, now_ms: int, local: int | None = None) -> None:
        self._image = image
        self._timeout_ms = session_timeout_ms
        self._local = local
        self._contacts: dict[tuple[int, int], int] = {}
        self.brokers: dict[int, BrokerLiveness] = {}
        self.load(now_ms)

    @property
    def check_interval_ms(self) -> int:
        """How often to look for expired sessions, in milliseconds."""
        return max(self._timeout_ms // _CHECKS_PER_SESSION, 1)

    def load(self, now_ms: int) -> None:
        """Begin with the brokers of the image."""
        offset = self._image.next_offset - 1
        self.brokers = {node: BrokerLiveness(one.fenced, offset) for node, one in self._image.brokers.items()}
        self._contacts = {
            (node, one.broker_epoch): now_ms
            for node, one in self._image.brokers.items()
            if not one.fenced and node != self._local
        }

    def follow(self, records: Iterable[Message]) -> None:
        """Apply a change.

        Parameters:
            records: the records, which the image has replayed.
        """
        for record in records:
            if isinstance(record, RegisterBrokerRecord):
                # The registration is the last record of its change, so the end of the log is close enough.
                self.brokers[record.broker_id] = BrokerLiveness(record.fenced, self._image.next_offset - 1)
            elif isinstance(record, UnregisterBrokerRecord):
                self.brokers.pop(record.broker_id, None)
            elif isinstance(record, BrokerRegistrationChangeRecord):
                self._follow_change(record.broker_id)
            elif isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
                self._follow_change(record.id)

    def _follow_change(self, broker: int) -> None:
        found, registered = self.brokers.get(broker), self._image.brokers.get(broker)
        if found is None or registered is None:
            return
        # As in Kafka, a change that does not fence or unfence forgets the offset until the next heartbeat.
        offset = found.metadata_offset if found.fenced != registered.fenced else NO_OFFSET
        found.touch(fenced=registered.fenced, metadata_offset=offset)

    # Sessions

    def contact(self, broker: int, epoch: int, now_ms: int) -> None:
        """Extend the session of a broker."""
        if broker != self._local:
            self._contacts[broker, epoch] = now_ms

    def has_session(self, broker: int, epoch: int, now_ms: int) -> bool:
        """Return whether a broker has a session that has not expired, or is in the same process."""
        if broker == self._local:
            return True
        contact = self._contacts.get((broker, epoch))
        return contact is not None and not self._is_expired(contact, now_ms)

    def expired(self, now_ms: int) -> int | None:
        """End one expired session, and return its broker, which must be fenced; None after the last one.

        Sessions of earlier incarnations, and of brokers that have left, end without a consequence.
        """
        for (broker, epoch), contact in list(self._contacts.items()):
            if self._is_expired(contact, now_ms):
                del self._contacts[broker, epoch]
                registered = self._image.brokers.get(broker)
                if registered is not None and registered.broker_epoch == epoch:
                    return broker
        return None

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._timeout_ms < now_ms

    # Heartbeats

    def next_state(self, request: BrokerHeartbeatRequest, *, leads: bool) -> BrokerState:
        """Return the state that follows a heartbeat.

        Parameters:
            request: the heartbeat of a registered broker.
            leads: whether the broker leads any partition.
        """
        broker = self.brokers[request.broker_id]
        return STATES.next_state(broker.state, self._event(broker, request, leads=leads), str(request.broker_id))

    def _event(self, broker: BrokerLiveness, request: BrokerHeartbeatRequest, *, leads: bool) -> HeartbeatEvent:
        state = broker.state
        if state is BrokerState.FENCED:
            if request.want_shut_down:
                return HeartbeatEvent.SHUT_DOWN
            caught_up = request.current_metadata_offset >= broker.registration_offset
            return HeartbeatEvent.UNFENCE if caught_up and not request.want_fence else HeartbeatEvent.STAY
        if state is BrokerState.UNFENCED:
            if request.want_shut_down:
                return HeartbeatEvent.MOVE_LEADERS if leads and not request.want_fence else HeartbeatEvent.SHUT_DOWN
            return HeartbeatEvent.FENCE if request.want_fence else HeartbeatEvent.STAY
        if leads or broker.shutdown_offset > self._lowest_active_offset():
            return HeartbeatEvent.STAY
        return HeartbeatEvent.SHUT_DOWN

    def _lowest_active_offset(self) -> float:
        offsets = (one.metadata_offset for node, one in self.brokers.items() if one.is_active and node != self._local)
        return min(offsets, default=float("inf"))

    def begin_shutdown(self, broker: int, offset: int) -> None:
        """Note that a broker is in controlled shutdown, unless that is known.

        Parameters:
            offset: of the last record that moves its leaderships.
        """
        found = self.brokers[broker]
        if found.shutdown_offset < 0:
            found.shutdown_offset = offset
