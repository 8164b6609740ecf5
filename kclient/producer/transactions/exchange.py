"""Sends a transaction's requests to their coordinators, one at a time, and retries each until it has a result.

A coordinator is looked up when a request for it is due, and again when a response is lost. Most requests are retried
without a limit, because the producer needs their response; only offsets are given up after delivery_timeout_ms, like
records, so that a commit does not wait for a topic or group that was deleted. Elsewhere: which request comes next and
what its result does to the transaction (`manager`), and the meaning of errors (`outcomes`).
"""

from __future__ import annotations

import logging
import random
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kclient.config import ProducerConfig
from kclient.errors import ClosedError, ConcurrentTransactionsError, KafkaError, KafkaTimeoutError
from kclient.net.backoff import Backoff, retry_backoff
from kclient.net.coordinator import GROUP, TRANSACTION, Coordinator
from kclient.net.manager import NEVER, Nodes, Request
from kclient.producer.transactions.outcomes import Kind, kind_of, worst
from kclient.producer.transactions.requests import Step

FIRST_CONCURRENT_BACKOFF = 0.005
"""Seconds before a request is retried that arrived while the markers of the last transaction were being written."""

_log = logging.getLogger(__name__)


class Steps(Protocol):
    """The source of the steps (network thread, under the lock)."""

    def next_step(self) -> Step | None:
        """Return the next step."""

    def begun(self, step: Step) -> None:
        """Note that a step was sent, perhaps again."""

    def done(self, step: Step, response: Any) -> None:
        """Handle the response of a successful step."""

    def failed(self, step: Step, kind: Kind, error: KafkaError) -> None:
        """Handle the final failure of a step."""

    def gives_up(self, step: Step) -> bool:
        """Return whether a step without success is not retried."""


