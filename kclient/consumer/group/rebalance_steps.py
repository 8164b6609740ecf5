"""The base of the application's part of a rebalance, in either group protocol.

It runs only inside the application's calls, in their thread or task. The work is a queue of steps. `poll` and iteration
call `step` before they take records; a step that cannot be finished within the caller's timeout stays in the queue for
the next call. A step leaves the queue before it calls the application's code, so that an interrupted listener (Ctrl-C,
a cancelled task) is not called again for the same event, and the next call does the remaining steps.

Elsewhere: the steps of each protocol (`classic.rebalance`, `consumer_protocol.reconciliation`).
"""

from __future__ import annotations

import enum
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.events import Event, Mailbox
from kclient.consumer.group.listener import RebalanceListener
from kclient.errors import IllegalStateError, KafkaError, KafkaTimeoutError, WakeupError
from kclient.net.coordinator import Coordinator
from kclient.net.operation import Call, Operation, Result
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.manager import Request
    from kclient.net.metadata import Cluster, MetadataManager

_log = logging.getLogger(__name__)

_LOOK = 0.1
"""Seconds after which a long commit checks whether the application was interrupted."""

Step = Callable[[float], Operation[bool] | bool]
"""A step takes its deadline and returns whether it is finished. Steps that need not wait are plain functions."""

Wait = Callable[[float], Operation[None]]
"""Waits for a notification, at most this many seconds."""


