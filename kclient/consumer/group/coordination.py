"""The owner's part of a rebalance: inside the application's calls, in its thread or task, and never elsewhere.

What is to be done is an agenda of steps. `step`, which `poll` and iteration call before they take records, works it
off; a step that cannot be finished within the caller's timeout stays on the agenda for the next call. A step leaves
the agenda before it calls the application's code: so a listener that was interrupted (Ctrl-C, a cancelled task) is not
called again for the same thing, and the steps after it are done by the next call. The agenda of

    a rebalance     commit; give up (eager: everything, cooperative: what is not subscribed to any more); join
    leading         wait for metadata of all the group's topics; divide
    an assignment   commit and give up what others are to have; take the rest and what is new; tell the listener
    a loss          give everything up; raise what the owner has to know

Between joining and the assignment an eager member has nothing to read, and a cooperative one goes on reading.
Leaves out the coordinator (`member`) and how offsets are committed (`commits`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kclient.config import ConsumerConfig
from kclient.consumer.group.events import Assigned, Event, Failed, JoinData, Lead
from kclient.consumer.group.leader import Counts, Division, partition_counts
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.group.member import GroupMember
from kclient.consumer.group.protocol import GroupSubscription, decode_assignment, encode_subscription
from kclient.consumer.group.states import NO_GENERATION, MemberState
from kclient.consumer.group.strategy import Strategy
from kclient.consumer.subscription import Subscription
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


class Commits(Protocol):
    """What a rebalance wants of committed offsets."""

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Commit what the application has processed, if commits are automatic.

        Parameters:
            deadline: of `time.monotonic`.

        Returns:
            Whether that is over: committed, nothing to commit, or failed for good. False: the deadline passed before;
            it goes on, and another call waits for it.
        """


Wait = Callable[[float], Operation[None]]
"""Waits for news, so many seconds at most."""


