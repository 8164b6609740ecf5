"""A consumer's group, put together: who coordinates it, the member, and the owner's part of rebalances.

Left out: everything these do, which is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from kclient.config import ConsumerConfig
from kclient.consumer.group.agenda import Wait
from kclient.consumer.group.coordination import Coordination
from kclient.consumer.group.member import GroupMember
from kclient.consumer.group.poll_interval import PollInterval
from kclient.consumer.subscription import Subscription
from kclient.net.coordinator import GROUP, Coordinator
from kclient.net.engine import Engine
from kclient.net.operation import Operation


class Membership:
    """The group of one consumer.

    Parameters:
        config: the consumer's options, with a group_id.
        engine: the consumer's; the managers made here are to be added to it, the coordinator last, since the others
            tell it in their turns what they need.
        subscription: the consumer's.
        random: for jitter.
        taken: gives the record that the application took last.
        wait: see `Coordination`.
        wake: see `Coordination`.
        clock: seconds; that of the engine.

    Attributes:
        coordinator, member: the network thread's side.
        coordination: the owner's.
        poll_interval: whether the application makes progress.
    """

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
        self.member = GroupMember(
            config,
            self.coordinator,
            random=random,
            on_event=lambda event: self.coordination.on_event(event),
            poll_interval=self.poll_interval,
            metrics=engine.metrics,
        )
        self.coordination = Coordination(
            config,
            subscription,
            engine.metadata,
            self.coordinator,
            self.member,
            submit=engine.submit,
            send=engine.send,
            clock=clock,
            wait=wait,
            wake=wake,
        )
        self._clock = clock
        self._static = config.group_instance_id is not None
        engine.metadata.add_listener(self.coordination.on_metadata)

    def step(self, deadline: float) -> Operation[bool]:
        """The application asks for records: see `Coordination.step`."""
        self.poll_interval.polled(self._clock())
        return self.coordination.step(deadline)

    def leave(self, deadline: float, *, leave_group: bool | None, reason: str) -> Operation[None]:
        """Give everything up: see `Coordination.leave`.

        Parameters:
            leave_group: None: a static member does not tell the coordinator, since it comes back.
        """
        tell = not self._static if leave_group is None else leave_group
        return self.coordination.leave(deadline, tell=tell, reason=reason)
