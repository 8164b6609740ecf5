"""A member of either protocol, a scripted coordinator and the time: what its tests play with."""

from __future__ import annotations

import random
from typing import Any, Generic, TypeVar

from kclient.config import ConsumerConfig
from kclient.consumer.group.abstract_member import MemberContext
from kclient.consumer.group.classic.member import GroupMember
from kclient.consumer.group.consumer_protocol.member import ConsumerMember
from kclient.consumer.group.events import Event
from kclient.consumer.group.poll_interval import PollInterval
from kclient.errors import KafkaError
from kclient.metrics import Metrics
from kclient.net.manager import NEVER, Request

M = TypeVar("M", GroupMember, ConsumerMember)


class FakeCoordinator:
    def __init__(self) -> None:
        self.node: int | None = 1_001
        self.broker: int | None = 1
        self.fatal_error: KafkaError | None = None
        self.forgotten: list[KafkaError] = []

    def want(self) -> None:
        self.fatal_error = None

    def ready(self, now: float) -> bool:
        return self.node is not None

    def confirm(self) -> None:
        pass

    def forget(self, node: int, error: KafkaError, now: float) -> None:
        assert node == self.node
        self.forgotten.append(error)


class ScriptedMember(Generic[M]):
    """A member, its coordinator, and the time."""

    def __init__(self, member_type: type[M], **options: Any) -> None:
        config = ConsumerConfig(group_id="g", **options)
        self.now = 100.0
        self.coordinator = FakeCoordinator()
        self.events: list[Event] = []
        self.interval = PollInterval(config.max_poll_interval_ms, lambda: None)
        context = MemberContext(
            config,
            self.coordinator,  # type: ignore[arg-type]
            random=random.Random(1),
            on_event=self.events.append,
            poll_interval=self.interval,
            metrics=Metrics(),
        )
        self.member: M = member_type(context)

    def sent(self) -> Request | None:
        requests = self.member.poll(self.now).requests
        assert len(requests) <= 1
        return requests[0] if requests else None

    def next(self, kind: type) -> tuple[Request, Any]:
        """The next request, however long it takes, and its message."""
        for _ in range(100):
            poll = self.member.poll(self.now)
            if poll.requests:
                (request,) = poll.requests
                assert request.request_type is kind, request
                message: Any = request.build(kind.max_version)
                return request, message
            assert poll.deadline != NEVER, f"nothing is ever sent in {self.member.state}"
            self.now = max(self.now, poll.deadline)
        raise AssertionError("nothing was sent")
