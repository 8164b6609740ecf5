"""The base of the members of both group protocols: states, lives, requests and leaving.

A member has several *lives*: it joins, is removed or leaves, and joins again. Responses to requests of an earlier life
are ignored. An assignment belongs to a *membership*, which ends when the coordinator may give the partitions to another
member.

Elsewhere: the decisions of each protocol (`classic`, `consumer_protocol`).
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from kclient.config import ConsumerConfig
from kclient.consumer.group.events import Event
from kclient.consumer.group.generation import Generation
from kclient.consumer.group.poll_interval import PollInterval
from kclient.errors import KafkaError, MaxPollIntervalExceededError
from kclient.metrics import Metrics
from kclient.net.backoff import retry_backoff
from kclient.net.coordinator import Coordinator
from kclient.net.manager import Manager, Request
from kclient.protocol import Message
from kclient.state_machine import StateTable

_log = logging.getLogger(__name__)

State = TypeVar("State", bound=enum.Enum)
Change = TypeVar("Change", bound=enum.Enum)


class MemberContext(NamedTuple):
    """What a member of either protocol needs.

    Attributes:
        config: the consumer's options, with a group_id.
        coordinator: the group's coordinator.
        random: for jitter.
        on_event: receives each event, in order.
        poll_interval: whether the application makes progress.
        metrics: counts rebalances and heartbeats.
    """

    config: ConsumerConfig
    coordinator: Coordinator
    random: Random
    on_event: Callable[[Event], None]
    poll_interval: PollInterval
    metrics: Metrics


class AbstractMember(Manager, Generic[State, Change]):
    """The membership of one consumer.

    Attributes:
        state: any thread may read it.
        membership: grows whenever this member has lost its assignment; any thread may read it.
    """

    table: StateTable[State, Change]
    """The transitions of the protocol's states."""
    outside: State
    """The first state, and the state after leaving."""
    end_of_leaving: Change
    """The event that leads to it."""
    arriving: frozenset[State]
    """The states between joining and the assignment."""
    state: State

    def __init__(self, context: MemberContext) -> None:
        config, metrics = context.config, context.metrics
        assert config.group_id is not None
        self.state = self.outside
        self.membership = 0
        self._group = config.group_id
        self._instance_id = config.group_instance_id
        self._poll_interval = context.poll_interval
        self._coordinator = context.coordinator
        self._backoff = retry_backoff(config, context.random)
        self._on_event = context.on_event
        # The number of the application's join or subscription.
        self._number = 0
        self._leaving: list[Future[None]] = []
        self._last: Generation | None = None
        # Whether a heartbeat is in flight.
        self._beating = False
        self._life = 0
        self._failures = 0
        self._retry_at = 0.0
        self._started = 0.0
        self._heartbeat_time = metrics.histogram("heartbeat_response_time")
        self._heartbeats = metrics.counter("heartbeat_total")
        self._rebalances = metrics.counter("rebalance_total")
        self._failed_rebalances = metrics.counter("failed_rebalance_total")
        self._rebalance_time = metrics.histogram("rebalance_latency")

    @property
    def joining(self) -> bool:
        """Whether the member is between joining and its assignment (any thread)."""
        return self.state in self.arriving

    def last_generation(self) -> Generation | None:
        """Return the generation of the last assignment, even if it is lost; None before the first (any thread)."""
        return self._last

    def _change(self, event: Change) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        state = self.table.next_state(self.state, event, self._group)
        _log.debug("%s: %s: from %s to %s", self._group, event.value, self.state.value, state.value)
        self.state = state

    def _request(
        self,
        request_type: type[Message],
        build: Callable[[int], Message],
        on_response: Callable[[Any, float], None],
        on_error: Callable[[KafkaError, float], None],
        *,
        node: int | None = None,
        timeout: float | None = None,
        minimum_version: int | None = None,
    ) -> Request:
        """Return a request whose response counts in this life only; for the coordinator, unless a node is given."""
        target = self._coordinator.node if node is None else node
        assert target is not None
        return Request(
            target,
            request_type,
            build,
            self._in_this_life(on_response),
            self._in_this_life(on_error),
            timeout=timeout,
            minimum_version=minimum_version,
        )

    def _in_this_life(self, function: Callable[[Any, float], None]) -> Callable[[Any, float], None]:
        """Return a function that handles a response or an error, unless this life has ended by then."""
        life = self._life

        def take(outcome: Any, now: float) -> None:
            if life == self._life:
                function(outcome, now)

        return take

    def _coordinator_lost(self, error: KafkaError, now: float) -> None:
        """Look the coordinator up again."""
        node = self._coordinator.node
        if node is not None:
            self._coordinator.forget(node, error, now)

    def _rebalanced(self, now: float) -> None:
        """Note the end of a rebalance that began at `_started`."""
        self._rebalances.add()
        self._rebalance_time.record(1000 * max(0.0, now - self._started))

    def _too_slow(self) -> MaxPollIntervalExceededError:
        """Return the error of an application that did not ask for records for too long."""
        error = MaxPollIntervalExceededError(self._poll_interval.milliseconds)
        _log.warning("%s: %s", self._group, error)
        return error

    # -- leaving

    def _leave_failed(self, error: KafkaError, now: float) -> None:
        # The coordinator notices at the end of the session.
        _log.info("%s: leaving failed: %s", self._group, error)
        self._change(self.end_of_leaving)
        self._left()

    def _left(self) -> None:
        """Complete the futures of the callers that wait for leaving."""
        done, self._leaving = self._leaving, []
        for future in done:
            if not future.done():
                future.set_result(None)
