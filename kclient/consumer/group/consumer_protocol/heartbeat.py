"""The heartbeat request of the consumer protocol (KIP-848): complete when joining, afterwards only the changes.

For the coordinator a missing field is unchanged. The fields that were sent are remembered until a request fails,
because then the coordinator's state is unknown. Elsewhere: when it is sent, and its response (`member`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that will return: its partitions are kept until the session ends."""
REGEX_FROM = 1
"""The first version with patterns."""

Partitions = Mapping[UUID, tuple[int, ...]]
"""Partition numbers in order, by topic id."""


class SubscriptionSpec(NamedTuple):
    """The subscription of a member.

    Attributes:
        topics: topic names.
        regex: a pattern that the coordinator matches (RE2); None without one.
    """

    topics: tuple[str, ...]
    regex: str | None = None


class OwnedPartitions(NamedTuple):
    """The partitions that a member owns.

    Attributes:
        number: the number of their target; the same partitions are acknowledged once per target.
        partitions: by topic id.
    """

    number: int
    partitions: Partitions


NOTHING = OwnedPartitions(0, {})


class HeartbeatFields:
    """Makes the heartbeats of one member.

    Parameters:
        config: the consumer's options.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        assert config.group_id is not None
        self._group = config.group_id
        self._instance_id = config.group_instance_id
        self._rack = config.client_rack or None
        self._rebalance_ms = config.max_poll_interval_ms
        self._assignor = config.group_remote_assignor
        self._spec: SubscriptionSpec | None = None
        self._held: OwnedPartitions | None = None
        # Whether the coordinator may have a pattern of this member; only brokers with support for patterns receive it.
        self._pattern_told = False

    def message(
        self,
        member_id: str,
        epoch: int,
        spec: SubscriptionSpec,
        held: OwnedPartitions,
        coming: Iterable[OwnedPartitions],
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat.

        Parameters:
            member_id, epoch: the member's.
            spec: its subscription.
            held: the partitions that the application last had.
            coming: the partitions that the application may have added since. They are included, because the coordinator
                gives partitions that it wants back and that are missing to others.
        """
        message = self._bare(member_id, epoch)
        before = self._spec
        if epoch == JOIN_EPOCH or before is None:
            message.rebalance_timeout_ms = self._rebalance_ms
            message.server_assignor = self._assignor
        if epoch == JOIN_EPOCH:
            message.rack_id = self._rack
        if epoch == JOIN_EPOCH or before is None or before.topics != spec.topics:
            message.subscribed_topic_names = list(spec.topics)
        if spec.regex is not None:
            self._pattern_told = True
        if self._pattern_told:
            if epoch == JOIN_EPOCH or before is None or before.regex != spec.regex:
                message.subscribed_topic_regex = spec.regex or ""
            elif spec.regex is None:
                # It was revoked with the previous heartbeat, which has been answered.
                self._pattern_told = False
        if epoch == JOIN_EPOCH or held != self._held:
            numbers: dict[UUID, set[int]] = {}
            for one in (held, *coming):
                for topic_id, those in one.partitions.items():
                    numbers.setdefault(topic_id, set()).update(those)
            kind = ConsumerGroupHeartbeatRequest.TopicPartitions
            message.topic_partitions = [
                kind(topic_id=topic_id, partitions=sorted(those)) for topic_id, those in numbers.items()
            ]
        self._spec, self._held = spec, held
        return message

    def leave(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """Return the last heartbeat."""
        return self._bare(member_id, epoch)

    def forget(self) -> None:
        """Make the next heartbeat complete, because the coordinator's state is unknown."""
        self._spec = self._held = None

    def _bare(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=member_id, member_epoch=epoch, instance_id=self._instance_id
        )
