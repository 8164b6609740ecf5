"""What the owner's part of a rebalance is made of, whichever protocol the group speaks.

It runs inside the application's calls, in its thread or task, and never elsewhere. What is to be done is an agenda of
steps. `step`, which `poll` and iteration call before they take records, works it off; a step that cannot be finished
within the caller's timeout stays on the agenda for the next call. A step leaves the agenda before it calls the
application's code: so a listener that was interrupted (Ctrl-C, a cancelled task) is not called again for the same
thing, and the steps after it are done by the next call.

Elsewhere: what is to be done when; that each protocol says (`classic.rebalance`, `consumer_protocol.reconciliation`).
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
"""Seconds after which a commit that takes long looks whether the application was interrupted."""

Step = Callable[[float], Operation[bool] | bool]
"""Given until when it may take; whether it is done with. Those that need not wait are plain functions."""

Wait = Callable[[float], Operation[None]]
"""Waits for news, so many seconds at most."""


class Commits(Protocol):
    """What a rebalance wants of committed offsets."""

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Commit what the application has processed, if commits are automatic.

        Parameters:
            deadline: of the client's clock.

        Returns:
            Whether that is over: committed, nothing to commit, or failed for good. False: the deadline passed before;
            it goes on, and another call waits for it.
        """


class Member(Protocol):
    """What the owner knows of the network thread's side, and says to it at the end."""

    @property
    def state(self) -> enum.Enum: ...

    @property
    def membership(self) -> int: ...

    @property
    def rebalancing(self) -> bool: ...

    @property
    def joining(self) -> bool: ...

    def leave(self, future: Future[None], *, tell: bool, reason: str) -> list[Request]: ...


class Owner(NamedTuple):
    """How the owner's part reaches the two threads.

    Attributes:
        submit: runs a function on the network thread.
        send: sends a request, on the network thread.
        clock: seconds; that of the client.
        wait: waits for news in the name of the owner, and raises what interrupts it.
        wake: makes the owner's call look here; any thread.
    """

    submit: Callable[[Callable[[], None]], None]
    send: Callable[[Request], None]
    clock: Callable[[], float]
    wait: Wait
    wake: Callable[[], None]