class Commits(Protocol):
    """Committed offsets as a rebalance sees them."""

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Commit what the application has processed, if commits are automatic.

        Parameters:
            deadline: on the client's clock.

        Returns:
            Whether this has ended: committed, nothing to commit, or failed finally. False if the deadline passed first;
            the commit continues, and another call may wait for it.
        """


class Member(Protocol):
    """The member as the application sees it."""

    @property
    def state(self) -> enum.Enum: ...

    @property
    def membership(self) -> int: ...

    @property
    def rebalancing(self) -> bool: ...

    @property
    def joining(self) -> bool: ...

    def leave(self, future: Future[None], *, tell: bool, reason: str) -> list[Request]: ...


class RebalanceThreads(NamedTuple):
    """The two threads as the application's part uses them.

    Attributes:
        submit: runs a function on the network thread.
        send: sends a request, on the network thread.
        clock: seconds; that of the client.
        wait: waits for a notification to the application, and raises interruptions.
        wake: wakes the application's call; any thread.
    """

    submit: Callable[[Callable[[], None]], None]
    send: Callable[[Request], None]
    clock: Callable[[], float]
    wait: Wait
    wake: Callable[[], None]


class RebalanceSteps(ABC):
    """The application's side of one membership.

    Parameters:
        config: the consumer's options.
        subscription: the subscription and the assignment.
        metadata: the cluster.
        coordinator, member: the parts on the network thread.
        mailbox: the member's events.
        threads: the threads.
        commits: the committed offsets; None without automatic commits.

    Attributes:
        busy: whether a call of the application is working on the rebalance, listeners included; any thread may read it.
        listener: the application's rebalance listener.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: Coordinator,
        member: Member,
        mailbox: Mailbox,
        threads: RebalanceThreads,
        commits: Commits | None,
    ) -> None:
        self.listener = RebalanceListener()
        self._commits = commits
        self._patience = min(config.default_api_timeout_ms, config.max_poll_interval_ms) / 1000
        self._subscription = subscription
        self._metadata = metadata
        self._coordinator = coordinator
        self._member = member
        self._submit, self._send, self._clock, self._wait, self._wake = threads
        self._mailbox = mailbox
        self._steps: deque[Step] = deque()
        self.busy = False
        self._number = 0
        # The membership of the last assignment.
        self._membership = -1
        self._listener_error: Exception | None = None
        self._fenced: KafkaError | None = None

    # -- the network thread's side

    def on_metadata(self, cluster: Cluster) -> None:
        """Check whether a change of the cluster requires a rebalance (network thread)."""
        self._wake()

    # -- the application's side

    def step(self, deadline: float) -> Operation[bool]:
        """Do the steps that are due.

        Parameters:
            deadline: on the client's clock.

        Returns:
            Whether records may be returned: all steps are finished, or continue while records are read.

        Raises:
            KafkaError: joining failed finally, the member was fenced, or MaxPollIntervalExceededError; once each.
            Exception: an exception of a listener, after the other steps were done.
        """
        if self.busy:
            raise IllegalStateError("a rebalance listener cannot ask for records; it may commit, seek and pause")
        if self._subscription.topics is None and not self._steps:
            return True
        try:
            while self._steps or self._plan():
                self.busy = True
                done = self._steps[0](deadline)
                if not isinstance(done, bool):
                    done = yield from done
                if not done:
                    return False
        finally:
            self.busy = False
        self._raise_listener_error()
        if self._fenced is not None:
            raise self._fenced.with_traceback(None)
        return True

    def leave(self, deadline: float, *, tell: bool, reason: str) -> Operation[None]:
        """Give everything up in order and leave the group.

        Parameters:
            deadline: on the client's clock.
            tell: whether to tell the coordinator that this member does not return.
            reason: for the coordinator's log.

        Raises:
            Exception: an exception of a listener.
        """
        if self.busy:
            raise IllegalStateError("a rebalance listener can neither unsubscribe nor close the consumer")
        self._steps = deque([partial(self._commit, deadline, False)])
        if self._subscription.topics is not None:
            self._prepare_leaving()
            self._steps += [partial(self._give_up, None), partial(self._leave_group, tell, reason)]
        self.busy = True
        try:
            while self._steps:
                done = self._steps[0](deadline)
                if not isinstance(done, bool):
                    done = yield from done
                if not done:
                    self._steps.popleft()
        finally:
            self.busy = False
        self._raise_listener_error()

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin with the next call of any kind."""

    def _raise_listener_error(self) -> None:
        error, self._listener_error = self._listener_error, None
        if error is not None:
            raise error

    # -- what is to be done

    def _plan(self) -> bool:
        """Queue the steps that are due next; return False if nothing is due."""
        while not self._steps and (event := self._mailbox.take()) is not None:
            if event.number == self._number:
                self._plan_event(event)
        if not self._steps:
            self._plan_more()
        return bool(self._steps)

    @abstractmethod
    def _plan_event(self, event: Event) -> None:
        """Queue the steps for an event."""

    @abstractmethod
    def _plan_more(self) -> None:
        """Queue the steps that need no event."""

    @abstractmethod
    def _prepare_leaving(self) -> None:
        """Prepare for giving up everything."""

    @abstractmethod
    def _forget(self) -> None:
        """Start again with the next subscription."""

    # -- the steps

    def _commit(self, until: float, may_interrupt: bool, deadline: float) -> Operation[bool]:
        """Commit what goes to other members; not without a time limit, and not what is lost."""
        done = self._commits is None or not self._subscription.partitions or self._is_lost()
        while self._commits is not None and not done:
            try:
                done = yield from self._commits.commit_before_rebalance(min(deadline, until, self._clock() + _LOOK))
            except WakeupError:
                raise
            except KafkaError as error:
                # The group does not wait for a commit that cannot succeed.
                _log.warning("processed records were not committed before the rebalance: %s", error)
                break
            if done or self._clock() >= until:
                break
            if self._clock() >= deadline:
                return False
            if may_interrupt:
                yield from self._wait(0.0)
        self._steps.popleft()
        return True

    def _give_up(self, going: Collection[TopicPartition] | None, deadline: float) -> Operation[bool]:
        """Call the listener and drop the partitions, whatever the listener raises; None: all partitions."""
        self._steps.popleft()
        owned = tuple(self._subscription.partitions)
        gone = set(owned if going is None else going)
        partitions = [tp for tp in owned if tp in gone]
        try:
            if partitions:
                lost = self._is_lost()
                _log.info("partitions %s: %s", "lost" if lost else "revoked", ", ".join(map(str, partitions)))
                yield from self._tell(self.listener.on_lost if lost else self.listener.on_revoked, partitions)
        finally:
            self._subscription.assign_from_group([tp for tp in owned if tp not in gone])
        return True

    def _tell_assigned(self, added: list[TopicPartition], deadline: float) -> Operation[bool]:
        self._steps.popleft()
        yield from self._tell(self.listener.on_assigned, added)
        return True

    def _leave_group(self, tell: bool, reason: str, deadline: float) -> Operation[bool]:
        self._steps.popleft()
        self._forget()
        done: Future[None] = Future()

        def leave() -> None:
            for request in self._member.leave(done, tell=tell, reason=reason):
                self._send(request)

        self._submit(leave)
        try:
            yield Result(done, deadline)
        except KafkaTimeoutError:
            _log.info("the coordinator did not confirm leaving in time; the session will expire")
        return True

    def _raise(self, error: KafkaError, deadline: float) -> bool:
        self._steps.popleft()
        raise error.with_traceback(None)

    # -- shared

    def _is_lost(self) -> bool:
        return self._subscription.topics is not None and self._membership != self._member.membership

    def _tell(
        self, method: Callable[[Collection[TopicPartition]], object], partitions: list[TopicPartition]
    ) -> Operation[None]:
        """Call the application's listener; its exception is kept until the rebalance's steps are done."""
        try:
            yield Call(method, partitions)
        except Exception as error:  # noqa: BLE001 - raised by `step`
            _log.debug("a rebalance listener failed", exc_info=True)
            self._listener_error = self._listener_error or error
