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


class TopicNameLookup:
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


def test_topic_names_are_requested_until_found_and_kept() -> None:
    lookup = TopicNameLookup()
    assert not lookup.names.poll(lookup.now).requests
    lookup.names.want([T, U])
    request, asked = lookup.next()
    assert asked == {T, U}
    assert not lookup.names.poll(lookup.now).requests
    lookup.answer(request, t=T)
    assert lookup.names.names == {T: "t"}
    assert lookup.found == 1
    before = lookup.now
    request, asked = lookup.next()
    assert asked == {U}
    assert lookup.now > before, "after a pause"
    lookup.answer(request, u=U)
    assert lookup.names.names == {T: "t", U: "u"}
    lookup.names.want([T, U])
    assert not lookup.names.poll(lookup.now + 100).requests


def test_failures_are_repeated_and_what_is_not_wanted_any_longer_is_not() -> None:
    lookup = TopicNameLookup()
    lookup.names.want([T])
    request, _ = lookup.next()
    request.on_error(DisconnectedError("gone"), lookup.now)
    request, asked = lookup.next()
    assert asked == {T}
    lookup.names.want([])
    request.on_error(DisconnectedError("gone"), lookup.now)
    assert not lookup.names.poll(lookup.now + 100).requests
    assert lookup.found == 0
