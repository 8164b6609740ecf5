"""A consumer's group, put together: who coordinates it, the member, and the owner's part of rebalances.

Left out: everything these do, which is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.agenda import Owner, Wait
from kclient.consumer.group.classic.member import GroupMember
from kclient.consumer.group.classic.rebalance import Coordination
from kclient.consumer.group.consumer_protocol.member import ConsumerMember
from kclient.consumer.group.consumer_protocol.reconciliation import Reconciliation
from kclient.consumer.group.consumer_protocol.topic_names import TopicNames
from kclient.consumer.group.events import Event
from kclient.consumer.group.poll_interval import PollInterval
from kclient.net.coordinator import GROUP, Coordinator
from kclient.net.engine import Engine
from kclient.net.manager import Manager
from kclient.net.operation import Operation


class Membership:
    """The group of one consumer.

    Parameters:
        config: the consumer's options, with a group_id.
        engine: the consumer's; `managers` are to be added to it.
        subscription: the consumer's.
        random: for jitter.
        taken: gives the record that the application took last.
        wait: see `Owner`.
        wake: see `Owner`.
        clock: seconds; that of the engine.

    Attributes:
        coordinator, member: the network thread's side.
        coordination: the owner's.
        poll_interval: whether the application makes progress.
        managers: what the network thread polls, the coordinator last, since the others tell it in their turns what
            they need.
    """

    member: GroupMember | ConsumerMember
    coordination: Coordination | Reconciliation
    managers: list[Manager]

    def __init__(
        self,
        config: ConsumerConfig,
        engine: Engine,
        subscription: Subscription,
        *,
        random: Random,
        taken: Callable[[], object],
        wait: Wait,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert config.group_id is not None
        self.coordinator = Coordinator(config.group_id, GROUP, engine.nodes, config, random=random)
        self.poll_interval = PollInterval(config.max_poll_interval_ms, taken)
        self._clock = clock
        self._static = config.group_instance_id is not None
        build = self._with_consumer_protocol if config.uses_consumer_protocol else self._with_classic_protocol
        build(config, engine, subscription, random, Owner(engine.submit, engine.send, clock, wait, wake))
        engine.metadata.add_listener(self.coordination.on_metadata)

    def _with_classic_protocol(
        self, config: ConsumerConfig, engine: Engine, subscription: Subscription, random: Random, owner: Owner
    ) -> None:
        self.member = member = GroupMember(
            config,
            self.coordinator,
            random=random,
            on_event=self._on_event,
            poll_interval=self.poll_interval,
            metrics=engine.metrics,
        )
        self.coordination = Coordination(config, subscription, engine.metadata, self.coordinator, member, owner)
        self.managers = [member, self.coordinator]

    def _with_consumer_protocol(
        self, config: ConsumerConfig, engine: Engine, subscription: Subscription, random: Random, owner: Owner
    ) -> None:
        self.member = member = ConsumerMember(
            config,
            self.coordinator,
            random=random,
            on_event=self._on_event,
            poll_interval=self.poll_interval,
            metrics=engine.metrics,
        )
        names = TopicNames(config, random=random, on_found=owner.wake)
        self.coordination = Reconciliation(
            config, subscription, engine.metadata, self.coordinator, member, names, owner
        )
        self.managers = [member, names, self.coordinator]

    def _on_event(self, event: Event) -> None:
        self.coordination.on_event(event)

    @property
    def rebalancing(self) -> bool:
        """Whether partitions are about to come or go, as the coordinator or the owner's call knows; any thread."""
        return self.member.rebalancing or self.coordination.busy

    def step(self, deadline: float) -> Operation[bool]:
        """The application asks for records: see `Agenda.step`."""
        self.poll_interval.polled(self._clock())
        return self.coordination.step(deadline)

    def leave(self, deadline: float, *, leave_group: bool | None, reason: str) -> Operation[None]:
        """Give everything up: see `Agenda.leave`.

        Parameters:
            leave_group: None: a static member does not tell the coordinator, since it comes back.
        """
        tell = not self._static if leave_group is None else leave_group
        return self.coordination.leave(deadline, tell=tell, reason=reason)
