"""The member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the timers around them.

It runs on the network thread only, so that the application never delays a heartbeat. It decides everything about the
coordinator, and nothing about the application's partitions: it sends events to the application (`events`), and the
application calls `join` and `sync` when it has done its part (`rebalance`). `outcomes` has the meaning of error codes.

There are three timers. A heartbeat is sent every `heartbeat_interval_ms` after joining, except while a JoinGroup or
SyncGroup is in flight, which the coordinator counts as heartbeats. If there was no response for `session_timeout_ms`,
the coordinator is looked up again. If the application has asked for no records for `max_poll_interval_ms`, the member
leaves, so that others get its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from kclient.consumer.group import outcomes
from kclient.consumer.group.abstract_member import AbstractMember, MemberContext
from kclient.consumer.group.classic.protocol import PROTOCOL_TYPE
from kclient.consumer.group.classic.requests import MemberRequests
from kclient.consumer.group.classic.states import STATES, MemberEvent, MemberState
from kclient.consumer.group.events import Assigned, Failed, JoinData, JoinedMember, Lead, Rejoin
from kclient.consumer.group.generation import NO_GENERATION, UNKNOWN_MEMBER_ID, Generation
from kclient.consumer.group.outcomes import Outcome
from kclient.errors import InconsistentGroupProtocolError, KafkaError, KafkaTimeoutError, error_from_code
from kclient.net.manager import IDLE, NEVER, Poll, Request
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_log = logging.getLogger(__name__)

_JOIN_LAPSE = 5.0
"""Seconds that the response to JoinGroup may take beyond the rebalance timeout."""
_REFUSED_SYNCS = 3
"""This many failures in a row are raised: joining again does not help."""
_STATIC_FROM = 5
"""The first version of JoinGroup with static members."""

_BEATING = (MemberState.COMPLETING, MemberState.STABLE)


class GroupMember(AbstractMember[MemberState, MemberEvent]):
    """The membership of one consumer; for parameters and attributes see `AbstractMember`."""

    table = STATES
    outside = MemberState.UNJOINED
    end_of_leaving = MemberEvent.LEFT
    arriving = frozenset({MemberState.PREPARING, MemberState.COMPLETING})

    def __init__(self, context: MemberContext) -> None:
        super().__init__(context)
        config, metrics = context.config, context.metrics
        self._session = config.session_timeout_ms / 1000
        self._interval = config.heartbeat_interval_ms / 1000
        self._request_timeout = config.request_timeout_ms / 1000
        self._requests = MemberRequests(config)
        self._generation = Generation(NO_GENERATION, UNKNOWN_MEMBER_ID, self._instance_id, None)
        self._join: JoinData | None = None
        self._sync: Mapping[str, bytes] | None = None
        # Whether JoinGroup or SyncGroup is in flight.
        self._asking = False
        # In a row; a successful JoinGroup does not reset it, because one precedes each: only an assignment or a raised
        # error does.
        self._refused_syncs = 0
        self._next_heartbeat = NEVER
        self._session_ends = NEVER
        self._rejoin_told = False
        self._fenced_by: KafkaError | None = None
        self._join_time = metrics.histogram("join_time")
        self._sync_time = metrics.histogram("sync_time")

    # -- any thread

    def generation_now(self) -> Generation | None:
        """Return the generation to commit in; None unless this member has an assignment in the current generation."""
        generation = self._generation
        return generation if self.state is MemberState.STABLE else None

    def leads(self, generation: Generation) -> bool:
        """Return whether the group waits for this member's assignment in that generation."""
        return self.state is MemberState.COMPLETING and self._generation == generation

    @property
    def rebalancing(self) -> bool:
        """Whether this member is joining: commits have to wait."""
        return self.joining

    # -- what the application says (network thread)

    def join(self, data: JoinData) -> None:
        """Join, or join again, with this data."""
        self._number = data.number
        if self.state is MemberState.FENCED:
            # The application joined before it saw the event, which belongs to an earlier join and is obsolete.
            self._on_event(Rejoin(data.number, "fenced", lost=True, error=self._fenced_by))
            return
        self._rejoin_told = False
        self._coordinator.want()
        if data.holding is not None and data.holding != self.membership:
            self._on_event(Rejoin(data.number, "the member was removed in the meantime", lost=True))
            return
        self._join = data
        if self.state in _BEATING:
            self._begin_joining()

    def sync(self, generation: Generation, assignments: Mapping[str, bytes]) -> None:
        """Send the leader's assignments: by member id, as bytes."""
        if generation == self._generation and self.state is MemberState.COMPLETING and not self._asking:
            self._sync = assignments

    def give_up(self, generation: Generation) -> None:
        """Rejoin when the application says so, because it could not compute the assignment."""
        if generation == self._generation and self.state is MemberState.COMPLETING:
            self._join = None
            self._end_life(MemberEvent.LOST)

    def leave(self, future: Future[None], *, tell: bool, reason: str) -> list[Request]:
        """Leave the group.

        Parameters:
            future: completes when the coordinator has responded, or need not or cannot be asked.
            tell: whether to tell the coordinator; a static member that returns soon does not.
            reason: for the coordinator's log.

        Returns:
            The request to send.
        """
        self._join = None
        self._leaving.append(future)
        if self.state is MemberState.LEAVING:
            return []
        return self._leave(tell, reason)

    def on_refused(self, generation: Generation, error: KafkaError, now: float) -> None:
        """Handle refused offsets of this member, which say as much about membership as a heartbeat response."""
        if generation != self._generation or self.state is not MemberState.STABLE or error.code is None:
            return
        outcome = outcomes.HEARTBEAT.get(error.code, Outcome.RAISE)
        if outcome is Outcome.REBALANCE:
            self._want_rejoin("the group is rebalancing")
        elif outcome in (Outcome.LOST, Outcome.LATE, Outcome.FENCED):
            self._act(outcome, error, now)

    # -- the manager

    def poll(self, now: float) -> Poll:
        """Return the requests that are due: joining, assigning, a heartbeat, or leaving without progress."""
        if self._number == 0 or self.state in (MemberState.FENCED, MemberState.LEAVING):
            return IDLE
        if self.state is MemberState.UNJOINED and self._join is not None:
            self._begin_joining()
        if self.state is MemberState.UNJOINED:
            return IDLE
        if self._coordinator.fatal_error is not None:
            self._fail(self._coordinator.fatal_error)
            return IDLE
        expired = self._poll_interval_expired(now)
        if expired is not None:
            return Poll(expired, NEVER)
        if self.state in _BEATING and now >= self._session_ends:
            self._session_over(now)
        ready = self._coordinator.ready(now)
        return Poll(self._due(now) if ready else [], self._deadline(now))

    def _due(self, now: float) -> list[Request]:
        if self.state is MemberState.PREPARING:
            return [self._join_request(now)] if not self._asking and now >= self._retry_at else []
        if self._sync is not None and not self._asking:
            return [self._sync_request(now)]
        if not self._asking and not self._beating and now >= self._next_heartbeat:
            return [self._heartbeat_request(now)]
        return []

    def _deadline(self, now: float) -> float:
        if self.state is MemberState.PREPARING:
            return NEVER if self._asking or now >= self._retry_at else self._retry_at
        deadline = self._session_ends
        if not self._asking and not self._beating and now < self._next_heartbeat:
            deadline = min(deadline, self._next_heartbeat)
        return min(deadline, self._poll_interval.deadline())

    # -- joining

    def _begin_joining(self) -> None:
        self._end_life(MemberEvent.JOIN)
        self._retry_at = 0.0
        self._failures = 0

    def _join_request(self, now: float) -> Request:
        assert self._join is not None
        self._asking = True
        if not self._failures:
            self._started = now
        _log.info("%s: joining: %s", self._group, self._join.reason)
        return self._request(
            JoinGroupRequest,
            lambda version, data=self._join: self._requests.join(data, self._generation.member_id),  # type: ignore[misc]
            partial(self._joined, now),
            self._join_failed,
            timeout=max(self._request_timeout, self._poll_interval.milliseconds / 1000 + _JOIN_LAPSE),
            minimum_version=None if self._instance_id is None else _STATIC_FROM,
        )

    def _joined(self, sent_at: float, response: JoinGroupResponse, now: float) -> None:
        self._asking = False
        outcome = outcomes.JOIN.get(response.error_code, Outcome.RAISE)
        if response.error_code:
            if outcome is Outcome.TAKE_ID:
                self._generation = self._generation._replace(id=NO_GENERATION, member_id=response.member_id)
                self._retry_at = 0.0
                return
            self._act(outcome, error_from_code(response.error_code, api="JoinGroup"), now)
            return
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            text = f"the group {self._group!r} is one of {response.protocol_type!r}, not of consumers"
            self._fail(InconsistentGroupProtocolError(text, api="JoinGroup"))
            return
        self._confirm(now)
        self._join_time.record(1000 * (now - sent_at))
        self._generation = Generation(
            response.generation_id, response.member_id, self._instance_id, response.protocol_name
        )
        self._change(MemberEvent.JOINED)
        _log.info("%s: joined generation %d as %s", self._group, response.generation_id, response.member_id)
        if response.leader != response.member_id:
            self._sync = {}
            return
        members = [JoinedMember(m.member_id, m.group_instance_id, bytes(m.metadata)) for m in response.members]
        self._on_event(Lead(self._number, self._generation, members, response.skip_assignment))

    def _join_failed(self, error: KafkaError, now: float) -> None:
        self._asking = False
        self._not_answered(error, now)

    # -- the assignment

    def _sync_request(self, now: float) -> Request:
        assert self._sync is not None
        assignments, self._sync = self._sync, None
        self._asking = True
        message = self._requests.sync(self._generation, assignments)
        return self._request(SyncGroupRequest, lambda version: message, partial(self._synced, now), self._join_failed)

    def _synced(self, sent_at: float, response: SyncGroupResponse, now: float) -> None:
        self._asking = False
        if response.error_code:
            outcome = outcomes.SYNC.get(response.error_code, Outcome.RAISE)
            self._act(outcome, error_from_code(response.error_code, api="SyncGroup"), now)
            return
        generation = self._generation
        if response.protocol_name not in (None, generation.protocol):
            text = f"the group uses {response.protocol_name!r}, and this member joined for {generation.protocol!r}"
            self._fail(InconsistentGroupProtocolError(text, api="SyncGroup"))
            return
        self._confirm(now)
        self._sync_time.record(1000 * (now - sent_at))
        self._rebalanced(now)
        self._refused_syncs = 0
        self._change(MemberEvent.ASSIGNED)
        self._last = generation
        self._join = None
        self._on_event(Assigned(self._number, self.membership, generation, bytes(response.assignment)))

    # -- heartbeats

    def _heartbeat_request(self, now: float) -> Request:
        self._beating = True
        self._next_heartbeat = now + self._interval
        self._heartbeats.add()
        message = self._requests.heartbeat(self._generation)
        return self._request(
            HeartbeatRequest,
            lambda version: message,
            partial(self._beat, self._generation, now),
            partial(self._heartbeat_failed, self._generation),
            timeout=min(self._request_timeout, self._session),
        )

    def _beat(self, generation: Generation, sent_at: float, response: HeartbeatResponse, now: float) -> None:
        self._beating = False
        if generation != self._generation or self.state not in _BEATING:
            return
        self._heartbeat_time.record(1000 * (now - sent_at))
        outcome = outcomes.HEARTBEAT.get(response.error_code, Outcome.RAISE)
        if not response.error_code:
            self._confirm(now, sent_at)
        elif outcome is Outcome.REBALANCE:
            self._confirm(now, sent_at)
            # While it completes a rebalance, the response to SyncGroup reports the next one.
            if self.state is MemberState.STABLE:
                self._want_rejoin("the group is rebalancing")
        else:
            self._act(outcome, error_from_code(response.error_code, api="Heartbeat"), now)

    def _heartbeat_failed(self, generation: Generation, error: KafkaError, now: float) -> None:
        self._beating = False
        if generation == self._generation and self.state in _BEATING:
            self._not_answered(error, now)

    def _confirm(self, now: float, since: float | None = None) -> None:
        """Note that the coordinator knows this member."""
        self._coordinator.confirm()
        self._failures = 0
        self._session_ends = now + self._session
        self._next_heartbeat = (now if since is None else since) + self._interval

    def _session_over(self, now: float) -> None:
        """Look the coordinator up again after a silent session: only it knows whether this is still a member."""
        self._session_ends = now + self._session
        error = KafkaTimeoutError(f"no heartbeat was answered for {self._session:g} s", api="Heartbeat")
        self._coordinator_lost(error, now)

    # -- the application's progress

    def _poll_interval_expired(self, now: float) -> list[Request] | None:
        """Return the requests to leave, if the application did not ask for records for too long."""
        if self.state not in _BEATING or not self._poll_interval.expired(now):
            return None
        error = self._too_slow()
        self._join = None
        requests = self._leave(self._instance_id is None, "the application did not ask for records for too long")
        self._on_event(Rejoin(self._number, "max_poll_interval_ms was exceeded", lost=True, error=error))
        return requests

    # -- leaving

    def _leave(self, tell: bool, reason: str) -> list[Request]:
        member_id = self._generation.member_id
        joining = self._asking
        node = self._coordinator.broker if joining else self._coordinator.node
        known = self.state is not MemberState.FENCED and bool(member_id) and node is not None
        self._forget_generation(UNKNOWN_MEMBER_ID)
        # A member that gave up joining stays a member for the coordinator until its session ends, and the group waits
        # for it.
        if not tell or not known:
            if self.state is not MemberState.UNJOINED:
                self._end_life(MemberEvent.LEFT)
            self._left()
            return []
        _log.info("%s: leaving as %s: %s", self._group, member_id, reason)
        self._end_life(MemberEvent.LEAVE)
        build = partial(self._requests.leave, member_id, reason)
        # A JoinGroup in flight would delay this on the coordinator's connection for as long as the rebalance.
        return [self._request(LeaveGroupRequest, build, self._leave_answered, self._leave_failed, node=node)]

    def _leave_answered(self, response: LeaveGroupResponse, now: float) -> None:
        code = response.error_code or next((one.error_code for one in response.members if one.error_code), 0)
        if code:
            _log.info("%s: leaving failed: %s", self._group, error_from_code(code, api="LeaveGroup"))
        self._change(MemberEvent.LEFT)
        self._left()

    # -- what follows from errors

    def _not_answered(self, error: KafkaError, now: float) -> None:
        """Handle a lost connection or a timeout: the coordinator may be gone."""
        if error.retriable:
            self._act(Outcome.MOVED, error, now)
        else:
            self._act(Outcome.RAISE, error, now)

    def _act(self, outcome: Outcome, error: KafkaError, now: float) -> None:
        _log.info("%s: %s: %s", self._group, error, outcome.value)
        if outcome is Outcome.MOVED:
            self._coordinator_lost(error, now)
            self._try_again(now)
        elif outcome in (Outcome.AGAIN, Outcome.REBALANCE):
            self._try_again(now, at_once=outcome is Outcome.REBALANCE and not self._failures)
        elif outcome is Outcome.REFUSED:
            self._sync_refused(error, now)
        elif outcome is Outcome.LOST:
            self._lose(UNKNOWN_MEMBER_ID, error, now)
        elif outcome is Outcome.LATE:
            self._lose(self._generation.member_id, error, now)
        elif outcome is Outcome.FENCED:
            self._forget_generation(UNKNOWN_MEMBER_ID)
            self._join = None
            self._end_life(MemberEvent.FENCED)
            self._fenced_by = error
            self._on_event(Rejoin(self._number, "fenced", lost=True, error=error))
        else:
            self._fail(error)

    def _sync_refused(self, error: KafkaError, now: float) -> None:
        self._refused_syncs += 1
        if self._refused_syncs < _REFUSED_SYNCS:
            self._try_again(now)
            return
        # The application knows about it, and its next join is a new attempt.
        self._refused_syncs = 0
        self._fail(error)

    def _try_again(self, now: float, *, at_once: bool = False) -> None:
        """Join again, or send a heartbeat again."""
        self._failures += 1
        wait = 0.0 if at_once else self._backoff.seconds(max(self._failures, self._refused_syncs))
        if self.state is MemberState.STABLE:
            self._next_heartbeat = now + wait
            return
        self._failed_rebalances.add()
        self._retry_at = now + wait
        if self.state is MemberState.COMPLETING:
            self._end_life(MemberEvent.JOIN_AGAIN)

    def _lose(self, member_id: str, error: KafkaError, now: float) -> None:
        joining = self._join
        self._forget_generation(member_id)
        if joining is not None and joining.holding is None:
            # The application reads nothing, so it has nothing to lose.
            self._try_again(now, at_once=not self._failures)
            return
        self._join = None
        self._end_life(MemberEvent.LOST)
        self._on_event(Rejoin(self._number, str(error), lost=True))

    def _fail(self, error: KafkaError) -> None:
        """Report an error to the application, which has to join again if the error can be solved."""
        if self.state is MemberState.STABLE:
            # Still a member, as far as is known: the next heartbeat may succeed.
            self._coordinator.want()
            self._on_event(Failed(self._number, error))
            return
        self._failed_rebalances.add()
        self._join = None
        self._end_life(MemberEvent.LOST)
        self._on_event(Failed(self._number, error))

    # -- shared

    def _want_rejoin(self, reason: str) -> None:
        if not self._rejoin_told:
            self._rejoin_told = True
            self._on_event(Rejoin(self._number, reason, lost=False))

    def _forget_generation(self, member_id: str) -> None:
        self.membership += 1
        self._generation = Generation(NO_GENERATION, member_id, self._instance_id, None)

    def _end_life(self, event: MemberEvent) -> None:
        """Enter a state in which the responses to requests in flight no longer count."""
        self._life += 1
        self._asking = self._beating = False
        self._sync = None
        self._rejoin_told = False
        self._next_heartbeat = self._session_ends = NEVER
        self._change(event)
