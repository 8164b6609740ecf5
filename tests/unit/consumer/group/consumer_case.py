"""A member of the consumer protocol, a scripted coordinator and the time: what its tests play with."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.group.consumer_heartbeat import Held, Interest
from kclient.consumer.group.consumer_member import ConsumerMember
from kclient.consumer.group.consumer_states import ConsumerState
from kclient.consumer.group.events import Event, Target
from kclient.consumer.group.poll_interval import PollInterval
from kclient.metrics import Metrics
from kclient.net.manager import NEVER, Request
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.unit.consumer.group.test_member import FakeCoordinator

State = ConsumerState
T, U = UUID(int=1), UUID(int=2)


class Case:
    """A member, its coordinator, and the time."""

    def __init__(self, **options: Any) -> None:
        config = ConsumerConfig(group_id="g", group_protocol="consumer", **options)
        self.now = 100.0
        self.coordinator = FakeCoordinator()
        self.events: list[Event] = []
        self.interval = PollInterval(config.max_poll_interval_ms, lambda: None)
        self.member = ConsumerMember(
            config,
            self.coordinator,  # type: ignore[arg-type]
            random=random.Random(1),
            on_event=self.events.append,
            poll_interval=self.interval,
            metrics=Metrics("c"),
        )

    @property
    def state(self) -> ConsumerState:
        return self.member.state

    def subscribe(self, *topics: str, regex: str | None = None, holding: int | None = None) -> None:
        self.member.subscribe(1, Interest(topics, regex), holding)

    def sent(self) -> Request | None:
        requests = self.member.poll(self.now).requests
        assert len(requests) <= 1
        return requests[0] if requests else None

    def next(self) -> tuple[Request, Any]:
        """The next heartbeat, however long it takes."""
        for _ in range(100):
            poll = self.member.poll(self.now)
            if poll.requests:
                (request,) = poll.requests
                message: Any = request.build(ConsumerGroupHeartbeatRequest.max_version)
                return request, message
            assert poll.deadline != NEVER, f"nothing is ever sent in {self.state}"
            self.now = max(self.now, poll.deadline)
        raise AssertionError("nothing was sent")

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
            request, message = self.next()
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
        self.member.reconciled(event.membership, Held(event.target, event.partitions), self.now)

    def stable(self) -> Case:
        self.subscribe("t")
        self.answer(assigned={T: [0, 1]})
        self.reconcile()
        self.answer()
        assert self.state is State.STABLE
        self.events.clear()
        return self
