"""Topics on brokers that are older than what is asked of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kclient.admin.topics import NewTopic, create_topics
from kclient.errors import BrokerConnectionError, DisconnectedError, KafkaError, UnsupportedVersionError
from kclient.net.cluster import Cluster as Metadata
from kclient.protocol import Message
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.types import Node
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, metadata, nodes_asked, soon


def create(node: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
    kind = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(topics=[kind(name=topic.name) for topic in request.topics])


def before_defaults() -> ScriptedCore:
    core = ScriptedCore(Cluster(CreateTopics=create), newest={CreateTopicsRequest: 3})
    core.engine = cast(Any, SimpleNamespace(metadata=SimpleNamespace(cluster=Metadata(), request_update=lambda: None)))
    return core


def validate(core: ScriptedCore, topic: NewTopic) -> Any:
    return finished(create_topics(core, [topic], True, soon("create_topics")))


@pytest.mark.parametrize("missing", [{"num_partitions": 3}, {"replication_factor": 1}, {}])
def test_defaults_that_an_old_broker_lacks_are_an_error_that_names_the_arguments(
    missing: dict[str, Any],
) -> None:
    core = before_defaults()
    with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.4: set num_partitions and replication_factor"):
        validate(core, NewTopic("t", **missing))
    assert not [request for _, request, _ in core.asked if isinstance(request, CreateTopicsRequest)]


@pytest.mark.parametrize("placed", [False, True])
def test_a_topic_that_says_how_it_shall_be_is_made_by_an_old_broker(placed: bool) -> None:
    core = before_defaults()
    topic = NewTopic("t", replica_assignment={0: [1]}) if placed else NewTopic("t", 3, 1)
    created = validate(core, topic)["t"]
    assert (created.name, created.num_partitions, created.configs) == ("t", -1, {})
    assert [version for _, request, version in core.asked if isinstance(request, CreateTopicsRequest)] == [3]


BEHIND = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(error_code=3, name="t")])


def beside_a_broker_that_answers(*answers: Message | KafkaError, leaves: bool = False) -> ScriptedCore:
    """Two brokers: the first shows every topic, the second gives these answers in turn, and then the topic."""
    left = list(answers)
    brokers = {number: Node(number, "h", number) for number in (1, 2)}
    engine = SimpleNamespace(metadata=SimpleNamespace(cluster=Metadata(brokers=brokers), request_update=lambda: None))

    def show(node: int, request: MetadataRequest) -> Message | KafkaError:
        if node != 2 or not left:
            return metadata(("t",))
        if leaves:
            engine.metadata.cluster = Metadata(brokers={1: brokers[1]})
        return left.pop(0)

    core = ScriptedCore(Cluster(CreateTopics=create, Metadata=show))
    core.engine = cast(Any, engine)
    return core


@pytest.mark.parametrize(
    ("answers", "leaves", "asked"),
    [
        ([], False, 1),
        ([BEHIND], False, 2),
        # A connection that was lost says nothing of what the broker knows.
        ([DisconnectedError()], False, 2),
        ([DisconnectedError(), BEHIND, BEHIND], False, 4),
        ([DisconnectedError(), DisconnectedError(), DisconnectedError(), BEHIND], False, 3),
        ([DisconnectedError(), BEHIND], True, 1),
        ([BrokerConnectionError("h", 2, "refused"), BEHIND], False, 1),
    ],
    ids=["shows it", "behind", "lost", "lost and behind", "lost again and again", "left", "cannot be reached"],
)
def test_who_made_a_topic_waits_for_each_broker_that_can_be_asked(
    answers: list[Message | KafkaError], leaves: bool, asked: int
) -> None:
    core = beside_a_broker_that_answers(*answers, leaves=leaves)
    assert list(finished(create_topics(core, [NewTopic("t", 2, 1)], False, soon()))) == ["t"]
    nodes = nodes_asked(core, MetadataRequest)
    assert nodes.count(2) == asked
    assert nodes.count(1) == 1


def test_a_topic_that_the_client_may_not_describe_is_not_waited_for() -> None:
    hidden = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(error_code=29, name="t")])
    core = beside_a_broker_that_answers(hidden, BEHIND)
    finished(create_topics(core, [NewTopic("t")], False, soon("create_topics")))
    assert nodes_asked(core, MetadataRequest) == [1, 2]
