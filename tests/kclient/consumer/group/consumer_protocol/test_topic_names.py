"""Topics by id: what is asked, how often, and what is kept."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.group.consumer_protocol.topic_names import TopicNames
from kclient.errors import DisconnectedError, UnknownTopicIdError
from kclient.net.manager import NEVER, Request
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

T, U = UUID(int=1), UUID(int=2)


class Case:
    def __init__(self) -> None:
        self.now = 100.0
        self.found = 0
        self.names = TopicNames(ConsumerConfig(group_id="g"), random=random.Random(1), on_found=self.on_found)

    def on_found(self) -> None:
        self.found += 1

    def next(self) -> tuple[Request, set[UUID]]:
        for _ in range(10):
            poll = self.names.poll(self.now)
            if poll.requests:
                (request,) = poll.requests
                assert request.minimum_version == 12
                message: Any = request.build(MetadataRequest.max_version)
                assert all(topic.name is None for topic in message.topics)
                return request, {topic.topic_id for topic in message.topics}
            assert poll.deadline != NEVER
            self.now = max(self.now, poll.deadline)
        raise AssertionError("nothing was sent")

    def answer(self, request: Request, **names: UUID) -> None:
        kind = MetadataResponse.MetadataResponseTopic
        topics = [kind(name=name, topic_id=topic_id) for name, topic_id in names.items()]
        missing = [kind(name=None, topic_id=U, error_code=UnknownTopicIdError.code)]
        request.on_response(MetadataResponse(topics=topics + missing), self.now)


def test_names_are_asked_for_until_they_are_found_and_kept() -> None:
    case = Case()
    assert not case.names.poll(case.now).requests
    case.names.want([T, U])
    request, asked = case.next()
    assert asked == {T, U}
    assert not case.names.poll(case.now).requests
    case.answer(request, t=T)
    assert case.names.names == {T: "t"}
    assert case.found == 1
    before = case.now
    request, asked = case.next()
    assert asked == {U}
    assert case.now > before, "after a pause"
    case.answer(request, u=U)
    assert case.names.names == {T: "t", U: "u"}
    case.names.want([T, U])
    assert not case.names.poll(case.now + 100).requests


def test_failures_are_repeated_and_what_is_not_wanted_any_more_is_not() -> None:
    case = Case()
    case.names.want([T])
    request, _ = case.next()
    request.on_error(DisconnectedError("gone"), case.now)
    request, asked = case.next()
    assert asked == {T}
    case.names.want([])
    request.on_error(DisconnectedError("gone"), case.now)
    assert not case.names.poll(case.now + 100).requests
    assert case.found == 0
