"""confluent-kafka's AdminClient against the broker under test: settings, elections, cluster and topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.interop.conftest import Target
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")

# Warnings about unclosed resources and deprecated calls of the client are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def client(target: Target) -> Any:
    return admin.AdminClient({"bootstrap.servers": target.bootstrap_servers})


@pytest.fixture
def created(client: Any, topic: str) -> str:
    """A topic of two partitions."""
    name: str = topic
    results(client.create_topics([admin.NewTopic(name, 2, 1, config={"retention.ms": "3600000"})]))
    # Kafka's brokers apply topics and settings a little after the controller has responded.
    wait_until(lambda: len(client.list_topics(name, timeout=ANSWER).topics[name].partitions) == 2)
    return name


def results(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    """What each part of a call came to; the first error is raised."""
    return {key: future.result(ANSWER) for key, future in futures.items()}


def entry(name: str, value: str | None, operation: str) -> Any:
    return admin.ConfigEntry(name, value, incremental_operation=getattr(admin.AlterConfigOpType, operation))


def described(client: Any, kind: Any, name: str) -> dict[str, Any]:
    (found,) = results(client.describe_configs([admin.ConfigResource(kind, name)])).values()
    settings: dict[str, Any] = found
    return settings


def test_a_topics_settings_are_changed_one_by_one_and_described(client: Any, created: str) -> None:
    resource = admin.ConfigResource(
        admin.ResourceType.TOPIC,
        created,
        incremental_configs=[
            entry("cleanup.policy", "compact", "APPEND"),
            entry("segment.ms", "77", "SET"),
            entry("retention.ms", None, "DELETE"),
        ],
    )
    results(client.incremental_alter_configs([resource]))
    wait_until(lambda: described(client, admin.ResourceType.TOPIC, created)["segment.ms"].value == "77")
    found = described(client, admin.ResourceType.TOPIC, created)
    assert found["cleanup.policy"].value == "delete,compact"
    assert (found["segment.ms"].value, found["segment.ms"].source) == (
        "77",
        admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert found["retention.ms"].source != admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not found["segment.ms"].is_read_only
    # Names, values and sources of what is in line; for segment.ms the topic's own goes before the broker's.
    assert found["segment.ms"].synonyms["segment.ms"].value == "77"


def test_a_refused_change_says_why(client: Any, created: str) -> None:
    for configs, code, text in (
        ([entry("retention.ms", "soon", "SET")], kafka.KafkaError.INVALID_CONFIG, "Not a number of type LONG"),
        ([entry("no.such.thing", "1", "SET")], kafka.KafkaError.INVALID_CONFIG, "Unknown topic config name"),
        ([entry("retention.ms", "1", "APPEND")], kafka.KafkaError.INVALID_CONFIG, "its type is not LIST"),
    ):
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, created, incremental_configs=configs)
        with pytest.raises(kafka.KafkaException) as caught:
            results(client.incremental_alter_configs([resource]))
        assert caught.value.args[0].code() == code
        assert text in caught.value.args[0].str()


def test_a_brokers_settings_are_described_and_changed(client: Any) -> None:
    node = client.list_topics(timeout=ANSWER).orig_broker_id
    found = described(client, admin.ResourceType.BROKER, str(node))
    assert found["log.dirs"].is_read_only
    assert found["ssl.key.password"].is_sensitive
    assert found["ssl.key.password"].value is None
    setting = "log.cleaner.backoff.ms"
    for value, operation in (("15001", "SET"), (None, "DELETE")):
        resource = admin.ConfigResource(
            admin.ResourceType.BROKER, str(node), incremental_configs=[entry(setting, value, operation)]
        )
        results(client.incremental_alter_configs([resource]))
    refused = admin.ConfigResource(
        admin.ResourceType.BROKER, str(node), incremental_configs=[entry("node.id", "7", "SET")]
    )
    with pytest.raises(kafka.KafkaException, match="Cannot update these configs dynamically"):
        results(client.incremental_alter_configs([refused]))


def test_the_older_way_resets_what_it_does_not_name(client: Any, created: str) -> None:
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, created, set_config={"segment.ms": "99"})
    results(client.alter_configs([resource]))
    wait_until(lambda: described(client, admin.ResourceType.TOPIC, created)["segment.ms"].value == "99")
    found = described(client, admin.ResourceType.TOPIC, created)
    assert found["retention.ms"].source != admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value


@pytest.mark.parametrize("kind", ["PREFERRED", "UNCLEAN"])
def test_an_election_is_not_needed_where_the_leader_leads(client: Any, created: str, kind: str) -> None:
    from confluent_kafka import ElectionType, TopicPartition

    partitions = [TopicPartition(created, 0), TopicPartition(created, 9)]
    answer = client.elect_leaders(getattr(ElectionType, kind), partitions).result(ANSWER)
    codes = {found.partition: error.code() for found, error in answer.items()}
    assert codes == {0: kafka.KafkaError.ELECTION_NOT_NEEDED, 9: kafka.KafkaError.UNKNOWN_TOPIC_OR_PART}
    everywhere = client.elect_leaders(getattr(ElectionType, kind), None).result(ANSWER)
    assert everywhere == {}


def test_the_cluster_and_its_topics_are_described(client: Any, created: str) -> None:
    from confluent_kafka import TopicCollection

    cluster = client.describe_cluster().result(ANSWER)
    assert cluster.controller.id in {node.id for node in cluster.nodes}
    (topic,) = results(client.describe_topics(TopicCollection([created]))).values()
    assert [(one.id, one.leader.id, [node.id for node in one.isr]) for one in topic.partitions] == [
        (number, one.leader.id, [one.leader.id]) for number, one in enumerate(topic.partitions)
    ]
    assert len(topic.partitions) == 2


def test_records_are_deleted_and_offsets_listed(client: Any, target: Target, created: str) -> None:
    from confluent_kafka import Producer, TopicPartition

    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    for number in range(10):
        producer.produce(created, b"%d" % number, partition=0)
    assert producer.flush(ANSWER) == 0
    results(client.delete_records([TopicPartition(created, 0, 4)]))
    wanted = {TopicPartition(created, 0): admin.OffsetSpec.earliest()}
    (earliest,) = results(client.list_offsets(wanted)).values()
    assert earliest.offset == 4
