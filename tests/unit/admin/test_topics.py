"""Topics on brokers that are older than what is asked of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kclient.admin.topics import NewTopic, create_topics
from kclient.errors import UnsupportedVersionError
from kclient.net.cluster import Cluster as Metadata
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.unit.admin.scripted import Cluster, ScriptedCore, finished, soon


def before_defaults() -> ScriptedCore:
    def create(node: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        kind = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(topics=[kind(name=topic.name) for topic in request.topics])

    core = ScriptedCore(Cluster(CreateTopics=create), newest={CreateTopicsRequest: 3})
    core.engine = cast(Any, SimpleNamespace(metadata=SimpleNamespace(cluster=Metadata(), request_update=lambda: None)))
    return core


def validate(core: ScriptedCore, topic: NewTopic) -> Any:
    return finished(create_topics(core, [topic], True, soon("create_topics")))


@pytest.mark.parametrize("missing", [{"num_partitions": 3}, {"replication_factor": 1}, {}])
def test_defaults_of_a_broker_that_is_too_old_for_them_are_an_error_that_says_what_to_give(
    missing: dict[str, int],
) -> None:
    core = before_defaults()
    with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.4: give num_partitions and replication_factor"):
        validate(core, NewTopic("t", **missing))
    assert not [request for _, request, _ in core.asked if isinstance(request, CreateTopicsRequest)]


@pytest.mark.parametrize("placed", [False, True])
def test_a_topic_that_says_how_it_shall_be_is_made_by_an_old_broker(placed: bool) -> None:
    core = before_defaults()
    topic = NewTopic("t", replica_assignment={0: [1]}) if placed else NewTopic("t", 3, 1)
    created = validate(core, topic)["t"]
    assert (created.name, created.num_partitions, created.configs) == ("t", -1, {})
    assert [version for _, request, version in core.asked if isinstance(request, CreateTopicsRequest)] == [3]
