"""The heartbeat of the consumer protocol (KIP-848) as a message: whole when it joins, afterwards only what changed.

The coordinator takes a field that is left out for unchanged. So what was sent is remembered, and forgotten again when
an answer failed to come or was an error, since then nobody knows what the coordinator has. Elsewhere: when it is sent,
and what the answer means (`member`).
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
"""Of a static member that comes back: its partitions are kept for it until the session is over."""
REGEX_FROM = 1
"""The version that knows patterns."""

Partitions = Mapping[UUID, tuple[int, ...]]
"""Numbers of partitions, in order, by topic id."""


class Interest(NamedTuple):
    """What a member subscribes to.

    Attributes:
        topics: names.
        regex: a pattern that the coordinator matches (RE2); None for none.
    """

    topics: tuple[str, ...]
    regex: str | None = None


class Held(NamedTuple):
    """What a member has.

    Attributes:
        number: of the target that it was part of; the same partitions are acknowledged once for each target.
        partitions: by topic id.
    """

    number: int
    partitions: Partitions


NOTHING = Held(0, {})


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
        self._interest: Interest | None = None
        self._held: Held | None = None
        # Whether the coordinator may have a pattern of this member; only brokers that know patterns are ever told.
        self._pattern_told = False

    def message(
        self, member_id: str, epoch: int, interest: Interest, held: Held, coming: Iterable[Held]
    ) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat.

        Parameters:
            member_id, epoch: the member's.
            interest: what it subscribes to.
            held: what its owner had last.
            coming: what its owner may have taken since. That is told as well: the coordinator gives to others what it
                wants back and is not named.
        """
        message = self._bare(member_id, epoch)
        before = self._interest
        if epoch == JOIN_EPOCH or before is None:
            message.rebalance_timeout_ms = self._rebalance_ms
            message.server_assignor = self._assignor
        if epoch == JOIN_EPOCH:
            message.rack_id = self._rack
        if epoch == JOIN_EPOCH or before is None or before.topics != interest.topics:
            message.subscribed_topic_names = list(interest.topics)
        if interest.regex is not None:
            self._pattern_told = True
        if self._pattern_told:
            if epoch == JOIN_EPOCH or before is None or before.regex != interest.regex:
                message.subscribed_topic_regex = interest.regex or ""
            elif interest.regex is None:
                # It was taken back with the heartbeat before, whose answer came.
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
        self._interest, self._held = interest, held
        return message

    def leave(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        return self._bare(member_id, epoch)

    def forget(self) -> None:
        """Nobody knows what the coordinator has: the next heartbeat tells everything."""
        self._interest = self._held = None

    def _bare(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=member_id, member_epoch=epoch, instance_id=self._instance_id
        )
