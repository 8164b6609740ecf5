"""The view of the cluster: when it is asked for, what is kept of an answer, starting over."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.config import AdminConfig, ConsumerConfig, ProducerConfig
from kclient.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    NotKafkaError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from kclient.net.cluster import Cluster
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.types import Node, TopicPartition
from tests.kclient.net.scripted import ScriptedChannel, ScriptedEngine, cluster, topic
from tests.support.typed import reread

OLD, NEW = UUID(int=1), UUID(int=2)


def asked(channel: ScriptedChannel) -> list[str] | None:
    """The topics of the one request that waits for an answer."""
    ((_, message),) = channel.unanswered
    assert isinstance(message, MetadataRequest)
    return None if message.topics is None else [entry.name or "" for entry in message.topics]


def connected(scripted: ScriptedEngine) -> ScriptedChannel:
    """Connect to broker 0 of a client that was started."""
    scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    return scripted.connect()


def refreshed(scripted: ScriptedEngine, channel: ScriptedChannel, response: MetadataResponse) -> None:
    """Ask again, and get this answer."""
    scripted.metadata.request_update()
    scripted.advance(1.1)
    channel.answer(response)
    scripted.settle()


def test_brokers_are_requested_before_any_topic_is_needed() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.connect()
    assert asked(channel) == []
    channel.answer(cluster(3))
    scripted.settle()
    view = scripted.metadata.cluster
    assert (view.cluster_id, view.controller_id, view.version) == ("c", 0, 1)
    assert view.brokers[2] == Node(2, "b2", 9092, None)


def test_topics_of_interest_come_with_sorted_partitions() -> None:
    scripted = ScriptedEngine()
    scrambled = topic("t", 3)
    scrambled.partitions.reverse()
    scripted.metadata.add_topic("t")
    scripted.settle()
    scripted.connect().answer(cluster(topics={}, brokers=1))
    scripted.settle()
    assert isinstance(scripted.metadata.topic_error("t"), UnknownTopicOrPartitionError)
    channel = connected(scripted)
    scripted.advance(1.1)
    channel.answer(_with(cluster(), scrambled))
    scripted.settle()
    partitions = scripted.metadata.cluster.partitions("t")
    assert partitions is not None
    assert [entry.partition for entry in partitions] == [0, 1, 2]
    assert scripted.metadata.topic_error("t") is None


def test_metadata_of_a_new_topic_is_requested_at_once_and_alone() -> None:
    scripted = ScriptedEngine()
    scripted.start(a=1)
    channel = connected(scripted)
    scripted.metadata.add_topic("b")
    scripted.settle()
    assert asked(channel) == ["b"]
    channel.answer(cluster(topics={"b": 2}))
    scripted.settle()
    assert set(scripted.metadata.cluster.topics) == {"a", "b"}


def test_a_topic_nobody_wants_is_forgotten() -> None:
    scripted = ScriptedEngine()
    scripted.start(a=1, b=1)
    scripted.metadata.set_topics(["b"])
    scripted.settle()
    assert set(scripted.metadata.cluster.topics) == {"b"}
    scripted.metadata.remove_topics(["b", "never"])
    scripted.settle()
    assert not scripted.metadata.cluster.topics


def test_all_topics_are_asked_for_when_all_are_wanted() -> None:
    scripted = ScriptedEngine()
    scripted.start(a=1)
    channel = connected(scripted)
    scripted.metadata.want_all = True
    scripted.advance(1.1)
    assert asked(channel) is None
    channel.answer(cluster(topics={"x": 1, "y": 1}))
    scripted.settle()
    assert set(scripted.metadata.cluster.topics) == {"x", "y"}


def test_metadata_is_refreshed_when_it_is_old() -> None:
    scripted = ScriptedEngine(
        ProducerConfig(bootstrap_servers="boot:1", metadata_max_age_ms=10_000, connections_max_idle_ms=-1)
    )
    scripted.start(a=1)
    channel = connected(scripted)
    scripted.advance(9.0)
    assert not channel.unanswered
    scripted.advance(1.1)
    assert asked(channel) == ["a"]


def test_requested_updates_keep_the_backoff_between_them() -> None:
    scripted = ScriptedEngine(ProducerConfig(bootstrap_servers="boot:1", retry_backoff_ms=100))
    scripted.start(a=1)
    channel = connected(scripted)
    scripted.advance(1.0)
    for _ in range(5):
        scripted.metadata.request_update()
    scripted.settle()
    assert len(channel.unanswered) == 1
    channel.answer(cluster(topics={"a": 1}))
    scripted.settle()
    scripted.metadata.request_update()
    scripted.advance(0.07)
    assert not channel.unanswered
    scripted.advance(0.06)
    assert len(channel.unanswered) == 1


def test_a_leader_epoch_never_goes_back_for_the_same_topic() -> None:
    scripted = ScriptedEngine()
    scripted.start(2, t=1)
    channel = connected(scripted)
    refreshed(scripted, channel, _with(cluster(2), topic("t", 1, epoch=4)))
    known = scripted.metadata.cluster.partition("t", 0)
    assert known is not None
    assert known.leader_epoch == 5
    refreshed(scripted, channel, _with(cluster(2), topic("t", 1, epoch=6)))
    known = scripted.metadata.cluster.partition("t", 0)
    assert known is not None
    assert known.leader_epoch == 6


def test_a_topic_made_again_under_the_same_name_starts_again() -> None:
    view = Cluster().updated(_with(cluster(), topic("t", 1, epoch=9, topic_id=OLD)), asked=["t"], keep=[])
    view = view.updated(_with(cluster(), topic("t", 1, epoch=0, topic_id=NEW)), asked=["t"], keep=[])
    known = view.partition("t", 0)
    assert known is not None
    assert known.leader_epoch == 0
    assert view.topic_id("t") == NEW
    assert view.topic_names == {NEW: "t"}


def test_partitions_never_get_fewer_for_the_same_topic() -> None:
    view = Cluster().updated(_with(cluster(), topic("t", 3, topic_id=OLD)), asked=["t"], keep=[])
    behind = view.updated(_with(cluster(), topic("t", 1, topic_id=OLD)), asked=["t"], keep=[])
    assert behind.partitions("t") == view.partitions("t")
    again = view.updated(_with(cluster(), topic("t", 1, topic_id=NEW)), asked=["t"], keep=[])
    assert [entry.partition for entry in again.partitions("t") or ()] == [0]


def test_hints_at_new_leaders_are_taken_when_they_are_newer() -> None:
    scripted = ScriptedEngine()
    scripted.start(1, t=2)
    versions: list[int] = []
    scripted.metadata.add_listener(lambda view: versions.append(view.version))
    hint = {TopicPartition("t", 0): (7, 6), TopicPartition("t", 1): (7, 5), TopicPartition("nobody", 0): (7, 9)}
    scripted.metadata.update_leaders(hint, [Node(7, "b7", 9092)])
    view = scripted.metadata.cluster
    first, second = view.partition("t", 0), view.partition("t", 1)
    assert first is not None
    assert second is not None
    assert (first.leader, first.leader_epoch) == (7, 6)
    assert (second.leader, second.leader_epoch) == (0, 5)
    assert versions == [view.version]
    scripted.nodes.ready(7, scripted.clock())
    scripted.settle()
    assert scripted.channel.address.sockaddr[0] == "b7"
    scripted.metadata.update_leaders({TopicPartition("t", 0): (0, 6)}, [])
    assert versions == [view.version]


@pytest.mark.parametrize(("code", "kind"), [(17, InvalidTopicError), (29, TopicAuthorizationError)])
def test_an_error_that_stays_is_kept_and_not_asked_about_again_and_again(code: int, kind: type[Exception]) -> None:
    scripted = ScriptedEngine()
    scripted.start(bad=1)
    channel = connected(scripted)
    refreshed(scripted, channel, _with(cluster(), topic("bad", 0, error_code=code)))
    assert isinstance(scripted.metadata.topic_error("bad"), kind)
    assert scripted.metadata.cluster.partitions("bad") is None
    scripted.advance(5.0)
    assert not channel.unanswered


def test_an_error_from_before_a_topic_was_added_does_not_count() -> None:
    forbidden = topic("t", 0, error_code=29)
    scripted = ScriptedEngine()
    scripted.start()
    channel = connected(scripted)
    scripted.metadata.add_topic("t")
    scripted.settle()
    channel.answer(_with(cluster(), forbidden))
    scripted.settle()
    assert isinstance(scripted.metadata.topic_error("t"), TopicAuthorizationError)
    # Dropped and added again, before the network thread has seen either.
    scripted.metadata.remove_topics(["t"])
    assert scripted.metadata.topic_error("t") is None
    scripted.metadata.add_topic("t")
    assert scripted.metadata.topic_error("t") is None
    scripted.settle()
    assert asked(channel) == ["t"]
    # While this request is in flight, the topic is dropped and added again: the response is about the time before.
    scripted.metadata.remove_topics(["t"])
    scripted.metadata.add_topic("t")
    channel.answer(_with(cluster(), forbidden))
    assert scripted.metadata.topic_error("t") is None
    scripted.settle()
    assert scripted.metadata.topic_error("t") is None
    assert asked(channel) == ["t"]
    channel.answer(cluster(topics={"t": 1}))
    scripted.settle()
    assert scripted.metadata.cluster.partitions("t")
    assert scripted.metadata.topic_error("t") is None


def test_a_topic_without_leaders_is_asked_about_with_growing_pauses() -> None:
    scripted = ScriptedEngine()
    scripted.start(t=1)
    channel = connected(scripted)
    refreshed(scripted, channel, _with(cluster(), topic("t", 0, error_code=5)))
    assert isinstance(scripted.metadata.topic_error("t"), LeaderNotAvailableError)
    pauses = []
    for _ in range(4):
        started = scripted.clock()
        while not channel.unanswered:
            scripted.advance(0.01)
        pauses.append(scripted.clock() - started)
        channel.answer(_with(cluster(), topic("t", 0, error_code=5)))
        scripted.settle()
    assert pauses[0] < 0.14
    assert pauses[3] > 0.6
    while not channel.unanswered:
        scripted.advance(0.01)
    channel.answer(cluster(topics={"t": 1}))
    scripted.settle()
    scripted.advance(5.0)
    assert not channel.unanswered
    assert scripted.metadata.topic_error("t") is None


@pytest.mark.parametrize(
    ("config", "may"),
    [
        (ProducerConfig(bootstrap_servers="boot:1"), True),
        (AdminConfig(bootstrap_servers="boot:1"), False),
        (ConsumerConfig(bootstrap_servers="boot:1", allow_auto_create_topics=False), False),
    ],
    ids=["producer", "admin", "consumer"],
)
def test_only_who_may_create_topics_lets_brokers_create_them(config: ProducerConfig, may: bool) -> None:
    scripted = ScriptedEngine(config)
    scripted.settle()
    channel = scripted.connect()
    _, message = channel.unanswered[0]
    assert isinstance(message, MetadataRequest)
    assert message.allow_auto_topic_creation is may


def test_metadata_without_brokers_is_requested_again() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.connect()
    channel.answer(cluster(0))
    scripted.settle()
    assert scripted.metadata.cluster.version == 0
    assert scripted.metadata.last_error is not None
    scripted.advance(0.2)
    assert len(channel.unanswered) == 1


def test_when_no_known_broker_answers_the_bootstrap_servers_are_asked_again() -> None:
    scripted = ScriptedEngine()
    scripted.start(2, t=1)
    scripted.metadata.request_update()
    scripted.advance(0.2)
    seen = []
    for _ in range(40):
        channel = scripted.channel
        if channel.address.sockaddr[0] == "boot":
            break
        if not channel.closed:
            seen.append(channel.address.sockaddr[0])
            channel.refuse()
        scripted.advance(0.1)
    assert set(seen) == {"b0", "b1"}
    moved = cluster(topics={"t": 1})
    moved.brokers[0].host = "new"
    scripted.connect().answer(moved)
    scripted.settle()
    assert scripted.metadata.cluster.brokers[0].host == "new"
    assert scripted.metadata.cluster.partitions("t")


def test_without_the_strategy_nobody_starts_over() -> None:
    scripted = ScriptedEngine(ProducerConfig(bootstrap_servers="boot:1", metadata_recovery_strategy="none"))
    scripted.start(1)
    scripted.metadata.request_update()
    scripted.advance(0.2)
    for _ in range(30):
        assert scripted.channel.address.sockaddr[0] != "boot" or scripted.channel.closed
        if not scripted.channel.closed:
            scripted.channel.refuse()
        scripted.advance(0.1)


def test_a_broker_can_ask_the_client_to_start_over() -> None:
    scripted = ScriptedEngine()
    scripted.start(1)
    channel = connected(scripted)
    refreshed(scripted, channel, MetadataResponse(error_code=129))
    scripted.advance(1.1)
    assert scripted.channel.address.sockaddr[0] == "boot"
    assert not channel.unanswered


def test_metadata_that_is_fetched_again_is_logged_as_loudly_as_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    scripted = ScriptedEngine(client_id="billing")
    channel = scripted.start(1)
    caplog.clear()
    for answer in (MetadataResponse(error_code=-1), MetadataResponse(error_code=-1), cluster()):
        scripted.metadata.request_update()
        scripted.advance(2.0)
        channel = scripted.channel if scripted.channel.unanswered else connected(scripted)
        channel.answer(answer)
        scripted.settle()
    found = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "kclient.net.metadata"]
    (first, failure), recovery = found
    assert (first, recovery) == ("WARNING", ("WARNING", "producer 'billing': metadata was updated again"))
    assert failure.startswith("producer 'billing': metadata could not be updated: ")


def test_starting_over_again_and_again_is_a_warning_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    scripted = ScriptedEngine()
    scripted.start(1)

    def warnings_in(seconds: float) -> int:
        caplog.clear()
        ends = scripted.clock.now + seconds
        while scripted.clock.now < ends:
            scripted.metadata.request_update()
            scripted.advance(1.0)
            if scripted.channel.address.sockaddr[0] == "b0" and not scripted.channel.closed:
                scripted.channel.refuse()
                scripted.advance(0.5)
            scripted.connect().answer(cluster())
            scripted.settle()
        return sum("rebootstrapping" in record.message for record in caplog.records if record.levelname == "WARNING")

    assert warnings_in(50.0) == 1
    assert warnings_in(60.0) == 1


def test_too_long_without_metadata_the_client_starts_over() -> None:
    scripted = ScriptedEngine(
        ProducerConfig(bootstrap_servers="boot:1", metadata_recovery_rebootstrap_trigger_ms=5_000)
    )
    scripted.start(1)
    channel = connected(scripted)
    scripted.metadata.request_update()
    scripted.advance(1.0)
    assert channel.unanswered
    for _ in range(5):
        scripted.advance(1.0)
    # The silent broker still has the request; the next one goes to the bootstrap server.
    scripted.advance(30.0)
    scripted.advance(1.0)
    assert scripted.channel.address.sockaddr[0] == "boot"


def test_listeners_receive_each_update_and_invalid_clusters() -> None:
    scripted = ScriptedEngine()
    heard: list[int] = []
    scripted.metadata.add_listener(lambda view: heard.append(view.version))
    scripted.settle()
    scripted.channel.accept()
    scripted.settle()
    scripted.channel.nonsense(b"HTTP/1.1 400")
    scripted.settle()
    assert heard[0] == 0
    assert isinstance(scripted.metadata.fatal_error, NotKafkaError)
    scripted.advance(1.5)
    scripted.connect().answer(cluster())
    scripted.settle()
    assert heard[-1] == 1
    assert reread(scripted.metadata.fatal_error) is None
    assert scripted.metadata.last_error is None


def _with(response: MetadataResponse, *topics: MetadataResponse.MetadataResponseTopic) -> MetadataResponse:
    response.topics = list(topics)
    return response
