"""The admin client against a broker: topics, settings, offsets, the cluster; both faces."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from kclient import Admin, AsyncAdmin, NewPartitions, NewTopic, Producer, TopicPartition
from kclient.admin import AlterConfig, ConfigEntry, ConfigResource, ConfigSource, OffsetSpec
from kclient.errors import (
    AdminError,
    ClosedError,
    ConfigError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

START = 1_600_000_000_000


@pytest.fixture
def filled(admin: Admin, bootstrap_servers: str, topic: str) -> str:
    """A topic of two partitions; the first holds ten records, a millisecond apart from START on."""
    admin.create_topics(NewTopic(topic, num_partitions=2))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"value", partition=0, timestamp=START + number)
    return topic


def settings_once(
    admin: Admin, resource: ConfigResource, true: Callable[[dict[str, ConfigEntry]], bool]
) -> dict[str, ConfigEntry]:
    """The settings as soon as they are so: a broker learns of a change a moment after the controller made it."""
    deadline = clock.monotonic() + 10
    while not true(entries := admin.describe_configs(resource)[resource]):
        assert clock.monotonic() < deadline, "the change did not show"
    return entries


def test_a_created_topic_can_be_used_at_once(admin: Admin, topic: str) -> None:
    created = admin.create_topics([NewTopic(topic, num_partitions=3, configs={"retention.ms": "3600000"})])
    assert (created[topic].name, created[topic].num_partitions) == (topic, 3)
    assert created[topic].configs["retention.ms"].value == "3600000"
    described = admin.describe_topics([topic])[topic]
    assert [info.partition for info in described.partitions] == [0, 1, 2]
    assert all(info.leader is not None and info.leader in info.in_sync_replicas for info in described.partitions)
    assert described.topic_id == created[topic].topic_id == admin.list_topics()[topic].topic_id


def test_some_topics_fail_and_the_others_are_made(admin: Admin, topic: str) -> None:
    with pytest.raises(AdminError) as caught:
        admin.create_topics(
            [
                NewTopic(topic, num_partitions=1),
                NewTopic("no spaces please"),
                NewTopic(f"{topic}-replicas", num_partitions=1, replication_factor=99),
                NewTopic(f"{topic}-none", num_partitions=0),
                NewTopic(f"{topic}-config", configs={"retention.ms": "soon"}),
            ]
        )
    assert list(caught.value.results) == [topic]
    assert {name: type(error) for name, error in caught.value.errors.items()} == {
        "no spaces please": InvalidTopicError,
        f"{topic}-replicas": InvalidReplicationFactorError,
        f"{topic}-none": InvalidPartitionsError,
        f"{topic}-config": InvalidConfigurationError,
    }
    with pytest.raises(AdminError) as again:
        admin.create_topics([NewTopic(topic, num_partitions=1)])
    assert isinstance(again.value.errors[topic], TopicExistsError)


def test_validating_makes_nothing(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1)], validate_only=True)
    assert topic not in admin.list_topics()


def test_replicas_can_be_placed_by_hand(admin: Admin, topic: str) -> None:
    node = next(iter(admin.describe_cluster().brokers))
    admin.create_topics([NewTopic(topic, replica_assignment={0: [node], 1: [node]})])
    assert [info.replicas for info in admin.describe_topics([topic])[topic].partitions] == [(node,), (node,)]


def test_a_deleted_topic_is_gone(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    assert admin.delete_topics([topic]) == {topic: None}
    assert topic not in admin.list_topics()
    with pytest.raises(AdminError) as caught:
        admin.delete_topics([topic])
    assert isinstance(caught.value.errors[topic], UnknownTopicOrPartitionError)
    with pytest.raises(AdminError):
        admin.describe_topics([topic])


def test_a_text_is_the_name_of_one_topic_and_not_its_letters(admin: Admin, topic: str) -> None:
    word = f"Z-{topic}"  # no other test has a topic of this letter, as some have of "t"
    admin.create_topics([NewTopic(word), NewTopic("Z")])
    assert set(admin.describe_topics(word)) == {word}
    assert admin.delete_topics(word) == {word: None}
    assert "Z" in admin.list_topics()
    admin.delete_topics(["Z"])


def test_names_alone_create_nothing(admin: Admin, topic: str) -> None:
    with pytest.raises(TypeError, match=f"takes a NewTopic, not '{topic}'"):
        admin.create_topics([topic])  # type: ignore[list-item]


def test_partitions_can_be_added_but_not_taken_away(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=2)])
    admin.create_partitions({topic: NewPartitions(5)})
    assert len(admin.describe_topics([topic])[topic].partitions) == 5
    with pytest.raises(AdminError) as caught:
        admin.create_partitions({topic: NewPartitions(3)})
    assert isinstance(caught.value.errors[topic], InvalidPartitionsError)


def test_settings_are_changed_one_by_one(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    resource = ConfigResource.topic(topic)
    admin.incremental_alter_configs(
        {resource: [AlterConfig.set("segment.ms", "1234"), AlterConfig.append("cleanup.policy", "compact")]}
    )
    entries = settings_once(admin, resource, lambda entries: entries["segment.ms"].value == "1234")
    assert (entries["segment.ms"].value, entries["segment.ms"].source) == ("1234", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert set((entries["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    assert entries["segment.bytes"].is_default
    admin.incremental_alter_configs({resource: [AlterConfig.delete("segment.ms")]})
    settings_once(admin, resource, lambda entries: entries["segment.ms"].is_default)


def test_numbers_and_bools_become_text(admin: Admin, topic: str) -> None:
    settings = {"retention.ms": 3_600_000, "preallocate": True, "min.cleanable.dirty.ratio": 0.25}
    admin.create_topics([NewTopic(topic, configs=settings)])
    resource = ConfigResource.topic(topic)
    entries = admin.describe_configs([resource])[resource]
    assert {name: entries[name].value for name in settings} == {
        "retention.ms": "3600000",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.25",
    }
    admin.incremental_alter_configs({resource: [AlterConfig.set("preallocate", False)]})
    # Brokers learn of a changed setting one after the other.
    wait_until(lambda: admin.describe_configs([resource])[resource]["preallocate"].value == "false")
    with pytest.raises(ConfigError, match=r"the value of retention\.ms must be a str"):
        admin.create_topics([NewTopic(f"{topic}-2", configs={"retention.ms": [3]})])  # type: ignore[dict-item]


def test_a_setting_that_does_not_fit_is_refused(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    resource = ConfigResource.topic(topic)
    with pytest.raises(AdminError) as caught:
        admin.incremental_alter_configs({resource: [AlterConfig.set("retention.ms", "soon")]})
    assert isinstance(caught.value.errors[resource], InvalidConfigurationError)


def test_a_brokers_settings_come_from_that_broker(admin: Admin) -> None:
    node = next(iter(admin.describe_cluster().brokers))
    resource = ConfigResource.broker(node)
    entries = admin.describe_configs([resource], include_documentation=True)[resource]
    assert entries["num.partitions"].documentation
    assert entries["num.partitions"].value is not None
    with pytest.raises(ConfigError, match="identified by its number"):
        admin.describe_configs([ConfigResource(resource.type, "one")])


def test_offsets_by_name_and_by_time(admin: Admin, filled: str) -> None:
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    assert admin.list_offsets({first: OffsetSpec.EARLIEST, second: OffsetSpec.LATEST})[first].offset == 0
    found = admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
    assert (found[first].offset, found[second].offset) == (10, 0)
    at = admin.list_offsets({first: START + 5})[first]
    assert (at.offset, at.timestamp) == (5, START + 5)
    assert admin.list_offsets({first: START + 1000})[first].offset == -1
    newest = admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP})[first]
    assert (newest.offset, newest.timestamp) == (9, START + 9)


def test_offsets_of_what_does_not_exist(admin: Admin, filled: str) -> None:
    missing = TopicPartition(filled, 7)
    with pytest.raises(AdminError) as caught:
        admin.list_offsets({TopicPartition(filled, 0): OffsetSpec.LATEST, missing: OffsetSpec.LATEST})
    assert caught.value.results[TopicPartition(filled, 0)].offset == 10
    assert isinstance(caught.value.errors[missing], UnknownTopicOrPartitionError)


def test_deleting_records_moves_the_beginning(admin: Admin, filled: str) -> None:
    partition = TopicPartition(filled, 0)
    assert admin.delete_records({partition: 4}) == {partition: 4}
    assert admin.list_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 4
    assert admin.delete_records({partition: -1}) == {partition: 10}
    with pytest.raises(AdminError) as caught:
        admin.delete_records({partition: 99})
    assert isinstance(caught.value.errors[partition], OffsetOutOfRangeError)


def test_the_cluster_describes_itself(admin: Admin) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller_id in cluster.brokers
    assert all(node.port > 0 for node in cluster.brokers.values())


def test_a_closed_admin_says_so(bootstrap_servers: str) -> None:
    admin = Admin(bootstrap_servers=bootstrap_servers)
    admin.close()
    with pytest.raises(ClosedError):
        admin.list_topics()


def test_nobody_at_the_address_ends_at_the_timeout() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1") as admin,
        pytest.raises(KafkaTimeoutError, match="list_topics") as caught,
    ):
        admin.list_topics(timeout=0.3)
    assert caught.value.__cause__ is not caught.value


@pytest.mark.anyio
async def test_the_async_face_does_the_same(bootstrap_servers: str, topic: str) -> None:
    async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
        await admin.create_topics([NewTopic(topic, num_partitions=2)])
        assert len((await admin.describe_topics([topic]))[topic].partitions) == 2
        assert topic in await admin.list_topics()
        partition = TopicPartition(topic, 1)
        assert (await admin.list_offsets({partition: OffsetSpec.LATEST}))[partition].offset == 0
        resource = ConfigResource.topic(topic)
        await admin.incremental_alter_configs({resource: [AlterConfig.set("retention.ms", "5")]})
        with anyio.fail_after(ANSWER):  # a broker learns of a change a moment after the controller made it
            while (await admin.describe_configs([resource]))[resource]["retention.ms"].value != "5":
                await anyio.lowlevel.checkpoint()
        await admin.create_partitions({topic: NewPartitions(3)})
        assert (await admin.describe_cluster()).cluster_id
        await admin.delete_records({partition: -1})
        await admin.delete_topics([topic])
        with pytest.raises(AdminError):
            await admin.describe_topics([topic])


def test_every_async_call_has_a_blocking_twin() -> None:
    public = {name for name in vars(Admin) if not name.startswith("_")}
    assert public == {name for name in vars(AsyncAdmin) if not name.startswith("_")}
