"""The admin client for brokers, replicas and features, as far as a cluster of one broker has them; both faces."""

from __future__ import annotations

import pytest

from kclient import Admin, AsyncAdmin, NewTopic, Producer, TopicPartition
from kclient.admin import (
    AlterConfig,
    ConfigResource,
    ElectionType,
    FeatureUpdate,
    ResourceType,
    TopicPartitionReplica,
    UpgradeType,
    topic_descriptions,
)
from kclient.errors import (
    AdminError,
    BrokerNotAvailableError,
    InvalidReplicaAssignmentError,
    InvalidUpdateVersionError,
    LogDirNotFoundError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

NOBODY = 999


@pytest.fixture
def placed(admin: Admin, bootstrap_servers: str, topic: str) -> TopicPartitionReplica:
    """A topic of one partition with a record, on one broker."""
    node = next(iter(admin.describe_cluster().brokers))
    admin.create_topics([NewTopic(topic, replica_assignment={0: [node]})])
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send(topic, b"x" * 1000)
    return TopicPartitionReplica(topic, 0, node)


def test_brokers_are_alive_and_have_racks(admin: Admin) -> None:
    brokers = admin.describe_cluster(include_fenced_brokers=True).brokers
    assert brokers == admin.describe_cluster().brokers
    assert not any(node.is_fenced for node in brokers.values())


def test_topics_of_many_partitions_are_described_in_pages(
    admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {topic: 5, f"{topic}-a": 1, f"{topic}-b": 4}
    admin.create_topics([NewTopic(name, num_partitions=count, replication_factor=1) for name, count in sizes.items()])
    whole = admin.describe_topics(sizes)
    monkeypatch.setattr(topic_descriptions, "PARTITIONS_PER_PAGE", 2)
    assert admin.describe_topics(sizes) == whole
    assert {name: len(each.partitions) for name, each in whole.items()} == sizes


def test_a_reassignment_to_the_same_broker_is_done_at_once(admin: Admin, placed: TopicPartitionReplica) -> None:
    key = TopicPartition(placed.topic, 0)
    assert admin.alter_partition_reassignments({key: [placed.broker_id]}) == {key: None}
    assert key not in admin.list_partition_reassignments()
    assert admin.list_partition_reassignments([key]) == {}


def test_reassignments_that_are_not_possible_say_why(admin: Admin, placed: TopicPartitionReplica) -> None:
    here, gone = TopicPartition(placed.topic, 0), TopicPartition(placed.topic, 7)
    for targets, errors in (
        ({here: None, gone: None}, {here: NoReassignmentInProgressError, gone: UnknownTopicOrPartitionError}),
        ({here: [NOBODY]}, {here: InvalidReplicaAssignmentError}),
    ):
        with pytest.raises(AdminError) as caught:
            admin.alter_partition_reassignments(targets)
        assert {key: type(error) for key, error in caught.value.errors.items()} == errors


def test_the_leader_of_one_replica_needs_no_election(admin: Admin, placed: TopicPartitionReplica) -> None:
    key = TopicPartition(placed.topic, 0)
    for kind in ElectionType:
        assert admin.elect_leaders(kind, [key]) == {key: False}
        assert key not in admin.elect_leaders(kind)
    with pytest.raises(AdminError) as caught:
        admin.elect_leaders(ElectionType.PREFERRED, [key, TopicPartition(placed.topic, 7)])
    assert caught.value.results == {key: False}
    assert isinstance(caught.value.errors[TopicPartition(placed.topic, 7)], UnknownTopicOrPartitionError)


def test_log_directories_have_the_replicas_with_their_bytes(admin: Admin, placed: TopicPartitionReplica) -> None:
    found = admin.describe_log_dirs()
    assert set(found) == set(admin.describe_cluster().brokers)
    infos = [each.replica_infos.get(TopicPartition(placed.topic, 0)) for each in found[placed.broker_id].values()]
    (info,) = [info for info in infos if info is not None]
    assert info.size > 1000
    assert (info.offset_lag, info.is_future) == (0, False)
    for directory in found[placed.broker_id].values():
        assert directory.error is None
        assert 0 < (directory.usable_bytes or 0) <= (directory.total_bytes or 0)
    (path,) = [
        path for path, each in found[placed.broker_id].items() if TopicPartition(placed.topic, 0) in each.replica_infos
    ]
    where = admin.describe_replica_log_dirs(placed)[placed]
    assert (where.current_log_dir, where.current_offset_lag, where.future_log_dir) == (path, 0, None)
    assert admin.alter_replica_log_dirs({placed: path}) == {placed: None}


def test_a_directory_or_broker_that_does_not_exist_is_an_error(admin: Admin, placed: TopicPartitionReplica) -> None:
    nobody = placed._replace(broker_id=NOBODY)
    with pytest.raises(AdminError) as caught:
        admin.alter_replica_log_dirs({placed: "/no/such/directory", nobody: "/a"})
    assert isinstance(caught.value.errors[placed], LogDirNotFoundError)
    assert isinstance(caught.value.errors[nobody], BrokerNotAvailableError)
    with pytest.raises(AdminError, match=f"no broker {NOBODY} that is alive"):
        admin.describe_log_dirs([NOBODY])
    assert (
        admin.describe_replica_log_dirs([placed._replace(topic="no-such-topic")]).popitem()[1].current_log_dir is None
    )


def test_features_are_described_and_checked(admin: Admin) -> None:
    features = admin.describe_features()
    supported = features.supported_features["metadata.version"]
    finalized = features.finalized_features["metadata.version"].max_version_level
    assert supported.min_version <= finalized <= supported.max_version
    assert (features.finalized_features_epoch or 0) > 0
    node = next(iter(admin.describe_cluster().brokers))
    assert admin.describe_features(node_id=node).supported_features == features.supported_features
    beyond = {"metadata.version": FeatureUpdate(supported.max_version + 1000)}
    with pytest.raises(InvalidUpdateVersionError, match=r"metadata\.version"):
        admin.update_features(beyond, validate_only=True)
    same = {"metadata.version": FeatureUpdate(finalized, UpgradeType.SAFE_DOWNGRADE)}
    assert admin.update_features(same, validate_only=True) == {"metadata.version": None}


def test_the_quorum_has_a_leader_that_votes(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    (leader,) = [voter for voter in quorum.voters if voter.replica_id == quorum.leader_id]
    assert 0 < quorum.high_watermark <= leader.log_end_offset
    assert quorum.leader_epoch > 0


def test_resources_with_settings_are_listed(admin: Admin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    metrics = ConfigResource(ResourceType.CLIENT_METRICS, f"metrics-of-{topic}")
    admin.incremental_alter_configs({metrics: AlterConfig.set("interval.ms", 60_000)})
    try:
        wait_until(lambda: metrics.name in admin.list_client_metrics_resources())
        found = admin.list_config_resources()
        brokers = [ConfigResource.broker(node) for node in admin.describe_cluster().brokers]
        assert {ConfigResource.topic(topic), metrics, *brokers} <= set(found)
        assert set(admin.list_config_resources(ResourceType.TOPIC)) >= {ConfigResource.topic(topic)}
        assert metrics not in admin.list_config_resources([ResourceType.TOPIC, ResourceType.BROKER])
    finally:
        admin.incremental_alter_configs({metrics: AlterConfig.delete("interval.ms")})


async def test_the_async_client_does_the_same(bootstrap_servers: str, placed: TopicPartitionReplica) -> None:
    key = TopicPartition(placed.topic, 0)
    async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
        assert await admin.alter_partition_reassignments({key: [placed.broker_id]}) == {key: None}
        assert await admin.list_partition_reassignments([key]) == {}
        assert await admin.elect_leaders(ElectionType.PREFERRED, [key]) == {key: False}
        assert placed.broker_id in await admin.describe_log_dirs()
        where = (await admin.describe_replica_log_dirs([placed]))[placed]
        assert where.current_log_dir is not None
        assert await admin.alter_replica_log_dirs({placed: where.current_log_dir}) == {placed: None}
        assert (await admin.describe_features()).supported_features
        assert (await admin.describe_metadata_quorum()).leader_id is not None
        assert ConfigResource.topic(placed.topic) in await admin.list_config_resources(ResourceType.TOPIC)
        assert await admin.list_client_metrics_resources() is not None
