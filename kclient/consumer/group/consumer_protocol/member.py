"""The member of a group that speaks the consumer protocol (KIP-848): ConsumerGroupHeartbeat, and the timers around it.

It runs on the network thread only, so that the application never delays a heartbeat. The coordinator assigns the
partitions: a heartbeat response contains the member's *target* assignment, and the member's heartbeats contain the
partitions that it owns. The application moves from one to the other (`reconciliation`): it receives events, and calls
`reconciled` when it has finished. There is no generation for the whole group: each member has its own epoch, which
grows while its partitions stay the same, so a commit uses the epoch at the time of sending.

The coordinator sets the interval of heartbeats and the session timeout. If the application has asked for no records for
`max_poll_interval_ms`, the member leaves, so that others get its partitions.

Elsewhere: the meaning of error codes (`outcomes`), and the states (`states`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from uuid import UUID

from kclient.consumer.group import outcomes
from kclient.consumer.group.abstract_member import AbstractMember, MemberContext
from kclient.consumer.group.consumer_protocol.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    REGEX_FROM,
    STATIC_LEAVE_EPOCH,
    HeartbeatFields,
    OwnedPartitions,
    Partitions,
    SubscriptionSpec,
)
from kclient.consumer.group.consumer_protocol.states import HEARTBEATS, IN_GROUP, STATES, ConsumerEvent, ConsumerState
from kclient.consumer.group.events import Failed, Rejoin, Target
from kclient.consumer.group.generation import Generation
from kclient.consumer.group.outcomes import Outcome
from kclient.errors import (
    GroupIdNotFoundError,
    KafkaError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    error_from_code,
)
from kclient.net.manager import IDLE, NEVER, Poll, Request
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_log = logging.getLogger(__name__)

_FIRST_INTERVAL = 5.0
"""Seconds between heartbeats until the coordinator sets the interval."""
_API = "ConsumerGroupHeartbeat"
_TOO_OLD = (
    "the brokers do not support the consumer group protocol: it needs Apache Kafka 4.0 (or 3.7 with it enabled) and "
    "the "
    'feature group.version 1; use group_protocol="classic"'
)
_NO_PATTERNS = (
    "the brokers do not support patterns: a SubscriptionPattern needs Apache Kafka 4.0; subscribe to names, or to "
    "re.compile(...), which the client matches"
)


class ConsumerMember(AbstractMember[ConsumerState, ConsumerEvent]):
    """The membership of one consumer; for parameters and attributes see `AbstractMember`.

    It chooses its member id itself, and keeps it.
    """

    table = STATES
    outside = ConsumerState.UNSUBSCRIBED
    end_of_leaving = ConsumerEvent.LEFT
    arriving = frozenset({ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING})

    def __init__(self, context: MemberContext) -> None:
        super().__init__(context)
        self._member_id = str(UUID(int=context.random.getrandbits(128), version=4))
        self._fields = HeartbeatFields(context.config)
        self._generation = self._at(JOIN_EPOCH)
        self._spec: SubscriptionSpec | None = None
        self._target: OwnedPartitions | None = None
        self._held = NOTHING
        # Targets that the application knows and may have begun to apply.
        self._coming: list[OwnedPartitions] = []
        # Whether the coordinator may know this membership.
        self._asked = False
        self._interval = _FIRST_INTERVAL
        self._next_heartbeat = 0.0
        self._raised: KafkaError | None = None

    # -- any thread

    def generation_now(self) -> Generation | None:
        """Return the generation to commit in, with the member's epoch as `id`; None unless this is a member."""
        generation = self._generation
        return generation if self.state in IN_GROUP and generation.id > JOIN_EPOCH else None

    @property
    def rebalancing(self) -> bool:
        """Whether partitions are being added or revoked."""
        return self.state in (ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING)

    # -- what the application says (network thread)

    def subscribe(self, number: int, spec: SubscriptionSpec, holding: int | None) -> None:
        """Join with this subscription, or change it.

        Parameters:
            number: the number of the application's subscription, which every event repeats.
            spec: the subscription.
            holding: the membership of the application's partitions; None if it has none. If that has ended, the
                application learns so first, and subscribes again.
        """
        self._number = number
        self._coordinator.want()
        if holding is not None and holding != self.membership:
            return
        if spec != self._spec:
            self._spec = spec
            self._next_heartbeat = 0.0
        if self.state in (ConsumerState.FENCED, ConsumerState.STALE):
            self._begin_joining()

    def reconciled(self, membership: int, held: OwnedPartitions, now: float) -> None:
        """Report to the coordinator that the application has applied this target."""
        if membership != self.membership or self.state is not ConsumerState.RECONCILING:
            return
        self._held = held
        self._coming = [one for one in self._coming if one.number >= held.number and one != held]
        self._next_heartbeat = 0.0
        self._rebalanced(now)
        self._change(ConsumerEvent.RECONCILED)

    def retry(self) -> None:
        """Look for the coordinator again, after the application has raised why it is unknown."""
        self._raised = None
        self._coordinator.want()

    def prepare_leaving(self) -> None:
        """Send heartbeats but accept no new target, while the application gives everything up."""
        if self.state in HEARTBEATS and self.state is not ConsumerState.PREPARE_LEAVING:
            self._change(ConsumerEvent.PREPARE_LEAVING)

    def leave(self, future: Future[None], *, tell: bool, reason: str) -> list[Request]:
        """Leave the group.

        Parameters:
            future: completes when the coordinator has responded, or need not or cannot be asked.
            tell: whether the member does not return; the partitions of a static member that does are kept.
            reason: for the log.

        Returns:
            The request to send.
        """
        self._spec = None
        self._leaving.append(future)
        if self.state is ConsumerState.LEAVING:
            return []
        self.prepare_leaving()
        requests = self._last_heartbeat(tell=tell, reason=reason)
        if requests:
            self._change(ConsumerEvent.LEAVE)
        else:
            if self.state is not ConsumerState.UNSUBSCRIBED:
                self._change(ConsumerEvent.LEFT)
            self._left()
        return requests

    def on_refused(self, generation: Generation, error: KafkaError, now: float) -> None:
        """Send a heartbeat soon, because the coordinator refused offsets of this member."""
        known = outcomes.CONSUMER_HEARTBEAT.get(error.code or 0)
        if generation.member_id == self._member_id and known in (Outcome.LOST, Outcome.AGAIN):
            self._next_heartbeat = now

    # -- the manager

    def poll(self, now: float) -> Poll:
        """Return a heartbeat when one is due, or leave if the application makes no progress."""
        if self.state is ConsumerState.UNSUBSCRIBED and self._spec is not None:
            self._begin_joining()
        if self.state not in HEARTBEATS:
            return IDLE
        if self.state is not ConsumerState.PREPARE_LEAVING and self._poll_interval.expired(now):
            return Poll(self._go_stale(), NEVER)
        fatal = self._coordinator.fatal_error
        if fatal is not None:
            if fatal is not self._raised and self.state is not ConsumerState.PREPARE_LEAVING:
                self._raised = fatal
                self._on_event(Failed(self._number, fatal))
            return Poll([], self._slow_at())
        ready = self._coordinator.ready(now)
        due = max(self._next_heartbeat, self._retry_at)
        if ready and not self._beating and now >= due:
            return Poll([self._heartbeat(now)], self._slow_at())
        # The coordinator or a response wakes a member that waits for it.
        waits = not self._beating and now < due
        return Poll([], min(due if waits else NEVER, self._slow_at()))

    def _slow_at(self) -> float:
        """Return when the application will have been silent for too long."""
        leaving = self.state is ConsumerState.PREPARE_LEAVING
        return NEVER if leaving else self._poll_interval.deadline()

    def _heartbeat(self, now: float) -> Request:
        assert self._spec is not None
        self._beating = self._asked = True
        self._next_heartbeat = now + self._interval
        self._heartbeats.add()
        message = self._fields.message(self._member_id, self._generation.id, self._spec, self._held, self._coming)
        if self.state is ConsumerState.ACKNOWLEDGING:
            whole = self._held == self._target
            self._change(ConsumerEvent.ACKNOWLEDGED if whole else ConsumerEvent.PARTLY_ACKNOWLEDGED)
        return self._send(message, lambda response, at: self._answered(now, response, at), self._not_answered)

    def _send(
        self,
        message: ConsumerGroupHeartbeatRequest,
        on_response: Callable[[ConsumerGroupHeartbeatResponse, float], None],
        on_error: Callable[[KafkaError, float], None],
    ) -> Request:
        minimum = REGEX_FROM if message.subscribed_topic_regex is not None else None
        kind = ConsumerGroupHeartbeatRequest
        return self._request(kind, lambda version: message, on_response, on_error, minimum_version=minimum)

    # -- answers

    def _answered(self, sent_at: float, response: ConsumerGroupHeartbeatResponse, now: float) -> None:
        self._beating = False
        self._heartbeat_time.record(1000 * (now - sent_at))
        code = response.error_code
        if code:
            error = error_from_code(code, self._reason(response), api=_API)
            default = Outcome.AGAIN if error.retriable else Outcome.FATAL
            if isinstance(error, GroupIdNotFoundError) and self._generation.id > JOIN_EPOCH:
                # The members are gone with the group. For a joining member it means that the group is of another type.
                default = Outcome.LOST
            self._act(outcomes.CONSUMER_HEARTBEAT.get(code, default), error, now)
            return
        self._coordinator.confirm()
        self._failures = 0
        self._retry_at = 0.0
        if response.heartbeat_interval_ms > 0:
            self._interval = response.heartbeat_interval_ms / 1000
            self._next_heartbeat = min(self._next_heartbeat, sent_at + self._interval)
        if response.member_epoch <= JOIN_EPOCH:
            return
        if response.member_id:
            self._member_id = response.member_id
        self._last = self._generation = self._at(response.member_epoch)
        assignment = response.assignment
        if self.state is ConsumerState.PREPARE_LEAVING:
            return
        if assignment is not None:
            self._assigned(
                {one.topic_id: tuple(sorted(one.partitions)) for one in assignment.topic_partitions if one.partitions},
                now,
            )
        elif self.state is ConsumerState.JOINING:
            self._assigned({}, now)

    def _reason(self, response: ConsumerGroupHeartbeatResponse) -> str | None:
        unsupported = response.error_code == UnsupportedVersionError.code
        return _TOO_OLD if unsupported else response.error_message

    def _assigned(self, partitions: Partitions, now: float) -> None:
        if self._target is not None and self._target.partitions == partitions:
            return
        self._target = OwnedPartitions(1 if self._target is None else self._target.number + 1, partitions)
        self._coming.append(self._target)
        _log.info("%s: epoch %d: target of %d topics", self._group, self._generation.id, len(partitions))
        if self.state is not ConsumerState.RECONCILING:
            self._started = now
            self._change(ConsumerEvent.ASSIGNED)
        self._on_event(Target(self._number, self.membership, self._target.number, partitions))

    def _not_answered(self, error: KafkaError, now: float) -> None:
        self._beating = False
        if isinstance(error, UnsupportedVersionError) and self._spec is not None:
            explained = UnsupportedVersionError(
                _TOO_OLD if self._spec.regex is None else _NO_PATTERNS, api=_API, broker=error.broker
            )
            explained.__cause__ = error
            error = explained
        self._act(Outcome.MOVED if error.retriable else Outcome.FATAL, error, now)

    def _act(self, outcome: Outcome, error: KafkaError, now: float) -> None:
        _log.info("%s: %s: %s", self._group, error, outcome.value)
        self._fields.forget()
        self._failures += 1
        self._retry_at = now + self._backoff.seconds(self._failures)
        if outcome is Outcome.MOVED:
            self._coordinator_lost(error, now)
            # The lookup waits for its backoff.
            self._retry_at = self._next_heartbeat = 0.0
        elif outcome is Outcome.AGAIN:
            self._next_heartbeat = 0.0
        elif outcome is Outcome.RAISE:
            self._failed_rebalances.add()
            self._on_event(Failed(self._number, error))
        elif self.state is ConsumerState.PREPARE_LEAVING:
            # The larger membership number shows the application that this one has ended.
            self._end_life()
            self._change(ConsumerEvent.LOST if outcome is Outcome.LOST else ConsumerEvent.FAILED)
        elif outcome is Outcome.LOST:
            self._fenced(error)
        else:
            self._failed_rebalances.add()
            self._end_life()
            self._change(ConsumerEvent.FAILED)
            self._spec = None
            self._on_event(Rejoin(self._number, "it cannot be a member", lost=True, error=error))

    def _fenced(self, error: KafkaError) -> None:
        joining = self.state is ConsumerState.JOINING
        self._end_life()
        self._change(ConsumerEvent.LOST)
        if joining:
            # The application reads nothing, so it has nothing to lose.
            self._begin_joining()
        else:
            self._on_event(Rejoin(self._number, str(error), lost=True))

    # -- leaving

    def _go_stale(self) -> list[Request]:
        """Leave, because the application did not ask for records for too long."""
        error = self._too_slow()
        requests = self._last_heartbeat(
            tell=self._instance_id is None, reason="the application did not ask for records"
        )
        self._life += 1  # it may join again before the response, and need not wait for it
        self._change(ConsumerEvent.TOO_SLOW)
        self._on_event(Rejoin(self._number, "max_poll_interval_ms was exceeded", lost=True, error=error))
        return requests

    def _last_heartbeat(self, *, tell: bool, reason: str) -> list[Request]:
        """Return the heartbeat that leaves, if the coordinator has to know."""
        known = self.state in HEARTBEATS and self._asked
        self._end_life()
        epoch = LEAVE_EPOCH if tell else STATIC_LEAVE_EPOCH
        if not known or self._coordinator.node is None or (epoch == STATIC_LEAVE_EPOCH and self._instance_id is None):
            return []
        _log.info("%s: leaving as %s: %s", self._group, self._member_id, reason)
        return [self._send(self._fields.leave(self._member_id, epoch), self._leave_answered, self._leave_failed)]

    def _leave_answered(self, response: ConsumerGroupHeartbeatResponse, now: float) -> None:
        # A member that never joined needs no heartbeat to leave.
        if response.error_code not in (0, GroupIdNotFoundError.code, UnknownMemberIdError.code):
            error = error_from_code(response.error_code, response.error_message, api=_API)
            _log.info("%s: leaving failed: %s", self._group, error)
        self._change(ConsumerEvent.LEFT)
        self._left()

    # -- shared

    def _begin_joining(self) -> None:
        self._change(ConsumerEvent.JOIN)
        self._asked = False
        self._next_heartbeat = 0.0
        self._raised = None

    def _end_life(self) -> None:
        """End the membership: the assignment is lost."""
        self._life += 1
        self.membership += 1
        self._generation = self._at(JOIN_EPOCH)
        self._beating = False
        self._target = None
        self._held = NOTHING
        self._coming = []
        self._fields.forget()

    def _at(self, epoch: int) -> Generation:
        return Generation(epoch, self._member_id, self._instance_id, None)
