"""A member of the consumer protocol, and what its coordinator answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kclient.consumer.group.consumer_protocol.heartbeat import OwnedPartitions, SubscriptionSpec
from kclient.consumer.group.consumer_protocol.member import ConsumerMember
from kclient.consumer.group.consumer_protocol.states import ConsumerState
from kclient.consumer.group.events import Target
from kclient.net.manager import Request
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.kclient.consumer.group.classic.scripted_member import ScriptedMember

State = ConsumerState
T, U = UUID(int=1), UUID(int=2)


class ConsumerProtocolMember(ScriptedMember[ConsumerMember]):
    """A member of the consumer protocol, its coordinator, and the time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(ConsumerMember, group_protocol="consumer", **options)

    @property
    def state(self) -> ConsumerState:
        return self.member.state

    def subscribe(self, *topics: str, regex: str | None = None, holding: int | None = None) -> None:
        self.member.subscribe(1, SubscriptionSpec(topics, regex), holding)

    def next_heartbeat(self) -> tuple[Request, Any]:
        return self.next(ConsumerGroupHeartbeatRequest)

    def answer(
        self,
        error: int = 0,
        *,
        epoch: int = 1,
        assigned: dict[UUID, list[int]] | None = None,
        request: Request | None = None,
        text: str | None = None,
    ) -> Any:
        """Answer the next heartbeat; its message."""
        message = None
        if request is None:
            request, message = self.next_heartbeat()
        kind = ConsumerGroupHeartbeatResponse
        assignment = None
        if assigned is not None:
            topics = [kind.TopicPartitions(topic_id=one, partitions=numbers) for one, numbers in assigned.items()]
            assignment = kind.Assignment(topic_partitions=topics)
        response = kind(
            error_code=error,
            error_message=text,
            member_id=message.member_id if message is not None else None,
            member_epoch=epoch if not error else 0,
            heartbeat_interval_ms=3_000,
            assignment=assignment,
        )
        request.on_response(response, self.now)
        return message

    def reconcile(self, target: int = 1, **partitions: Any) -> None:
        event = self.events[-1]
        assert isinstance(event, Target)
        assert event.target == target
        self.member.reconciled(event.membership, OwnedPartitions(event.target, event.partitions), self.now)

    def stable(self) -> ConsumerProtocolMember:
        self.subscribe("t")
        self.answer(assigned={T: [0, 1]})
        self.reconcile()
        self.answer()
        assert self.state is State.STABLE
        self.events.clear()
        return self
