"""The APIs about topics, settings, offsets and the cluster."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol import API_NAMES, request_type
from kclient.protocol.messages.alter_configs import AlterConfigsRequest
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_records import DeleteRecordsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_acls import DescribeAclsRequest
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest
from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from refbroker.handlers.registry import APIS
from tests.support.broker_harness import Harness

TOPIC, BROKER = 2, 4


def test_the_versions_are_kafkas() -> None:
    for key, api in APIS.items():
        kind = request_type(key)
        last = 5 if API_NAMES[key] == "InitProducerId" else kind.max_version
        assert (api.first, api.last) == (kind.min_version, last), API_NAMES[key]


async def test_every_api_answers_in_every_version(harness: Harness) -> None:
    for key, api in APIS.items():
        for version in range(api.first, api.last + 1):
            request = request_type(key)()
            if isinstance(request, DescribeAclsRequest):
                # Kafka closes the connection for UNKNOWN, which is 0.
                request.resource_type_filter = request.operation = request.permission_type = 1
            answer = harness.send(request, version)
            # acks is 0 in an empty Produce request.
            assert (answer is None) == (API_NAMES[key] == "Produce")


async def test_only_what_is_built_is_advertised(harness: Harness) -> None:
    answer = harness.send(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), 4)
    ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert ranges[0] == (0, 13)
    assert ranges[22] == (0, 5)
    assert set(ranges) == set(APIS)
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert finalized == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
    assert harness.connection.client_software == ("test", "1.0")


async def test_a_client_without_a_proper_name_is_refused(harness: Harness) -> None:
    answer = harness.send(ApiVersionsRequest(client_software_name="bad name", client_software_version="1"), 3)
    assert answer.error_code == errors.InvalidRequestError.code
    assert harness.send(ApiVersionsRequest(), 2).error_code == 0


# Topics


def create(harness: Harness, *topics: Any, validate_only: bool = False) -> dict[str, tuple[int, str | None]]:
    answer = harness.send(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), 7)
    return {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}


def new(name: str, partitions: int = 1, replicas: int = 1, placed: Any = (), **configs: str | None) -> Any:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in placed
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (new(""), errors.InvalidTopicError, "the empty string is not allowed"),
        (new(".."), errors.InvalidTopicError, "'..' is not allowed"),
        (new("a" * 250), errors.InvalidTopicError, "longer than the max allowed length 249"),
        (new("bad name!"), errors.InvalidTopicError, "contains one or more characters other than ASCII"),
        pytest.param(
            new("umläut"), errors.InvalidTopicError, "contains one or more characters other than ASCII", id="umlaut"
        ),
        (new("there"), errors.TopicExistsError, "Topic 'there' already exists."),
        (new("__cluster_metadata"), errors.InvalidRequestError, "internal topic __cluster_metadata is prohibited"),
        pytest.param(new("t", 0), errors.InvalidPartitionsError, "non-positive", id="0 partitions"),
        pytest.param(new("t", -2), errors.InvalidPartitionsError, "non-positive", id="-2 partitions"),
        (new("t", 1, 0), errors.InvalidReplicationFactorError, "must be larger than 0"),
        (new("t", 1, 2), errors.InvalidReplicationFactorError, "replication factor of 2 cannot be reached"),
        (new("t", -1, 1, [(0, [1])]), errors.InvalidRequestError, "replication factor was not set to -1"),
        (new("t", 1, -1, [(0, [1])]), errors.InvalidRequestError, "numPartitions was not set to -1"),
        (new("t", -1, -1, [(1, [1])]), errors.InvalidReplicaAssignmentError, "consecutive 0-based"),
        (new("t", -1, -1, [(0, [])]), errors.InvalidReplicaAssignmentError, "empty replica list"),
        (new("t", -1, -1, [(0, [9])]), errors.InvalidReplicaAssignmentError, "no such broker is registered"),
        (new("t", -1, -1, [(0, [1, 1])]), errors.InvalidReplicaAssignmentError, "more than once"),
        (new("t", nope="1"), errors.InvalidConfigurationError, "Unknown topic config name: nope"),
        (new("t", retention_ms="soon"), errors.InvalidConfigurationError, "Not a number of type LONG"),
        (new("t", retention_ms=None), errors.InvalidConfigurationError, "Null value not supported"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, str) else "",
)
async def test_a_topic_that_cannot_be_made(
    harness: Harness, topic: Any, error: type[errors.BrokerError], text: str
) -> None:
    harness.create("there")
    results = create(harness, topic, new("fine"))
    code, message = results[topic.name]
    assert code == error.code
    assert text in (message or "")
    assert results["fine"] == (0, None)
    assert topic.name in ("there",) or topic.name not in harness.broker.metadata.image.topics


async def test_more_partitions_than_a_request_may_make_are_refused_before_they_take_memory(harness: Harness) -> None:
    code = errors.PolicyViolationError.code
    text = "Excessively large number of partitions per request."
    assert create(harness, new("a", 2**31 - 1)) == {"a": (code, text)}
    assert create(harness, new("a", 9_999), new("b", 2)) == {"a": (code, text), "b": (code, text)}
    assert not harness.broker.metadata.image.topics
    harness.create("t")
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2**31 - 1, assignments=None)
    (answer,) = harness.send(CreatePartitionsRequest(topics=[more]), 3).results
    assert (answer.error_code, answer.error_message) == (
        code,
        "Unable to perform excessively large batch operation.",
    )


async def test_a_topic_wished_for_twice_is_not_made(harness: Harness) -> None:
    assert create(harness, new("t"), new("t")) == {"t": (errors.InvalidRequestError.code, "Duplicate topic name.")}


async def test_validating_makes_nothing(harness: Harness) -> None:
    assert create(harness, new("t"), validate_only=True) == {"t": (0, None)}
    assert not harness.broker.metadata.image.topics


async def test_the_broker_chooses_what_is_left_to_it(harness: Harness) -> None:
    harness.settings["num.partitions"] = "3"
    harness.restart()
    answer = harness.send(CreateTopicsRequest(topics=[new("t", -1, -1, retention_ms="5")]), 7).topics[0]
    assert (answer.num_partitions, answer.replication_factor) == (3, 1)
    configs = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)


def delete(harness: Harness, *topics: Any) -> list[tuple[str | None, int]]:
    answer = harness.send(DeleteTopicsRequest(topics=list(topics)), 6)
    return [(one.name, one.error_code) for one in answer.responses]


async def test_topics_are_deleted_by_name_and_by_id(harness: Harness) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    topic_id = harness.create("a")
    harness.create("b")
    unknown, missing = errors.UnknownTopicIdError.code, errors.UnknownTopicOrPartitionError.code
    assert delete(harness, state(topic_id=topic_id), state(topic_id=UUID(int=3)), state(name="c"), state()) == [
        ("a", 0),
        (None, unknown),
        ("c", missing),
        (None, errors.InvalidRequestError.code),
    ]
    answer = harness.send(DeleteTopicsRequest(topic_names=["b"]), 1)
    assert answer.responses[0].error_code == 0
    assert not harness.broker.metadata.image.topics
    assert harness.create("a") != topic_id


async def test_deleting_can_be_forbidden(harness: Harness) -> None:
    harness.create("a")
    harness.settings["delete.topic.enable"] = "false"
    harness.restart()
    code = errors.TopicDeletionDisabledError.code
    assert delete(harness, DeleteTopicsRequest.DeleteTopicState(name="a")) == [("a", code)]


@pytest.mark.parametrize(
    ("name", "count", "placed", "error"),
    [
        ("t", 2, None, errors.InvalidPartitionsError),
        ("t", 1, None, errors.InvalidPartitionsError),
        ("none", 3, None, errors.UnknownTopicOrPartitionError),
        ("t", 4, [[1]], errors.InvalidReplicaAssignmentError),
        ("t", 3, [[7]], errors.InvalidReplicaAssignmentError),
        ("t", 3, [[1]], None),
        ("t", 5, None, None),
    ],
)
async def test_partitions_can_only_become_more(
    harness: Harness, name: str, count: int, placed: Any, error: type[errors.BrokerError] | None
) -> None:
    harness.create("t", 2)
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    assignments = placed and [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in placed]
    request = CreatePartitionsRequest(topics=[kind(name=name, count=count, assignments=assignments)])
    answer = harness.send(request, 3).results[0]
    assert answer.error_code == (0 if error is None else error.code)
    wanted = 2 if error is not None else count
    assert len(harness.broker.metadata.image.topics["t"].partitions) == wanted
    assert harness.broker.logs.get("t", wanted - 1) is not None


# Metadata


def ask(harness: Harness, *names: str, version: int = 12, create: bool = True) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return harness.send(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)


async def test_metadata_names_brokers_and_leaders(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    answer = ask(harness, "t")
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert (answer.controller_id, answer.cluster_id) == (1, harness.broker.cluster_id)
    topic = answer.topics[0]
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id, False)
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]


async def test_a_missing_topic_is_made_if_both_sides_allow_it(harness: Harness) -> None:
    missing = errors.UnknownTopicOrPartitionError.code
    assert ask(harness, "t", create=False).topics[0].error_code == missing
    assert not harness.broker.metadata.image.topics
    made = ask(harness, "t", "t").topics
    # Kafka makes it meanwhile.
    assert [(topic.error_code, len(topic.partitions)) for topic in made] == [(missing, 0)]
    assert list(harness.broker.metadata.image.topics) == ["t"]
    assert [(topic.error_code, len(topic.partitions)) for topic in ask(harness, "t").topics] == [(0, 1)]
    harness.settings["auto.create.topics.enable"] = "false"
    harness.restart()
    assert ask(harness, "u").topics[0].error_code == missing


async def test_why_a_missing_topic_cannot_be_made_is_logged(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    missing = errors.UnknownTopicOrPartitionError.code
    harness.create("a.b")
    assert [ask(harness, "a_b").topics[0].error_code] == [missing]
    assert "cannot create topic a_b: " in caplog.text
    assert "collides with existing topic: a.b" in caplog.text


async def test_a_name_that_cannot_be_is_not_made(harness: Harness) -> None:
    assert ask(harness, "bad name").topics[0].error_code == errors.InvalidTopicError.code
    for internal in ("__consumer_offsets", "__cluster_metadata"):
        assert ask(harness, internal).topics[0].error_code == errors.UnknownTopicOrPartitionError.code


async def test_all_topics_none_and_by_id(harness: Harness) -> None:
    topic_id = harness.create("a")
    harness.create("b")
    assert [topic.name for topic in harness.send(MetadataRequest(topics=None), 12).topics] == ["a", "b"]
    assert [topic.name for topic in harness.send(MetadataRequest(topics=[]), 0).topics] == ["a", "b"]
    assert harness.send(MetadataRequest(topics=[]), 12).topics == []
    wanted = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(topics=[wanted(name=None, topic_id=topic_id), wanted(name=None, topic_id=UUID(int=5))])
    found, unknown = harness.send(request, 12).topics
    assert (found.name, found.error_code) == ("a", 0)
    assert (unknown.name, unknown.error_code) == (None, errors.UnknownTopicIdError.code)


async def test_topics_come_in_pages(harness: Harness) -> None:
    harness.create("a", 3)
    harness.create("b", 2)
    kind = DescribeTopicPartitionsRequest
    seen: list[tuple[str, int]] = []
    cursor = None
    pages = 0
    while pages == 0 or cursor is not None:
        answer = harness.send(kind(response_partition_limit=2, cursor=cursor), 0)
        seen += [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        following = answer.next_cursor
        cursor = following and kind.Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
        pages += 1
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert pages == 3
    missing = harness.send(kind(topics=[kind.TopicRequest(name="none"), kind.TopicRequest(name="bad!")]), 0)
    assert [topic.error_code for topic in missing.topics] == [
        errors.InvalidTopicError.code,
        errors.UnknownTopicOrPartitionError.code,
    ]


# Settings


def alter(harness: Harness, kind: int, name: str, *edits: tuple[str, int, str | None], dry: bool = False) -> Any:
    one = IncrementalAlterConfigsRequest
    resource = one.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[one.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in edits],
    )
    answer = harness.send(one(resources=[resource], validate_only=dry), 1).responses[0]
    return answer.error_code, answer.error_message


def describe(harness: Harness, kind: int, name: str, *keys: str) -> dict[str, Any]:
    one = DescribeConfigsRequest
    resource = one.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = one(resources=[resource], include_synonyms=True, include_documentation=True)
    answer = harness.send(request, 4).results[0]
    assert answer.error_code == 0, answer.error_message
    return {config.name: config for config in answer.configs}


async def test_settings_are_set_deleted_appended_and_subtracted(harness: Harness) -> None:
    harness.create("t")
    assert alter(harness, TOPIC, "t", ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact")) == (0, None)
    found = describe(harness, TOPIC, "t", "retention.ms", "cleanup.policy")
    assert {name: config.value for name, config in found.items()} == {
        "retention.ms": "5",
        "cleanup.policy": "delete,compact",
    }
    assert alter(harness, TOPIC, "t", ("retention.ms", 1, None), ("cleanup.policy", 3, "delete")) == (0, None)
    found = describe(harness, TOPIC, "t")
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("604800000", 5)
    assert found["cleanup.policy"].value == "compact"
    assert found["cleanup.policy"].config_type == 7
    assert not found["cleanup.policy"].read_only


async def test_a_change_of_several_settings_is_made_whole_or_not_at_all(harness: Harness) -> None:
    harness.create("t")
    code, _ = alter(harness, TOPIC, "t", ("segment.bytes", 0, "2000000"), ("retention.ms", 0, "soon"))
    assert code == errors.InvalidConfigurationError.code
    assert describe(harness, TOPIC, "t")["segment.bytes"].config_source == 5
    assert alter(harness, TOPIC, "t", ("segment.bytes", 0, "2000000"), dry=True) == (0, None)
    assert describe(harness, TOPIC, "t")["segment.bytes"].config_source == 5


@pytest.mark.parametrize(
    ("kind", "name", "edit", "error", "text"),
    [
        (TOPIC, "none", ("retention.ms", 0, "1"), errors.UnknownTopicOrPartitionError, "does not exist"),
        (TOPIC, "t", ("nope", 0, "1"), errors.InvalidConfigurationError, "Unknown topic config name: nope"),
        (TOPIC, "t", ("retention.ms", 2, "1"), errors.InvalidConfigurationError, "type is not LIST"),
        (TOPIC, "t", ("retention.ms", 7, "1"), errors.InvalidRequestError, "Unknown operation"),
        (TOPIC, "t", ("segment.bytes", 0, None), errors.InvalidRequestError, "Null value not supported"),
        (BROKER, "7", ("num.io.threads", 0, "1"), errors.InvalidRequestError, "Unexpected broker id"),
        (BROKER, "1", ("node.id", 0, "3"), errors.InvalidRequestError, "Cannot update these configs dynamically"),
        (99, "g", ("x", 0, "3"), errors.InvalidRequestError, "Unknown resource type 99"),
    ],
)
async def test_a_change_that_cannot_be(
    harness: Harness, kind: int, name: str, edit: Any, error: type[errors.BrokerError], text: str
) -> None:
    harness.create("t")
    code, message = alter(harness, kind, name, edit)
    assert code == error.code
    assert text in message


async def test_a_brokers_settings_have_their_sources(harness: Harness) -> None:
    assert alter(harness, BROKER, "", ("message.max.bytes", 0, "3000000")) == (0, None)
    assert alter(harness, BROKER, "1", ("log.segment.bytes", 0, "2000000")) == (0, None)
    found = describe(harness, BROKER, "1")
    assert found["message.max.bytes"].config_source == 3
    assert found["log.segment.bytes"].config_source == 2
    assert (found["log.dirs"].config_source, found["log.dirs"].read_only) == (4, True)
    assert found["num.partitions"].config_source == 5
    assert found["num.partitions"].documentation
    assert (found["ssl.key.password"].is_sensitive, found["ssl.key.password"].value) == (True, None)
    assert [config.name for config in describe(harness, BROKER, "").values()] == ["message.max.bytes"]
    harness.create("t")
    synonyms = describe(harness, TOPIC, "t")["max.message.bytes"].synonyms
    assert [(one.name, one.value, one.source) for one in synonyms] == [
        ("message.max.bytes", "3000000", 3),
        ("message.max.bytes", "1048588", 5),
    ]


async def test_the_older_way_of_altering_resets_what_it_does_not_name(harness: Harness) -> None:
    harness.create("t", retention_ms="5", segment_ms="6")
    one = AlterConfigsRequest
    resource = one.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[one.AlterableConfig(name="retention.ms", value="7")]
    )
    assert harness.send(one(resources=[resource]), 2).responses[0].error_code == 0
    assert harness.broker.metadata.image.config(TOPIC, "t") == {"retention.ms": "7"}


# Offsets


def offset_of(harness: Harness, timestamp: int, *, version: int = 11) -> tuple[int, int, int]:
    one = ListOffsetsRequest
    wanted = one.ListOffsetsTopic(name="t", partitions=[one.ListOffsetsPartition(timestamp=timestamp)])
    answer = harness.send(one(replica_id=-1, topics=[wanted]), version).topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp


async def test_offsets_by_time_and_by_name(harness: Harness) -> None:
    harness.create("t")
    for timestamp in (1000, 3000, 2000):
        harness.produce("t", b"a", timestamp=timestamp)
    assert offset_of(harness, -1) == (0, 3, -1)
    assert offset_of(harness, -2) == (0, 0, -1)
    assert offset_of(harness, -3) == (0, 1, 3000)
    assert offset_of(harness, -4) == (0, 0, -1)
    assert offset_of(harness, -5) == (0, -1, -1)
    assert offset_of(harness, -6) == (0, -1, -1)
    assert offset_of(harness, 1001) == (0, 1, 3000)
    assert offset_of(harness, 3001) == (0, -1, -1)
    assert offset_of(harness, -7)[0] == errors.UnsupportedVersionError.code
    assert offset_of(harness, -3, version=6)[0] == errors.UnsupportedVersionError.code


def delete_before(harness: Harness, offset: int, name: str = "t") -> tuple[int, int]:
    one = DeleteRecordsRequest
    topic = one.DeleteRecordsTopic(name=name, partitions=[one.DeleteRecordsPartition(offset=offset)])
    answer = harness.send(one(topics=[topic]), 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def test_deleting_records_moves_the_start(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a", b"b", b"c")
    assert delete_before(harness, 2) == (0, 2)
    assert delete_before(harness, 1) == (0, 2)
    assert offset_of(harness, -2) == (0, 2, -1)
    assert delete_before(harness, 4) == (errors.OffsetOutOfRangeError.code, -1)
    assert delete_before(harness, -1) == (0, 3)
    alter(harness, TOPIC, "t", ("cleanup.policy", 0, "compact"))
    assert delete_before(harness, 3) == (errors.PolicyViolationError.code, -1)


async def test_no_client_deletes_records_of_internal_topics(harness: Harness) -> None:
    harness.create("__consumer_offsets")
    assert delete_before(harness, 0, "__consumer_offsets") == (errors.InvalidTopicError.code, -1)
    assert delete_before(harness, 0, "__share_group_state") == (errors.UnknownTopicOrPartitionError.code, -1)


async def test_the_end_of_an_epoch(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a", b"b")
    harness.restart()

    def end(epoch: int, current: int = -1) -> tuple[int, int, int]:
        one = OffsetForLeaderEpochRequest
        wanted = one.OffsetForLeaderPartition(leader_epoch=epoch, current_leader_epoch=current)
        request = one(topics=[one.OffsetForLeaderTopic(topic="t", partitions=[wanted])])
        answer = harness.send(request, 4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end(0) == (0, 0, 2)
    # A crash ends an epoch, and the start begins another one.
    assert [end(epoch) for epoch in (1, 2, 5)] == [(0, 0, 2), (0, 2, 2), (0, -1, -1)]
    harness.restart()
    assert [end(epoch) for epoch in (0, 1, 2, 3, 4, 5)] == [
        (0, 0, 2),
        (0, 0, 2),
        (0, 0, 2),
        (0, 0, 2),
        (0, 4, 2),
        (0, -1, -1),
    ]
    assert end(0, current=1)[0] == errors.FencedLeaderEpochError.code


# The rest


async def test_producer_ids_and_what_is_not_there_yet(harness: Harness) -> None:
    first, second = (harness.send(InitProducerIdRequest(transactional_id=None), 5) for _ in range(2))
    assert (first.producer_id, first.producer_epoch, second.producer_id) == (0, 0, 1)
    answer = harness.send(FindCoordinatorRequest(key_type=2, coordinator_keys=["a", "b"]), 6)
    assert [(one.key, one.error_code) for one in answer.coordinators] == [("a", 15), ("b", 15)]
    assert "no share groups" in answer.coordinators[0].error_message
    assert (
        harness.send(DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1), 3).error_code
        == errors.SecurityDisabledError.code
    )


async def test_the_cluster(harness: Harness) -> None:
    answer = harness.send(DescribeClusterRequest(), 2)
    assert (answer.cluster_id, answer.controller_id) == (harness.broker.cluster_id, 1)
    assert [(node.broker_id, node.port, node.is_fenced) for node in answer.brokers] == [(1, 9092, False)]
    controllers = harness.send(DescribeClusterRequest(endpoint_type=2), 2)
    assert controllers.error_code == errors.MismatchedEndpointTypeError.code
