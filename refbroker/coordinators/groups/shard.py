"""The groups in one partition of `__consumer_offsets`: what its records say, and what may be asked of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kclient.protocol import Message
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from refbroker.coordinators.groups.classic import ClassicProtocol
from refbroker.coordinators.groups.group import ClassicGroup
from refbroker.coordinators.groups.rebalances import GroupSettings
from refbroker.coordinators.runtime import ShardContext

if TYPE_CHECKING:
    from refbroker.broker import Broker


class GroupShard:
    """The groups in one partition; a state machine of the runtime.

    Parameters:
        context: time and timers.
        broker: whose.

    Attributes:
        partition: of `__consumer_offsets`.
        groups: by id.
        classic: carries out the requests of classic groups.
    """

    def __init__(self, context: ShardContext[GroupShard], broker: Broker) -> None:
        self.partition = context.partition
        self.groups: dict[str, ClassicGroup] = {}
        self._context = context
        config, rng = broker.config, broker.rng
        self.classic = ClassicProtocol(
            self.groups,
            context,
            GroupSettings(
                initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
                max_size=config.integer("group.max.size"),
            ),
            lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        )

    # What the runtime asks for

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Take over what a record says."""
        if isinstance(key, GroupMetadataKey):
            if value is None:
                self.groups.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue)
                self.groups[key.group] = ClassicGroup.from_record(key.group, value, self._context.now)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or forget, the offsets of a transaction."""

    def loaded(self) -> None:
        """Begin: the groups' members have a session's time to be heard of."""
        for group in self.groups.values():
            self.classic.loaded(group)

    def unloaded(self) -> None:
        """End: whoever waits has to find the new coordinator."""
        for group in self.groups.values():
            self.classic.unloaded(group)