class Exchange:
    """The requests of one transactional producer.

    Parameters:
        config: the producer's options, with a transactional_id.
        nodes: the connections.
        steps: the source of the steps, notified of their results.
        lock: held during calls of `steps`.
        random: for jitter.

    Attributes:
        step: the current step; None without one.
        under_way: whether its request is in flight.
        coordinator: the coordinator of the transaction.
    """

    def __init__(
        self,
        config: ProducerConfig,
        nodes: Nodes,
        steps: Steps,
        lock: AbstractContextManager[Any],
        *,
        random: random.Random,
    ) -> None:
        assert config.transactional_id is not None
        self.step: Step | None = None
        self.under_way = False
        self.coordinator = Coordinator(config.transactional_id, TRANSACTION, nodes, config, random=random)
        self._config = config
        self._nodes = nodes
        self._steps = steps
        self._lock = lock
        self._random = random
        self._groups: dict[str, Coordinator] = {}
        self._backoff = retry_backoff(config, random)
        most = max(FIRST_CONCURRENT_BACKOFF, config.retry_backoff_ms / 1000)
        self._concurrent_backoff = Backoff(FIRST_CONCURRENT_BACKOFF, most, random=random)
        self._patience = config.delivery_timeout_ms / 1000

    @property
    def last_error(self) -> KafkaError | None:
        """Why the current step has not succeeded yet, or why the transaction's coordinator is unknown."""
        step, coordinator = self.step, self.coordinator
        if step is not None and step.last_error is not None:
            return step.last_error
        return coordinator.last_error if coordinator.node is None else None

    def retry_seconds(self, error: KafkaError, attempts: int) -> float:
        """Return how long to wait before a retry."""
        backoff = self._concurrent_backoff if isinstance(error, ConcurrentTransactionsError) else self._backoff
        return backoff.seconds(attempts)

    def coordinator_for(self, step: Step) -> Coordinator:
        """Return the coordinator for a step."""
        if step.group_id is None:
            return self.coordinator
        found = self._groups.get(step.group_id)
        if found is None:
            found = Coordinator(step.group_id, GROUP, self._nodes, self._config, random=self._random)
            self._groups[step.group_id] = found
        return found

    def drop(self) -> None:
        """Do nothing after the current step."""
        if self.step is not None and not self.under_way and self._steps.gives_up(self.step):
            self.step = None

    # -- network thread

    def poll(self, requests: list[Request], now: float) -> float:
        """Add the request that is due, and coordinator lookups; return when to check again."""
        deadline = self._take_step(requests, now)
        for coordinator in (self.coordinator, *self._groups.values()):
            asked, look_at = coordinator.poll(now)
            requests += asked
            deadline = min(deadline, look_at)
        return deadline

    def _take_step(self, requests: list[Request], now: float) -> float:
        while not self.under_way:
            step = self.step = self.step or self._steps.next_step()
            if step is None:
                return NEVER
            coordinator = self.coordinator_for(step)
            if coordinator.fatal_error is not None:
                error = coordinator.fatal_error
                self._end(step, kind_of(step.api, error), error)
                continue
            if step.waits_without_limit:
                expires = NEVER
            else:
                step.first_due = step.first_due or now
                expires = step.first_due + self._patience
            if expires <= now:
                # A late request must not become part of the next transaction.
                self._end(step, Kind.NEW_EPOCH if step.lost else Kind.ABORTABLE, self._too_late(step, coordinator))
                continue
            if step.retry_at > now:
                return min(step.retry_at, expires)
            if not coordinator.ready(now):
                node = coordinator.node
                retry_at = 0.0 if node is None else self._nodes.retry_at(node)
                return min(retry_at, expires) if retry_at > now else expires
            assert coordinator.node is not None
            requests.append(self._request(step, coordinator, coordinator.node))
        return NEVER

    def _too_late(self, step: Step, coordinator: Coordinator) -> KafkaTimeoutError:
        last = step.last_error or coordinator.last_error
        error = KafkaTimeoutError(
            f"offsets of the group were not stored within delivery_timeout_ms ({self._config.delivery_timeout_ms})"
            + (f"; the last error was: {last}" if last is not None else ""),
            api=step.api.value,
        )
        error.__cause__ = last
        return error

    def _request(self, step: Step, coordinator: Coordinator, node: int) -> Request:
        self.under_way = True
        step.attempts += 1
        self._steps.begun(step)
        return Request(
            node,
            step.request_type,
            step.build,
            lambda response, now: self._answered(step, coordinator, response, now),
            lambda error, now: self._lost(step, coordinator, error, now),
            minimum_version=step.minimum_version,
            maximum_version=step.maximum_version,
        )

    def _answered(self, step: Step, coordinator: Coordinator, response: Any, now: float) -> None:
        with self._lock:
            self.under_way = False
            if step is not self.step:
                return
            errors = step.errors(response)
            if not errors:
                coordinator.confirm()
                self.step = None
                self._steps.done(step, response)
                return
            kind, error = worst(step.api, errors)
            _log.debug("%s for %r was answered with %s", step.api.value, step.producer.transactional_id, error)
            if kind is Kind.LOOK_UP and coordinator.node is not None:
                coordinator.forget(coordinator.node, error, now)
            elif kind is Kind.RETRY:
                step.retry_at = now + self.retry_seconds(error, step.attempts)
            elif kind is not Kind.LOOK_UP:
                self._end(step, kind, error)
                return
            step.last_error = error
            self.drop()

    def _lost(self, step: Step, coordinator: Coordinator, error: KafkaError, now: float) -> None:
        with self._lock:
            self.under_way = False
            if step is not self.step or isinstance(error, ClosedError):
                return
            if not error.retriable:
                self._end(step, Kind.FATAL, error)
                return
            if coordinator.node is not None:
                coordinator.forget(coordinator.node, error, now)
            step.retry_at = now + self.retry_seconds(error, step.attempts)
            step.last_error = error
            step.lost = True
            self.drop()

    def _end(self, step: Step, kind: Kind, error: KafkaError) -> None:
        self.step = None
        self._steps.failed(step, kind, error)
