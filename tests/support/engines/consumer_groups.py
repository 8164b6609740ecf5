"""A model of the coordinator of the consumer protocol (KIP-848): its rules alone, without storage or settings.

A member's epoch and partitions advance with its own heartbeats. It is assigned the partitions of its target that no
other member still owns. While it owns partitions outside its target, it keeps its epoch until it reports that it
revoked them. Not implemented: patterns, migration, static members, and assignors beyond balanced assignments.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kclient.errors import FencedMemberEpochError, NotCoordinatorError, UnknownMemberIdError
from kclient.protocol import Message
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.engines.groups import POLL_MS, SESSION_MS, GroupCluster, Owner
from tests.support.engines.network import Later, Simulation

_INTERVAL_MS = 1_000

Partition = tuple[UUID, int]


class ModelMember:
    """The coordinator's state of a member.

    Attributes:
        epoch, previous: its current epoch, and the previous one.
        assigned: the partitions it may read.
        pending: the partitions it has to revoke and has not yet reported as revoked.
    """

    def __init__(self) -> None:
        self.epoch = self.previous = 0
        self.topics: frozenset[str] = frozenset()
        self.assigned: set[Partition] = set()
        self.pending: set[Partition] = set()
        self.session_ends = self.pending_ends = 0.0


class ConsumerCluster(GroupCluster):
    """Three brokers, some topics, and a group that one of them coordinates."""

    def __init__(self, simulation: Simulation, **topics: int) -> None:
        self.ids = {name: UUID(int=number) for number, name in enumerate(topics, 1)}
        self.epoch = 0
        self.members: dict[str, ModelMember] = {}
        self.targets: dict[str, set[Partition]] = {}
        super().__init__(simulation, **topics)

    def move(self, node: int) -> None:
        """Move the coordinator to another broker, where all sessions start again."""
        self.coordinator = node
        for member in self.members.values():
            member.session_ends = self.simulation.now + SESSION_MS / 1000

    def accepts(self, owner: Owner) -> bool:
        """Return whether the coordinator would accept an offset commit of a member."""
        self._expire()
        generation = owner.group.member.generation_now()
        member = None if generation is None else self.members.get(generation.member_id)
        return member is not None and generation is not None and generation.id == member.epoch

    def divide(self) -> None:
        """Compute new targets, as balanced and as sticky as possible."""
        self.epoch += 1
        wanted = {name for member in self.members.values() for name in member.topics}
        left = [(self.ids[name], number) for name in sorted(wanted) for number in range(self.topics.get(name, 0))]
        members = sorted(self.members)
        self.targets = {}
        for position, member_id in enumerate(members):
            share = len(left) // (len(members) - position)
            held = self.members[member_id].assigned
            mine = sorted(left, key=lambda partition: partition not in held)[:share]
            self.targets[member_id] = set(mine)
            left = [partition for partition in left if partition not in mine]

    def answer(self, node: int, request: Message, version: int) -> Message | Later | None:
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return super().answer(node, request, version)
        self._expire()
        if node != self.coordinator:
            return ConsumerGroupHeartbeatResponse(error_code=NotCoordinatorError.code)
        if request.member_epoch < 0:
            if self.members.pop(request.member_id, None) is not None:
                self.divide()
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return self._heartbeat(request)

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch == 0:
            assert request.topic_partitions == []
            assert request.rebalance_timeout_ms == POLL_MS
            self.members[request.member_id] = ModelMember()
        member = self.members.get(request.member_id)
        if member is None:
            return ConsumerGroupHeartbeatResponse(error_code=UnknownMemberIdError.code)
        told = request.topic_partitions
        owned = None if told is None else {(one.topic_id, number) for one in told for number in one.partitions}
        behind = request.member_epoch == member.previous and owned is not None and owned <= member.assigned
        if request.member_epoch != member.epoch and not behind:
            return ConsumerGroupHeartbeatResponse(error_code=FencedMemberEpochError.code)
        now = self.simulation.now
        member.session_ends = now + SESSION_MS / 1000
        names = request.subscribed_topic_names
        if names is not None and (request.member_epoch == 0 or frozenset(names) != member.topics):
            member.topics = frozenset(names)
            self.divide()
        before = set(member.assigned)
        self._reconcile(request.member_id, member, owned)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=member.epoch, heartbeat_interval_ms=_INTERVAL_MS
        )
        if before != member.assigned or names is not None:
            answer.assignment = _assignment(member.assigned)
        return answer

    def _reconcile(self, member_id: str, member: ModelMember, owned: set[Partition] | None) -> None:
        target = self.targets[member_id]
        if member.pending and owned is not None and not owned & member.pending:
            member.pending = set()
        going = member.assigned - target
        if going:
            member.assigned &= target
            member.pending |= going
            member.pending_ends = self.simulation.now + POLL_MS / 1000
        if member.pending:
            return
        if member.epoch != self.epoch:
            member.previous, member.epoch = member.epoch, self.epoch
        held = {one for other in self.members.values() if other is not member for one in other.assigned | other.pending}
        member.assigned |= target - held

    def _expire(self) -> None:
        now = self.simulation.now
        gone = [
            member_id
            for member_id, member in self.members.items()
            if now >= member.session_ends or (member.pending and now >= member.pending_ends)
        ]
        for member_id in gone:
            del self.members[member_id]
        if gone:
            self.divide()

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for topic in request.topics or ():
            topic.name = topic.name or names[topic.topic_id]
        response = super()._metadata(request)
        for answered in response.topics:
            answered.topic_id = self.ids.get(answered.name or "", UUID(int=0))
        return response


def _assignment(partitions: Iterable[Partition]) -> ConsumerGroupHeartbeatResponse.Assignment:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    kind = ConsumerGroupHeartbeatResponse
    return kind.Assignment(
        topic_partitions=[kind.TopicPartitions(topic_id=one, partitions=those) for one, those in numbers.items()]
    )
