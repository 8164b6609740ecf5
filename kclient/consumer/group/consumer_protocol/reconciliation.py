"""The application's part of the consumer protocol (KIP-848): from its current partitions to its target.

The coordinator sends targets, and the latest one counts. The steps towards it (see `rebalance_steps`):

    revoked partitions   are committed, passed to the listener and dropped
    new partitions       are added and passed to the listener; they start at their committed offsets
    then                 the member reports its partitions to the coordinator

Partitions that stay are read all the time. A target has topic ids: a topic whose name is unknown waits until it is
looked up, and delays neither the revoked nor the other added partitions. The coordinator assigns a partition to another
member only after this one has released it, so a target may grow in two steps.

After a loss (the member was fenced, or left without progress) the listener is called, and the member joins again.
Elsewhere: the coordinator (`member`), how offsets are committed (`committed`), and the classic protocol
(`classic.rebalance`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.consumer_protocol.heartbeat import OwnedPartitions, SubscriptionSpec
from kclient.consumer.group.consumer_protocol.member import ConsumerMember
from kclient.consumer.group.consumer_protocol.states import ConsumerState
from kclient.consumer.group.consumer_protocol.topic_names import TopicNames
from kclient.consumer.group.events import Event, Failed, Mailbox, Rejoin, Target
from kclient.consumer.group.rebalance_steps import Commits, RebalanceSteps, RebalanceThreads
from kclient.errors import IllegalStateError, KafkaError
from kclient.net.coordinator import Coordinator
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)


class Reconciliation(RebalanceSteps):
    """The application's side of one membership.

    Parameters:
        config, subscription, metadata, coordinator, mailbox, threads, commits: see `RebalanceSteps`.
        member: the member on the network thread.
        names: looks up topics by id.
    """

    _member: ConsumerMember

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: Coordinator,
        member: ConsumerMember,
        names: TopicNames,
        mailbox: Mailbox,
        threads: RebalanceThreads,
        commits: Commits | None,
    ) -> None:
        super().__init__(config, subscription, metadata, coordinator, member, mailbox, threads, commits)
        self._names = names
        self._sent_spec: SubscriptionSpec | None = None
        self._target: Target | None = None
        # Topics of the target whose names are unknown.
        self._nameless: frozenset[UUID] = frozenset()
        # Names of the target's topics: the metadata may drop them while they are assigned.
        self._used: dict[UUID, str] = {}

    def enforce_rebalance(self, reason: str) -> None:
        """Refuse: this protocol has no enforced rebalance.

        Raises:
            IllegalStateError: the coordinator alone decides when partitions move.
        """
        raise IllegalStateError(
            'with group_protocol="consumer" the coordinator decides when partitions move, and no member can enforce it'
        )

    # -- what is to be done

    def _plan_event(self, event: Event) -> None:
        if isinstance(event, Target):
            # A later target has replaced it, or it was lost in the meantime, which is the next event.
            if event.membership == self._member.membership and not self._mailbox.holds(Target):
                self._membership = event.membership
                self._target = event
                self._plan_target(event)
        elif isinstance(event, Failed):
            self._steps.append(partial(self._raise_and_retry, event.error))
        elif isinstance(event, Rejoin) and event.lost:
            self._target = self._sent_spec = None
            self._look_up(frozenset())
            self._steps.append(partial(self._give_up, None))
            if self._member.state is ConsumerState.FATAL:
                self._fenced = event.error
            elif event.error is not None:
                self._steps.append(partial(self._raise, event.error))

    def _plan_more(self) -> None:
        topics, choice = self._subscription.topics, self._subscription.choice
        if topics is None or self._fenced is not None:
            return
        spec = SubscriptionSpec(topics, None if choice is None else choice.regex)
        if spec != self._sent_spec:
            self._steps.append(partial(self._subscribe, spec))
        elif self._target is not None and self._nameless and self._nameless & self._known():
            self._plan_target(self._target)

    def _plan_target(self, target: Target) -> None:
        names = {**self._used, **self._names.names, **self._metadata.cluster.topic_names}
        nameless = frozenset(target.partitions.keys() - names.keys())
        self._used = {one: names[one] for one in target.partitions if one in names}
        self._look_up(nameless)
        held = OwnedPartitions(
            target.target, {one: numbers for one, numbers in target.partitions.items() if one in names}
        )
        assigned = {
            TopicPartition(names[one], number): None for one, numbers in held.partitions.items() for number in numbers
        }
        owned = self._subscription.partitions
        going = [tp for tp in owned if tp not in assigned]
        added = [tp for tp in assigned if tp not in owned]
        if going:
            until = self._clock() + self._patience
            self._steps += [partial(self._commit, until, True), partial(self._give_up, going)]
        if going or added or not nameless:
            self._steps += [partial(self._take, list(assigned)), partial(self._tell_assigned, added)]
        self._steps.append(partial(self._acknowledge, target.membership, held))

    def _look_up(self, nameless: frozenset[UUID]) -> None:
        """Look up the names of these topics, and no others."""
        self._nameless = nameless
        self._submit(lambda: self._names.want(nameless))

    def _known(self) -> set[UUID]:
        return self._names.names.keys() | self._metadata.cluster.topic_names.keys()

    # -- the steps

    def _subscribe(self, spec: SubscriptionSpec, deadline: float) -> bool:
        self._steps.popleft()
        self._sent_spec = spec
        number, holding = self._number, self._membership if self._subscription.partitions else None
        self._submit(lambda: self._member.subscribe(number, spec, holding))
        return True

    def _take(self, assigned: list[TopicPartition], deadline: float) -> bool:
        self._steps.popleft()
        if self._is_lost():
            # The loss is the next event, and makes the rest of this step obsolete.
            self._steps.clear()
            return True
        topics = self._subscription.topics
        self._metadata.set_topics({*(topics or ()), *(tp.topic for tp in assigned)})
        _log.info("assigned %s", ", ".join(map(str, assigned)) or "nothing")
        self._subscription.assign_from_group(assigned)
        return True

    def _acknowledge(self, membership: int, held: OwnedPartitions, deadline: float) -> bool:
        self._steps.popleft()
        now = self._clock()
        self._submit(lambda: self._member.reconciled(membership, held, now))
        return True

    def _raise_and_retry(self, error: KafkaError, deadline: float) -> bool:
        self._submit(self._member.retry)
        return self._raise(error, deadline)

    def _prepare_leaving(self) -> None:
        self._submit(self._member.prepare_leaving)

    def _forget(self) -> None:
        self._number += 1
        self._mailbox.clear()
        self._sent_spec = self._target = self._fenced = None
        self._look_up(frozenset())
