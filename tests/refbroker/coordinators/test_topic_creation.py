"""Topics that the broker creates by itself, through a controller on another node."""

from __future__ import annotations

import logging

import pytest

from kclient.errors import InvalidReplicationFactorError, RequestTimedOutError, TopicExistsError
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from refbroker.coordinators.internal_topic import OFFSETS_TOPIC, InternalTopic
from refbroker.coordinators.topic_creation import AutoTopicCreation, NewTopic
from refbroker.metadata import ClusterImage
from tests.support.distant_controller import DistantController

Result = CreateTopicsResponse.CreatableTopicResult


def response(*results: Result) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=list(results))


async def test_a_topic_is_requested_once_until_there_is_an_answer() -> None:
    controller = DistantController()
    creation = AutoTopicCreation(controller)
    creation.create_topics([NewTopic(name="a")])
    creation.create_topics([NewTopic(name="a"), NewTopic(name="b")])
    creation.create_topics([NewTopic(name="b")])
    names = [[topic.name for topic in request.topics] for request in controller.requests]  # type: ignore[attr-defined]
    assert names == [["a"], ["b"]]
    await controller.answer(response(Result(name="a")))
    creation.create_topics([NewTopic(name="a")])
    assert len(controller.requests) == 2


async def test_the_partitions_of_new_topics_are_counted() -> None:
    controller = DistantController()
    counted: list[int] = []
    AutoTopicCreation(controller).create_topics([NewTopic(name="a"), NewTopic(name="b")], counted.append)
    await controller.answer(
        response(Result(name="a", num_partitions=3), Result(name="b", error_code=TopicExistsError.code))
    )
    assert counted == [3]


async def test_a_refusal_is_logged_unless_the_topic_exists(caplog: pytest.LogCaptureFixture) -> None:
    controller = DistantController()
    creation = AutoTopicCreation(controller)
    creation.create_topics([NewTopic(name="a"), NewTopic(name="b")])
    refused = Result(name="a", error_code=InvalidReplicationFactorError.code, error_message="Too few brokers.")
    await controller.answer(response(refused, Result(name="b", error_code=TopicExistsError.code)))
    creation.create_topics([NewTopic(name="c")])
    await controller.answer(RequestTimedOutError("no controller"))
    first, second = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "cannot create topic a: " in first
    assert "Too few brokers." in first
    assert "cannot create topic c: " in second


async def test_an_internal_topic_is_there_when_the_metadata_have_it() -> None:
    controller, image = DistantController(), ClusterImage()
    topic = InternalTopic(image, AutoTopicCreation(controller), OFFSETS_TOPIC, 50, 3, {"cleanup.policy": "compact"})
    assert not topic.ensure()
    assert not topic.ensure()
    wanted = NewTopic(
        name=OFFSETS_TOPIC,
        num_partitions=50,
        replication_factor=0,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name="cleanup.policy", value="compact")],
    )
    assert controller.requests == [CreateTopicsRequest(topics=[wanted])]