class Coordination:
    """The owner's side of one membership.

    Parameters:
        config: the consumer's options.
        subscription: what is subscribed to, and what is assigned.
        metadata: the cluster.
        coordinator, member: the network thread's side.
        submit: runs a function on the network thread.
        send: sends a request, on the network thread.
        clock: seconds, as `time.monotonic`.
        wait: waits for news in the name of the owner, and raises what interrupts it.
        wake: makes the owner's call look here; any thread.

    Attributes:
        listener: the application's.
        strategy: the assignors, and how this member rebalances.
        commits: the offsets; None where nothing is committed by itself.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: Coordinator,
        member: GroupMember,
        *,
        submit: Callable[[Callable[[], None]], None],
        send: Callable[[Request], None],
        clock: Callable[[], float],
        wait: Wait,
        wake: Callable[[], None],
    ) -> None:
        self.listener = RebalanceListener()
        self.commits: Commits | None = None
        self.strategy = Strategy(config.partition_assignment_strategy)
        self._rack = config.client_rack
        self._patience = min(config.default_api_timeout_ms, config.max_poll_interval_ms) / 1000
        self._subscription = subscription
        self._metadata = metadata
        self._coordinator = coordinator
        self._member = member
        self._submit = submit
        self._send = send
        self._clock = clock
        self._wait = wait
        self._wake = wake
        self._events: deque[Event] = deque()
        self._agenda: deque[Step] = deque()
        self._busy = False
        self._number = 0
        self._joining = False
        self._rejoin_reason: str | None = "the application subscribed"
        self._joined_topics: tuple[str, ...] | None = None
        self._watched: Counts | None = None
        self._looked_at: tuple[int, tuple[str, ...]] | None = None
        # Of the last assignment; what is read was assigned in this membership.
        self._membership = -1
        self._generation = NO_GENERATION
        self._listener_error: Exception | None = None
        self._fenced: KafkaError | None = None

    # -- the network thread's side

    def on_event(self, event: Event) -> None:
        """Take an event of the member (network thread)."""
        self._events.append(event)
        self._wake()

    def on_metadata(self, cluster: Cluster) -> None:
        """The cluster may have changed in a way that calls for a rebalance (network thread)."""
        self._wake()

    # -- the owner's side

    def step(self, deadline: float) -> Operation[bool]:
        """Do what is due.

        Parameters:
            deadline: until when it may take, as `time.monotonic`.

        Returns:
            Whether records may be handed out: all is done, or can go on beside reading.

        Raises:
            KafkaError: joining failed for good, the member was fenced, or MaxPollExceeded; once each.
            Exception: what a listener raised, after the rest was done.
        """
        if self._busy:
            raise IllegalStateError("a rebalance listener cannot ask for records; it may commit, seek and pause")
        if self._subscription.topics is None and not self._agenda:
            return True
        self._busy = True
        try:
            while self._agenda or self._plan():
                done = self._agenda[0](deadline)
                if not isinstance(done, bool):
                    done = yield from done
                if not done:
                    return False
        finally:
            self._busy = False
        self._raise_listener_error()
        if self._fenced is not None:
            raise self._fenced.with_traceback(None)
        return True

    def leave(self, deadline: float, *, tell: bool, reason: str) -> Operation[None]:
        """Give everything up, in order, and leave the group.

        Parameters:
            deadline: until when it may take, as `time.monotonic`.
            tell: whether to tell the coordinator that this member does not come back.
            reason: for the coordinator's log.

        Raises:
            Exception: what a listener raised.
        """
        if self._busy:
            raise IllegalStateError("a rebalance listener can neither unsubscribe nor close the consumer")
        self._agenda = deque([partial(self._commit, deadline, False)])
        if self._subscription.topics is not None:
            self._agenda += [partial(self._give_up, None), partial(self._leave_group, tell, reason)]
        self._busy = True
        try:
            while self._agenda:
                done = self._agenda[0](deadline)
                if not isinstance(done, bool):
                    done = yield from done
                if not done:
                    self._agenda.popleft()
        finally:
            self._busy = False
        self._raise_listener_error()

    def enforce_rebalance(self, reason: str) -> None:
        """Join again with the next call, whatever it is for."""
        if self._subscription.topics is None:
            raise IllegalStateError("the consumer is not subscribed to topics, so there is nothing to rebalance")
        if self._rejoin_reason is None:
            self._rejoin_reason = reason or "the application enforced a rebalance"

    def _raise_listener_error(self) -> None:
        error, self._listener_error = self._listener_error, None
        if error is not None:
            raise error

    # -- what is to be done

    def _plan(self) -> bool:
        """Put on the agenda what is due next; False if nothing is."""
        while self._events and not self._agenda:
            event = self._events.popleft()
            if event.number == self._number:
                self._plan_event(event)
        if not self._agenda:
            reason = self._why_rejoin()
            if reason is not None:
                self._plan_rejoin(reason)
        return bool(self._agenda)

    def _plan_event(self, event: Event) -> None:
        if isinstance(event, Lead):
            self._agenda.append(partial(self._lead, event, -1))
        elif isinstance(event, Assigned):
            self._plan_assignment(event)
        elif isinstance(event, Failed):
            if self._joining:
                self._joining = False
                self._rejoin_reason = "joining failed before"
            self._agenda.append(partial(self._raise, event.error))
        elif event.lost:
            self._joining = False
            self._rejoin_reason = event.reason
            if self._member.state is MemberState.FENCED:
                self._fenced = event.error
            self._agenda.append(partial(self._give_up, None))
            if event.error is not None and self._fenced is None:
                self._agenda.append(partial(self._raise, event.error))
        else:
            self._rejoin_reason = event.reason

    def _why_rejoin(self) -> str | None:
        topics = self._subscription.topics
        if topics is None or self._joining or self._fenced is not None:
            return None
        if self._rejoin_reason is not None:
            return self._rejoin_reason
        cluster = self._metadata.cluster
        if (cluster.version, topics) == self._looked_at:
            return None
        self._looked_at = (cluster.version, topics)
        if self._joined_topics is not None and set(topics) != set(self._joined_topics):
            return "the subscription has changed"
        if self._watched is not None and partition_counts(cluster, self._watched, self._watched) != self._watched:
            return "the topics' partitions have changed"
        return None

    def _plan_rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason
        owned = tuple(self._subscription.partitions)
        topics = set(self._subscription.topics or ())
        going = [tp for tp in owned if not self.strategy.cooperative or tp.topic not in topics]
        # What a cooperative member keeps need not be committed now, if that could not be done at once.
        if going or (owned and self._coordinator.node is not None):
            self._agenda.append(partial(self._commit, self._clock() + self._patience, True))
        if going:
            self._agenda.append(partial(self._give_up, going))
        self._agenda.append(partial(self._join, reason))

    def _plan_assignment(self, event: Assigned) -> None:
        assigned = decode_assignment(event.assignment)
        topics = self._subscription.topics
        self._joining = False
        self._rejoin_reason = self._looked_at = None
        if topics is None or event.membership != self._member.membership:
            # A loss is next among the events, or the owner has unsubscribed.
            return
        choice = self._subscription.choice
        strangers = {tp.topic for tp in assigned if tp.topic not in topics}
        if any(choice is None or not choice.matches(topic) for topic in strangers):
            self._rejoin_reason = "the assignment does not match the subscription, which has changed"
            return
        self._joined_topics = tuple({*(self._joined_topics or ()), *strangers})
        owned = tuple(self._subscription.partitions)
        kept = set(assigned)
        going = [tp for tp in owned if tp not in kept]
        added = [tp for tp in assigned if tp not in set(owned)]
        if going:
            until = self._clock() + self._patience
            self._agenda += [partial(self._commit, until, True), partial(self._give_up, going)]
            if self.strategy.cooperative:
                self._rejoin_reason = "what others are to have was revoked"
        self._agenda += [partial(self._take, event, assigned), partial(self._tell_assigned, added)]

    # -- the steps

    def _commit(self, until: float, may_interrupt: bool, deadline: float) -> Operation[bool]:
        """What goes to others is committed first; but not for ever, and not what is lost."""
        done = self.commits is None or not self._subscription.partitions or self._is_lost()
        while self.commits is not None and not done:
            try:
                done = yield from self.commits.commit_before_rebalance(min(deadline, until, self._clock() + _LOOK))
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

    def _join(self, reason: str, deadline: float) -> bool:
        self._agenda.popleft()
        subscription = self._subscription
        topics = subscription.topics
        if topics is None:
            return True
        owned = tuple(subscription.partitions)
        protocols = []
        for assignor in self.strategy.assignors.values():
            user_data = assignor.user_data(topics)
            told = GroupSubscription(topics, owned, self._generation, self._rack, user_data)
            protocols.append((assignor.name, encode_subscription(told)))
        self._number += 1
        self._joining = True
        self._rejoin_reason = None
        self._joined_topics = topics
        self._watched = None
        data = JoinData(self._number, protocols, reason, self._membership if owned else None)
        self._submit(lambda: self._member.join(data))
        return True

    def _lead(self, event: Lead, seen_version: int, deadline: float) -> Operation[bool]:
        """Divide, once the metadata of all topics is there."""
        try:
            division = Division(event.members)
        except KafkaError:
            self._begin_again(event)
            raise
        missing = self._unknown(division.topics)
        while missing and self._member.leads(event.generation):
            if seen_version < 0:
                seen_version = self._metadata.cluster.version
                self._agenda[0] = partial(self._lead, event, seen_version)
                for topic in missing:
                    self._metadata.add_topic(topic)
                self._metadata.request_update()
            if self._clock() >= deadline:
                return False
            yield from self._wait(deadline - self._clock())
            missing = self._unknown(division.topics) if self._metadata.cluster.version == seen_version else []
        try:
            self._divide(event, division)
        except Exception:
            self._begin_again(event)
            raise
        self._agenda.popleft()
        return True

    def _begin_again(self, event: Lead) -> None:
        """The group waits for an assignment in vain: begin again with the next call."""
        self._agenda.popleft()
        self._joining = False
        self._rejoin_reason = "the assignment could not be made"
        self._submit(lambda: self._member.give_up(event.generation))

    def _unknown(self, topics: Iterable[str]) -> list[str]:
        known = self._metadata.cluster.topics
        return sorted(topic for topic in topics if topic not in known)

    def _divide(self, event: Lead, division: Division) -> None:
        cluster = self._metadata.cluster
        self._watched = partition_counts(cluster, division.topics, {})
        told: dict[str, bytes] = {}
        if not event.skip:
            assignor = self.strategy.assignors.get(event.generation.protocol or "")
            if assignor is None:
                raise IllegalStateError(f"the coordinator chose the assignor {event.generation.protocol!r}, not ours")
            told = division.divide(assignor, cluster, cooperative=self.strategy.cooperative)
        self._submit(lambda: self._member.sync(event.generation, told))

    def _take(self, event: Assigned, assigned: list[TopicPartition], deadline: float) -> bool:
        self._agenda.popleft()
        self._membership = event.membership
        self._generation = event.generation.id
        if self._watched is None and self._subscription.topics is not None:
            self._metadata.set_topics(self._subscription.topics)
        assignor = self.strategy.assignors.get(event.generation.protocol or "")
        if assignor is not None:
            assignor.on_assignment(assigned, event.generation.id)
        _log.info("generation %d: assigned %s", event.generation.id, ", ".join(map(str, assigned)) or "nothing")
        self._subscription.assign_from_group(assigned)
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

    def _forget(self) -> None:
        """Begin anew with the next subscription."""
        self._number += 1
        self._events.clear()
        self._joining = False
        self._rejoin_reason = "the application subscribed"
        self._joined_topics = self._watched = self._fenced = None
        self._generation = NO_GENERATION

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
