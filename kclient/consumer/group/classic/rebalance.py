"""The application's part of a rebalance of the classic protocol.

The steps (see `rebalance_steps`) of

    a rebalance     commit; give up (eager: everything, cooperative: what is no longer subscribed to); join
    leading         wait for metadata of all the group's topics; assign
    an assignment   commit and give up what other members receive; add the new partitions; call the listener
    a loss          give everything up; raise the error

Between joining and the assignment an eager member reads nothing; a cooperative one keeps reading. Elsewhere: the
coordinator (`member`), how offsets are committed (`committed`), and the consumer protocol (`consumer_protocol`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.classic.leader import Counts, Division, partition_counts
from kclient.consumer.group.classic.member import GroupMember
from kclient.consumer.group.classic.phases import (
    REASONS,
    STATES,
    Phase,
    PhaseEvent,
    classify_assignment,
    unsubscribed_topics,
)
from kclient.consumer.group.classic.protocol import GroupSubscription, decode_assignment, encode_subscription
from kclient.consumer.group.classic.states import MemberState
from kclient.consumer.group.classic.strategy import Strategy
from kclient.consumer.group.events import Assigned, Event, Failed, JoinData, Lead, Mailbox, Rejoin
from kclient.consumer.group.generation import NO_GENERATION
from kclient.consumer.group.rebalance_steps import Commits, RebalanceSteps, RebalanceThreads
from kclient.errors import IllegalStateError, KafkaError
from kclient.net.coordinator import Coordinator
from kclient.net.operation import Operation
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)


class Coordination(RebalanceSteps):
    """The application's side of one membership.

    Parameters:
        config, subscription, metadata, coordinator, mailbox, threads, commits: see `RebalanceSteps`.
        member: the member on the network thread.

    Attributes:
        strategy: the assignors, and the rebalance protocol.
        phase: the phase of the rebalance; any thread may read it.
    """

    _member: GroupMember

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: Coordinator,
        member: GroupMember,
        mailbox: Mailbox,
        threads: RebalanceThreads,
        commits: Commits | None,
    ) -> None:
        super().__init__(config, subscription, metadata, coordinator, member, mailbox, threads, commits)
        self.strategy = Strategy(config.partition_assignment_strategy)
        self._rack = config.client_rack
        self.phase = Phase.DUE
        self._reason = REASONS[PhaseEvent.LEFT]
        # The reason to join again after the current rebalance.
        self._enforced: str | None = None
        self._joined_topics: tuple[str, ...] | None = None
        self._watched: Counts | None = None
        self._looked_at: tuple[int, tuple[str, ...]] | None = None
        self._generation = NO_GENERATION

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin with the next call of any kind or, if this member is joining, again afterwards."""
        if self._subscription.topics is None:
            raise IllegalStateError("the consumer is not subscribed to topics, so there is nothing to rebalance")
        self._call_for(reason or "the application enforced a rebalance")

    # -- what is to be done

    def _plan_more(self) -> None:
        reason = self._why_rejoin()
        if reason is not None:
            self._plan_rejoin(reason)

    def _plan_event(self, event: Event) -> None:
        if isinstance(event, Lead):
            self._steps.append(partial(self._lead, event, -1))
        elif isinstance(event, Assigned):
            self._plan_assignment(event)
        elif isinstance(event, Failed):
            self._change(PhaseEvent.FAILED)
            self._steps.append(partial(self._raise, event.error))
        elif isinstance(event, Rejoin) and event.lost:
            if self._member.state is MemberState.FENCED:
                self._change(PhaseEvent.FENCED)
                self._fenced = event.error
            else:
                self._change(PhaseEvent.LOST, event.reason)
            self._steps.append(partial(self._give_up, None))
            if event.error is not None and self._fenced is None:
                self._steps.append(partial(self._raise, event.error))
        elif isinstance(event, Rejoin):
            self._call_for(event.reason)

    def _change(self, event: PhaseEvent, reason: str | None = None) -> None:
        self.phase = STATES.next_state(self.phase, event)
        self._reason = reason or REASONS.get(event, self._reason)

    def _call_for(self, reason: str) -> None:
        """Rejoin with the next call or, if this member is joining, again afterwards."""
        if self.phase is Phase.JOINING:
            self._enforced = reason
        elif self.phase is not Phase.DUE:
            self._reason = reason
        self._change(PhaseEvent.CALLED_FOR)

    def _why_rejoin(self) -> str | None:
        topics = self._subscription.topics
        if topics is None or self.phase in (Phase.JOINING, Phase.FENCED):
            return None
        if self.phase is Phase.DUE:
            return self._reason
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
        self._call_for(reason)
        owned = tuple(self._subscription.partitions)
        topics = set(self._subscription.topics or ())
        going = [tp for tp in owned if not self.strategy.cooperative or tp.topic not in topics]
        # The partitions that a cooperative member keeps need not be committed if that was not possible at once.
        if going or (owned and self._coordinator.node is not None):
            self._steps.append(partial(self._commit, self._clock() + self._patience, True))
        if going:
            self._steps.append(partial(self._give_up, going))
        self._steps.append(partial(self._join, reason))

    def _plan_assignment(self, event: Assigned) -> None:
        self._looked_at = None
        try:
            assigned = decode_assignment(event.assignment)
        except KafkaError:
            self._change(PhaseEvent.UNREADABLE)
            raise
        is_current = event.membership == self._member.membership
        verdict = classify_assignment(
            assigned, self._subscription, cooperative=self.strategy.cooperative, is_current=is_current
        )
        self._change(verdict)
        enforced, self._enforced = self._enforced, None
        if enforced is not None:
            self._call_for(enforced)
        if verdict is PhaseEvent.MISMATCHED:
            # The coordinator returned the assignment from before this static member restarted. Identical metadata
            # would return it again, so the next join carries the new generation.
            self._generation = event.generation.id
        elif verdict is not PhaseEvent.OVERTAKEN:
            self._plan_partitions(event, assigned)

    def _plan_partitions(self, event: Assigned, assigned: list[TopicPartition]) -> None:
        self._joined_topics = tuple(
            {*(self._joined_topics or ()), *unsubscribed_topics(assigned, self._subscription.topics or ())}
        )
        owned, kept = set(self._subscription.partitions), set(assigned)
        going = [tp for tp in self._subscription.partitions if tp not in kept]
        added = [tp for tp in assigned if tp not in owned]
        if going:
            until = self._clock() + self._patience
            self._steps += [partial(self._commit, until, True), partial(self._give_up, going)]
        self._steps += [partial(self._take, event, assigned), partial(self._tell_assigned, added)]

    # -- the steps

    def _join(self, reason: str, deadline: float) -> bool:
        self._steps.popleft()
        subscription = self._subscription
        topics = subscription.topics
        if topics is None:
            return True
        owned = tuple(subscription.partitions)
        protocols = []
        for assignor in self.strategy.assignors.values():
            user_data = assignor.user_data(topics)
            subscription_data = GroupSubscription(topics, owned, self._generation, self._rack, user_data)
            protocols.append((assignor.name, encode_subscription(subscription_data)))
        self._number += 1
        self._change(PhaseEvent.JOINED)
        self._enforced = None
        self._joined_topics = topics
        self._watched = None
        data = JoinData(self._number, protocols, reason, self._membership if owned else None)
        self._submit(lambda: self._member.join(data))
        return True

    def _lead(self, event: Lead, seen_version: int, deadline: float) -> Operation[bool]:
        """Compute the assignment once the metadata of all topics is known."""
        try:
            division = Division(event.members)
        except KafkaError:
            self._begin_again(event)
            raise
        missing = self._unknown(division.topics)
        while missing and self._member.leads(event.generation):
            if seen_version < 0:
                seen_version = self._metadata.cluster.version
                self._steps[0] = partial(self._lead, event, seen_version)
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
        self._steps.popleft()
        return True

    def _begin_again(self, event: Lead) -> None:
        """Rejoin with the next call, because the group will not receive an assignment from this member."""
        self._steps.popleft()
        self._change(PhaseEvent.NOT_DIVIDED)
        self._submit(lambda: self._member.give_up(event.generation))

    def _unknown(self, topics: Iterable[str]) -> list[str]:
        known = self._metadata.cluster.topics
        return sorted(topic for topic in topics if topic not in known)

    def _divide(self, event: Lead, division: Division) -> None:
        cluster = self._metadata.cluster
        self._watched = partition_counts(cluster, division.topics, {})
        assignments: dict[str, bytes] = {}
        if not event.skip:
            assignor = self.strategy.assignors.get(event.generation.protocol or "")
            if assignor is None:
                raise IllegalStateError(f"the coordinator chose the unknown assignor {event.generation.protocol!r}")
            assignments = division.divide(assignor, cluster, cooperative=self.strategy.cooperative)
        self._submit(lambda: self._member.sync(event.generation, assignments))

    def _take(self, event: Assigned, assigned: list[TopicPartition], deadline: float) -> bool:
        self._steps.popleft()
        self._membership = event.membership
        self._generation = event.generation.id
        if self._watched is None and self._subscription.topics is not None:
            self._metadata.set_topics(self._subscription.topics)
        assignor = self.strategy.assignors.get(event.generation.protocol or "")
        if assignor is not None:
            try:
                assignor.on_assignment(assigned, event.generation.id)
            except Exception as error:  # noqa: BLE001 - raised by `step`; the partitions are this member's nevertheless
                self._listener_error = self._listener_error or error
        _log.info("generation %d: assigned %s", event.generation.id, ", ".join(map(str, assigned)) or "nothing")
        self._subscription.assign_from_group(assigned)
        return True

    def _prepare_leaving(self) -> None:
        """Stay a normal member until leaving."""

    def _forget(self) -> None:
        """Start again with the next subscription."""
        self._number += 1
        self._mailbox.clear()
        self._change(PhaseEvent.LEFT)
        self._joined_topics = self._watched = self._fenced = self._enforced = None
        self._generation = NO_GENERATION
