"""The group of one consumer: the wiring of coordinator, member and rebalance.

Elsewhere: these parts themselves, and committed offsets (`kclient.consumer.committed`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import NamedTuple

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.abstract_member import MemberContext
from kclient.consumer.group.classic.member import GroupMember
from kclient.consumer.group.classic.rebalance import Coordination
from kclient.consumer.group.consumer_protocol.member import ConsumerMember
from kclient.consumer.group.consumer_protocol.reconciliation import Reconciliation
from kclient.consumer.group.consumer_protocol.topic_names import TopicNames
from kclient.consumer.group.events import Mailbox
from kclient.consumer.group.poll_interval import PollInterval
from kclient.consumer.group.rebalance_steps import Commits, RebalanceThreads, Wait
from kclient.net.coordinator import GROUP, Coordinator
from kclient.net.engine import Engine
from kclient.net.manager import Manager, Request
from kclient.net.operation import Operation


class MemberParts(NamedTuple):
    """The parts of a group on the network thread.

    Attributes:
        coordinator: the group's coordinator.
        member: this consumer's membership.
        names: the lookup of topics assigned by id; None with the classic protocol, which uses names.
        mailbox: the member's events for the application.
        poll_interval: whether the application makes progress.
    """

    coordinator: Coordinator
    member: GroupMember | ConsumerMember
    names: TopicNames | None
    mailbox: Mailbox
    poll_interval: PollInterval

    @property
    def managers(self) -> list[Manager]:
        """The managers for the network thread; the coordinator is the last, because the others request its lookup."""
        return [manager for manager in (self.member, self.names, self.coordinator) if manager is not None]


def wire_member(
    config: ConsumerConfig,
    engine: Engine,
    *,
    random: Random,
    poll_interval: PollInterval,
    wake: Callable[[], None],
) -> MemberParts:
    """Return the parts on the network thread; the caller adds the managers to the engine.

    Parameters:
        config: the consumer's options, with a group_id.
        engine: the consumer's engine.
        random: for jitter.
        poll_interval: whether the application makes progress.
        wake: see `RebalanceThreads`.
    """
    assert config.group_id is not None
    coordinator = Coordinator(config.group_id, GROUP, engine.nodes, config, random=random)
    mailbox = Mailbox(wake)
    kind: type[ConsumerMember | GroupMember] = ConsumerMember if config.uses_consumer_protocol else GroupMember
    member = kind(MemberContext(config, coordinator, random, mailbox.put, poll_interval, engine.metrics))
    names = TopicNames(config, random=random, on_found=wake) if config.uses_consumer_protocol else None
    return MemberParts(coordinator, member, names, mailbox, poll_interval)


def wire_membership(
    config: ConsumerConfig,
    engine: Engine,
    subscription: Subscription,
    parts: MemberParts,
    *,
    commits: Commits | None,
    wait: Wait,
    wake: Callable[[], None],
) -> Membership:
    """Return the group of one consumer.

    Parameters:
        config: the consumer's options, with a group_id.
        engine, subscription: those of the consumer.
        parts: the parts on the network thread.
        commits: the committed offsets; None without automatic commits.
        wait, wake: see `RebalanceThreads`.
    """
    coordinator, member, names, mailbox, _ = parts
    threads = RebalanceThreads(engine.submit, engine.send, engine.clock, wait, wake)
    coordination: Coordination | Reconciliation
    if isinstance(member, GroupMember):
        coordination = Coordination(
            config, subscription, engine.metadata, coordinator, member, mailbox, threads, commits
        )
    else:
        assert names is not None
        coordination = Reconciliation(
            config, subscription, engine.metadata, coordinator, member, names, mailbox, threads, commits
        )
    engine.metadata.add_listener(coordination.on_metadata)
    return Membership(config, parts, coordination, engine.clock)


class Membership:
    """The group of one consumer.

    Parameters:
        config: the consumer's options.
        parts: the parts on the network thread.
        coordination: the application's part.
        clock: seconds; the engine's clock.

    Attributes:
        coordinator, member, mailbox, poll_interval: see `MemberParts`.
        coordination: the application's part.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        parts: MemberParts,
        coordination: Coordination | Reconciliation,
        clock: Callable[[], float],
    ) -> None:
        self.coordinator = parts.coordinator
        self.member = parts.member
        self.mailbox = parts.mailbox
        self.poll_interval = parts.poll_interval
        self.coordination = coordination
        self._static = config.group_instance_id is not None
        self._clock = clock

    @property
    def rebalancing(self) -> bool:
        """Whether partitions are being added or revoked, as far as the coordinator or the application knows; any
        thread.
        """
        return self.member.rebalancing or self.coordination.busy

    def step(self, deadline: float) -> Operation[bool]:
        """Do the rebalance steps of a call for records; see `RebalanceSteps.step`."""
        self.poll_interval.polled(self._clock())
        return self.coordination.step(deadline)

    def leave(self, deadline: float, *, leave_group: bool | None, reason: str) -> Operation[None]:
        """Give everything up; see `RebalanceSteps.leave`.

        Parameters:
            leave_group: None: a static member does not tell the coordinator, because it may return.
        """
        tell = not self._static if leave_group is None else leave_group
        return self.coordination.leave(deadline, tell=tell, reason=reason)

    def leave_at_once(self, left: Future[None], reason: str) -> list[Request]:
        """Leave without a call of the application: no commit, no listener (network thread).

        Parameters:
            left: completes when the coordinator has responded or need not be asked, as for a static member.

        Returns:
            The requests to send.
        """
        return self.member.leave(left, tell=not self._static, reason=reason)