class Agenda(ABC):
    """The owner's side of one membership.

    Parameters:
        config: the consumer's options.
        subscription: what is subscribed to, and what is assigned.
        metadata: the cluster.
        coordinator, member: the network thread's side.
        mailbox: the member's events.
        owner: the threads.
        commits: the offsets; None where nothing is committed by itself.

    Attributes:
        busy: a call of the owner does what is due, listeners included, or waits for it; any thread may look.
        listener: the application's.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: Coordinator,
        member: Member,
        mailbox: Mailbox,
        owner: Owner,
        commits: Commits | None,
    ) -> None:
        self.listener = RebalanceListener()
        self._commits = commits
        self._patience = min(config.default_api_timeout_ms, config.max_poll_interval_ms) / 1000
        self._subscription = subscription
        self._metadata = metadata
        self._coordinator = coordinator
        self._member = member
        self._submit, self._send, self._clock, self._wait, self._wake = owner
        self._mailbox = mailbox
        self._agenda: deque[Step] = deque()
        self.busy = False
        self._number = 0
        # Of the last assignment; what is read was assigned in this membership.
        self._membership = -1
        self._listener_error: Exception | None = None
        self._fenced: KafkaError | None = None

    # -- the network thread's side

    def on_metadata(self, cluster: Cluster) -> None:
        """The cluster may have changed in a way that calls for a rebalance (network thread)."""
        self._wake()

    # -- the owner's side

    def step(self, deadline: float) -> Operation[bool]:
        """Do what is due.

        Parameters:
            deadline: until when it may take, of the client's clock.

        Returns:
            Whether records may be handed out: all is done, or can go on beside reading.

        Raises:
            KafkaError: joining failed for good, the member was fenced, or MaxPollIntervalExceededError; once each.
            Exception: what a listener raised, after the rest was done.
        """
        if self.busy:
            raise IllegalStateError("a rebalance listener cannot ask for records; it may commit, seek and pause")
        if self._subscription.topics is None and not self._agenda:
            return True
        try:
            while self._agenda or self._plan():
                self.busy = True
                done = self._agenda[0](deadline)
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
        """Give everything up, in order, and leave the group.

        Parameters:
            deadline: until when it may take, of the client's clock.
            tell: whether to tell the coordinator that this member does not come back.
            reason: for the coordinator's log.

        Raises:
            Exception: what a listener raised.
        """
        if self.busy:
            raise IllegalStateError("a rebalance listener can neither unsubscribe nor close the consumer")
        self._agenda = deque([partial(self._commit, deadline, False)])
        if self._subscription.topics is not None:
            self._prepare_leaving()
            self._agenda += [partial(self._give_up, None), partial(self._leave_group, tell, reason)]
        self.busy = True
        try:
            while self._agenda:
                done = self._agenda[0](deadline)
                if not isinstance(done, bool):
                    done = yield from done
                if not done:
                    self._agenda.popleft()
        finally:
            self.busy = False
        self._raise_listener_error()

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Join again with the next call, whatever it is for."""

    def _raise_listener_error(self) -> None:
        error, self._listener_error = self._listener_error, None
        if error is not None:
            raise error

    # -- what is to be done

    def _plan(self) -> bool:
        """Put on the agenda what is due next; False if nothing is."""
        while not self._agenda and (event := self._mailbox.take()) is not None:
            if event.number == self._number:
                self._plan_event(event)
        if not self._agenda:
            self._plan_more()
        return bool(self._agenda)

    @abstractmethod
    def _plan_event(self, event: Event) -> None:
        """Put on the agenda what follows from an event."""

    @abstractmethod
    def _plan_more(self) -> None:
        """Put on the agenda what is due without one."""

    @abstractmethod
    def _prepare_leaving(self) -> None:
        """The owner is about to give up everything."""

    @abstractmethod
    def _forget(self) -> None:
        """Begin anew with the next subscription."""

    # -- the steps

    def _commit(self, until: float, may_interrupt: bool, deadline: float) -> Operation[bool]:
        """What goes to others is committed first; but not for ever, and not what is lost."""
        done = self._commits is None or not self._subscription.partitions or self._is_lost()
        while self._commits is not None and not done:
            try:
                done = yield from self._commits.commit_before_rebalance(min(deadline, until, self._clock() + _LOOK))
            except WakeupError:
                raise
            except KafkaError as error:
                # A group does not wait for one member's commit that cannot succeed.
                _log.warning("what was processed was not committed before the rebalance: %s", error)
                break
            if done or self._clock() >= until:
                break
            if self._clock() >= deadline:
                return False
            if may_interrupt:
                yield from self._wait(0.0)
        self._agenda.popleft()
        return True

    def _give_up(self, going: Collection[TopicPartition] | None, deadline: float) -> Operation[bool]:
        """Tell the listener what goes, and drop it whatever becomes of that; None: everything."""
        self._agenda.popleft()
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
        self._agenda.popleft()
        yield from self._tell(self.listener.on_assigned, added)
        return True

    def _leave_group(self, tell: bool, reason: str, deadline: float) -> Operation[bool]:
        self._agenda.popleft()
        self._forget()
        done: Future[None] = Future()

        def leave() -> None:
            for request in self._member.leave(done, tell=tell, reason=reason):
                self._send(request)

        self._submit(leave)
        try:
            yield Result(done, deadline)
        except KafkaTimeoutError:
            _log.info("leaving the group was not confirmed in time; the session ends by itself")
        return True

    def _raise(self, error: KafkaError, deadline: float) -> bool:
        self._agenda.popleft()
        raise error.with_traceback(None)

    # -- shared

    def _is_lost(self) -> bool:
        return self._subscription.topics is not None and self._membership != self._member.membership

    def _tell(
        self, method: Callable[[Collection[TopicPartition]], object], partitions: list[TopicPartition]
    ) -> Operation[None]:
        """Call the application's code; what it raises waits until the rebalance's part is done."""
        try:
            yield Call(method, partitions)
        except Exception as error:  # noqa: BLE001 - raised by `step`
            _log.debug("a rebalance listener failed", exc_info=True)
            self._listener_error = self._listener_error or error
