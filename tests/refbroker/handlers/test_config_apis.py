"""Settings of groups, client metrics, brokers and loggers: what is described, what may be altered, and why not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import errors
from kclient.protocol.messages.alter_configs import AlterConfigsRequest
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kclient.protocol.messages.records.metadata_log import ConfigRecord, FeatureLevelRecord, PartitionChangeRecord
from refbroker.controller.partition_index import PartitionId
from refbroker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from tests.support.broker_harness import Harness

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
INVALID_REQUEST = errors.InvalidRequestError.code
INVALID_CONFIG = errors.InvalidConfigurationError.code
TOPIC, BROKER, LOGGER = TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE
METRICS, GROUP = CLIENT_METRICS_RESOURCE, GROUP_RESOURCE

Answer = tuple[int, str | None]


def resource(kind: int, name: str, *edits: tuple[str, int, str | None]) -> Any:
    one = IncrementalAlterConfigsRequest
    return one.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[one.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in edits],
    )


def alter_all(harness: Harness, *resources: Any, dry: bool = False) -> list[Answer]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=dry)
    return [(one.error_code, one.error_message) for one in harness.send(request, 1).responses]


def alter(harness: Harness, kind: int, name: str, *edits: tuple[str, int, str | None], dry: bool = False) -> Answer:
    return alter_all(harness, resource(kind, name, *edits), dry=dry)[0]


def describe(harness: Harness, kind: int, name: str, *keys: str) -> Any:
    one = DescribeConfigsRequest
    wanted = one.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return harness.send(one(resources=[wanted], include_synonyms=True), 4).results[0]


def entries(harness: Harness, kind: int, name: str, *keys: str) -> dict[str, Any]:
    answer = describe(harness, kind, name, *keys)
    assert answer.error_code == 0, answer.error_message
    return {entry.name: entry for entry in answer.configs}


def synonyms(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


# Groups and client metrics


async def test_a_groups_settings_have_its_own_the_brokers_and_the_default_source(harness: Harness) -> None:
    assert alter(harness, GROUP, "g", ("share.auto.offset.reset", SET, " earliest ")) == (0, None)
    assert alter(harness, BROKER, "", ("group.consumer.assignment.interval.ms", SET, "2000")) == (0, None)
    assert alter(harness, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == (0, None)
    found = entries(harness, GROUP, "g")
    assert len(found) == 17
    assert not any(entry.read_only or entry.is_sensitive for entry in found.values())
    assert synonyms(found["share.auto.offset.reset"]) == [
        ("share.auto.offset.reset", "earliest", 8),
        ("share.auto.offset.reset", "latest", 5),
    ]
    assert (found["consumer.session.timeout.ms"].value, found["consumer.session.timeout.ms"].config_source) == (
        "50000",
        8,
    )
    assert synonyms(found["consumer.assignment.interval.ms"]) == [
        ("group.consumer.assignment.interval.ms", "2000", 3),
        ("group.consumer.assignment.interval.ms", "1000", 5),
    ]
    assert found["consumer.heartbeat.interval.ms"].config_source == 5


async def test_a_client_metrics_subscription_has_settings_and_defaults_without_synonyms(
    harness: Harness,
) -> None:
    edits = ("metrics", SET, "org.apache.kafka.producer., org.apache.kafka.producer."), ("interval.ms", SET, "5000")
    assert alter(harness, METRICS, "m", *edits) == (0, None)
    found = entries(harness, METRICS, "m")
    assert {name: (entry.value, entry.config_source) for name, entry in found.items()} == {
        "metrics": ("org.apache.kafka.producer.", 7),
        "interval.ms": ("5000", 7),
        "match": ("", 5),
    }
    assert (synonyms(found["interval.ms"]), synonyms(found["match"])) == ([("interval.ms", "5000", 7)], [])


async def test_settings_of_groups_and_metrics_survive_a_restart_and_end_with_the_last_one(harness: Harness) -> None:
    alter(harness, METRICS, "m", ("interval.ms", SET, "5000"))
    alter(harness, GROUP, "g", ("share.delivery.count.limit", SET, "4"))
    harness.restart(clean=False)
    assert entries(harness, GROUP, "g")["share.delivery.count.limit"].value == "4"
    assert listed(harness, METRICS, GROUP) == [("g", GROUP), ("m", METRICS)]
    assert alter(harness, METRICS, "m", ("interval.ms", DELETE, None)) == (0, None)
    assert listed(harness, METRICS, GROUP) == [("g", GROUP)]


@pytest.mark.parametrize(
    ("kind", "name", "edit", "code", "text"),
    [
        (METRICS, "", ("metrics", SET, "a"), INVALID_REQUEST, "Subscription name can't be empty"),
        (METRICS, "m", ("foo", SET, "a"), INVALID_REQUEST, "Unknown client metrics configuration: foo"),
        (
            METRICS,
            "m",
            ("interval.ms", SET, "99"),
            INVALID_REQUEST,
            "interval must be between 100 and 3600000 (1 hour)",
        ),
        (METRICS, "m", ("interval.ms", SET, "x"), INVALID_CONFIG, "Not a number of type INT"),
        (METRICS, "m", ("metrics", SET, "a,,b"), INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        (METRICS, "m", ("metrics", APPEND, "b"), INVALID_CONFIG, "Can't APPEND to key metrics because its type is not"),
        (METRICS, "m", ("match", SET, "browser=x"), INVALID_CONFIG, "Illegal client matching pattern: browser=x"),
        (METRICS, "m", ("match", SET, "client_id=["), INVALID_CONFIG, "Illegal client matching pattern: client_id=["),
        (METRICS, "m", ("match", SET, "client_id=a=b"), INVALID_CONFIG, "Illegal client matching pattern"),
        (GROUP, "", ("share.isolation.level", SET, "x"), INVALID_REQUEST, "Default group resources are not allowed."),
        (GROUP, "g", ("foo", SET, "1"), INVALID_CONFIG, "Unknown group config name: foo"),
        (GROUP, "g", ("share.isolation.level", SET, "x"), INVALID_CONFIG, "one of: read_committed, read_uncommitted"),
        (
            GROUP,
            "g",
            ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
            INVALID_CONFIG,
            "'by_duration:<PnDTnHnMn.nS>'",
        ),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "1"),
            INVALID_CONFIG,
            "group.consumer.min.session.timeout.ms",
        ),
        (GROUP, "g", ("share.delivery.count.limit", SET, "11"), INVALID_CONFIG, "must be less than or equal to group."),
        (GROUP, "g", ("streams.num.standby.replicas", SET, "3"), INVALID_CONFIG, "group.streams.max.standby.replicas"),
    ],
)
async def test_a_setting_that_a_group_or_subscription_cannot_have(
    harness: Harness, kind: int, name: str, edit: Any, code: int, text: str
) -> None:
    answer = alter(harness, kind, name, edit)
    assert answer[0] == code
    assert text in (answer[1] or "")
    assert not harness.broker.metadata.image.configs


@pytest.mark.parametrize("value", ["earliest", "by_duration:PT1H30M", "by_duration:P1DT0.5S", "by_duration:-PT-1S"])
async def test_a_share_group_may_begin_at_either_end_or_a_while_ago(harness: Harness, value: str) -> None:
    assert alter(harness, GROUP, "g", ("share.auto.offset.reset", SET, value)) == (0, None)


async def test_a_session_of_a_group_must_be_longer_than_its_heartbeats(harness: Harness) -> None:
    harness.settings["group.consumer.min.session.timeout.ms"] = "1000"
    harness.restart()
    edits = ("consumer.session.timeout.ms", SET, "6000"), ("consumer.heartbeat.interval.ms", SET, "6000")
    code, text = alter(harness, GROUP, "g", *edits)
    assert (code, text) == (
        INVALID_CONFIG,
        "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
    )


# Topics


async def test_a_topics_settings_must_go_together(harness: Harness) -> None:
    harness.create("t")
    edits = ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")
    code, text = alter(harness, TOPIC, "t", *edits)
    assert (code, text) == (
        INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    )
    code, text = alter(harness, TOPIC, "t", ("remote.storage.enable", SET, "true"))
    assert code == INVALID_CONFIG
    assert "Tiered Storage functionality is disabled" in (text or "")


async def test_less_must_be_kept_on_the_broker_than_in_all(harness: Harness) -> None:
    harness.settings["remote.log.storage.system.enable"] = "true"
    harness.restart()
    harness.create("t")
    remote = ("remote.storage.enable", SET, "true")
    code, text = alter(harness, TOPIC, "t", remote, ("retention.ms", SET, "10"), ("local.retention.ms", SET, "11"))
    assert code == INVALID_CONFIG
    assert "local.retention.ms: Value must not be more than retention.ms property value: 10" in (text or "")
    assert alter(harness, TOPIC, "t", remote, ("cleanup.policy", SET, "compact"))[0] == INVALID_CONFIG
    assert alter(harness, TOPIC, "t", remote, ("retention.ms", SET, "10"), ("local.retention.ms", SET, "9")) == (
        0,
        None,
    )
    code, text = alter(harness, TOPIC, "t", ("remote.storage.enable", SET, "false"))
    assert code == INVALID_CONFIG
    assert "invalid to disable remote storage without deleting" in (text or "")


async def test_a_list_may_be_emptied_and_then_added_to(harness: Harness) -> None:
    harness.create("t")
    assert alter(harness, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    found = entries(harness, TOPIC, "t", "cleanup.policy")["cleanup.policy"]
    assert (found.value, found.config_source) == ("", 1)
    assert alter(harness, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete")) == (0, None)
    assert harness.broker.metadata.image.config(TOPIC, "t") == {"cleanup.policy": "compact,delete"}


async def test_a_list_does_not_grow_beyond_what_a_record_can_hold(harness: Harness) -> None:
    harness.create("t")
    name = "leader.replication.throttled.replicas"
    first, second = (",".join(f"{number}:1" for number in range(start, start + 4000)) for start in (0, 4000))
    assert alter(harness, TOPIC, "t", (name, SET, first)) == (0, None)
    code, text = alter(harness, TOPIC, "t", (name, APPEND, second))
    assert code == INVALID_CONFIG
    assert "exceeds the maximum value size of 32767 bytes" in (text or "")


async def test_values_are_shown_as_kafka_reads_them(harness: Harness) -> None:
    harness.create("t", min_cleanable_dirty_ratio=" 1e-4 ", preallocate="TRUE", retention_ms="+7")
    found = entries(harness, TOPIC, "t")
    assert [found[name].value for name in ("min.cleanable.dirty.ratio", "preallocate", "retention.ms")] == [
        "1.0E-4",
        "true",
        "7",
    ]
    assert entries(harness, BROKER, "1")["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"


async def test_retention_in_hours_applies_to_topics_but_is_no_synonym(harness: Harness) -> None:
    harness.settings["log.retention.hours"] = "2"
    harness.restart()
    harness.create("t")
    found = entries(harness, TOPIC, "t")["retention.ms"]
    assert (found.value, found.config_source, synonyms(found)) == ("7200000", 5, [])
    assert alter(harness, BROKER, "", ("log.retention.ms", SET, "5000")) == (0, None)
    found = entries(harness, TOPIC, "t")["retention.ms"]
    assert (found.value, found.config_source) == ("5000", 3)
    assert synonyms(found) == [
        ("log.retention.ms", "5000", 3),
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]


# Brokers


@pytest.mark.parametrize(
    ("edits", "name", "text"),
    [
        (
            [("process.roles", "x"), ("node.id", "2")],
            "1",
            "Cannot update these configs dynamically: [node.id, process.roles]",
        ),
        ([("ssl.keystore.location", "x")], "1", "only per-listener using the listener prefix: [ssl.keystore.location]"),
        ([("sasl.enabled.mechanisms", "PLAIN")], "", "broker id must be specified: [sasl.enabled.mechanisms]"),
        ([("listener.name.x.ssl.keystore.type", "PEM")], "", "specified: [listener.name.x.ssl.keystore.type]"),
        ([("message.max.bytes", "-1")], "", "Value must be at least 0"),
        ([("listener.name.x.max.connections", "0")], "1", "Invalid max.connections 0"),
        ([("log.retention.ms", "0")], "1", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ([("log.cleaner.threads", "0")], "", "log.cleaner.threads must be at least 1"),
        ([("log.cleaner.dedupe.buffer.size", "1000")], "", "must be at least 1MB per cleaner thread"),
        ([("num.io.threads", "17")], "", "value should not be greater than double the current value 8"),
        ([("num.io.threads", "3")], "", "value should be at least half the current value 8"),
        (
            [("log.retention.ms", "10"), ("log.local.retention.ms", "20")],
            "",
            "more than log.retention.ms property value: 10",
        ),
        ([("max.connections.per.ip", "0")], "", "can be set to zero only if max.connections.per.ip.overrides"),
        ([("cordoned.log.dirs", "/elsewhere")], "1", "Missing entries : /elsewhere"),
        (
            [("metric.reporters", "com.example.Reporter")],
            "",
            "Validation of dynamic config update of Set(metric.reporters)",
        ),
        ([("principal.builder.class", "com.example.Builder")], "1", "Class com.example.Builder could not be found."),
        ([("listeners", "PLAINTEXT://127.0.0.1:1")], "1", "listeners cannot be changed while this broker runs"),
        ([("group.share.assignment.interval.ms", "15001")], "", "to group.share.max.assignment.interval.ms"),
    ],
)
async def test_a_change_that_a_running_broker_does_not_take(
    harness: Harness, edits: list[tuple[str, str]], name: str, text: str
) -> None:
    code, message = alter(harness, BROKER, name, *[(key, SET, value) for key, value in edits])
    assert code == INVALID_REQUEST
    assert text in (message or "")


async def test_quotas_and_what_nobody_knows_can_be_set_on_a_running_broker(harness: Harness) -> None:
    edits = ("leader.replication.throttled.rate", SET, "+1000"), ("plugin.option", SET, "secret")
    assert alter(harness, BROKER, "1", *edits) == (0, None)
    found = entries(harness, BROKER, "1")
    quota, unknown = found["leader.replication.throttled.rate"], found["plugin.option"]
    assert (quota.value, quota.config_type, quota.read_only, quota.config_source) == ("+1000", 5, False, 2)
    assert (unknown.value, unknown.config_type, unknown.is_sensitive, unknown.read_only) == (None, 0, True, True)


async def test_a_stored_setting_that_this_broker_refuses_does_not_prevent_a_change(harness: Harness) -> None:
    name, value = "principal.builder.class", "com.example.Builder"
    taken = ConfigRecord(resource_type=BROKER, resource_name="1", name=name, value=value)
    harness.broker.controller.append([taken])
    assert alter(harness, BROKER, "1", ("num.io.threads", SET, "9")) == (0, None)
    assert alter(harness, BROKER, "1", (name, SET, value))[0] == INVALID_REQUEST
    assert alter(harness, BROKER, "1", (name, DELETE, None)) == (0, None)


async def test_a_listeners_setting_is_described_with_that_of_all_listeners(harness: Harness) -> None:
    assert alter(harness, BROKER, "1", ("listener.name.x.max.connections", SET, "7")) == (0, None)
    found = entries(harness, BROKER, "1")["listener.name.x.max.connections"]
    assert synonyms(found) == [("listener.name.x.max.connections", "7", 2), ("max.connections", "2147483647", 5)]


async def test_min_insync_replicas_of_brokers_stand_while_eligible_leaders_are_kept(harness: Harness) -> None:
    assert alter(harness, BROKER, "1", ("min.insync.replicas", SET, "1")) == (0, None)
    harness.broker.controller.append([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)])
    assert alter(harness, BROKER, "1", ("min.insync.replicas", DELETE, None)) == (
        INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert alter(harness, BROKER, "", ("min.insync.replicas", DELETE, None))[0] == INVALID_CONFIG
    assert alter(harness, BROKER, "", ("min.insync.replicas", SET, "2")) == (0, None)


# Requests


async def test_a_resource_named_twice_is_refused_both_times(harness: Harness) -> None:
    harness.create("t")
    twice = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    once = resource(GROUP, "g", ("share.delivery.count.limit", SET, "3"))
    text = "Each resource must appear at most once."
    assert alter_all(harness, twice, once, twice) == [(INVALID_REQUEST, text), (0, None), (INVALID_REQUEST, text)]
    assert list(harness.broker.metadata.image.configs) == [(GROUP, "g")]


async def test_the_older_way_replaces_settings_of_groups_and_metrics_too(harness: Harness) -> None:
    alter(harness, METRICS, "m", ("interval.ms", SET, "5000"), ("metrics", SET, "a"))
    one = AlterConfigsRequest
    wanted = [
        one.AlterConfigsResource(
            resource_type=METRICS, resource_name="m", configs=[one.AlterableConfig(name="metrics", value="b")]
        ),
        one.AlterConfigsResource(
            resource_type=LOGGER, resource_name="1", configs=[one.AlterableConfig(name="root", value="INFO")]
        ),
    ]
    answers = harness.send(one(resources=wanted), 2).responses
    assert [(answer.error_code, answer.error_message) for answer in answers] == [
        (0, None),
        (INVALID_REQUEST, "Unknown resource type 8"),
    ]
    assert harness.broker.metadata.image.config(METRICS, "m") == {"metrics": "b"}


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (BROKER, "7", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "x", "Broker id must be an integer, but it is: x"),
        (LOGGER, "", "Broker id must not be empty"),
        (LOGGER, "7", "Unexpected broker id, expected 1 but received 7"),
        (METRICS, "", "Client metrics subscription name must not be empty"),
        (GROUP, "", "Group name must not be empty"),
        (99, "x", "request being malformed"),
    ],
)
async def test_what_cannot_be_described(harness: Harness, kind: int, name: str, text: str) -> None:
    answer = describe(harness, kind, name)
    assert answer.error_code == INVALID_REQUEST
    assert text in answer.error_message


# Loggers


@pytest.fixture
def broker_loggers() -> Iterator[list[logging.Logger]]:
    loggers = [logging.getLogger("refbroker"), logging.getLogger("refbroker.broker")]
    levels = [logger.level for logger in loggers]
    yield loggers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


async def test_levels_of_the_brokers_loggers_are_described_and_altered(
    harness: Harness, broker_loggers: list[logging.Logger]
) -> None:
    root, logger = broker_loggers
    assert alter(harness, LOGGER, "1", ("root", SET, "FATAL"), ("refbroker.broker", SET, "TRACE")) == (0, None)
    assert (root.level, logger.level) == (logging.CRITICAL, 5)
    found = entries(harness, LOGGER, "1")
    assert [(found[name].value, found[name].config_source) for name in ("root", "refbroker.broker")] == [
        ("FATAL", 6),
        ("TRACE", 6),
    ]
    assert found["refbroker.config"].value == "FATAL"
    assert list(entries(harness, LOGGER, "1", "root")) == ["root"]
    assert alter(harness, LOGGER, "1", ("refbroker.broker", DELETE, None)) == (0, None)
    assert logger.getEffectiveLevel() == logging.CRITICAL
    assert alter(harness, LOGGER, "1", ("root", SET, "INFO"), dry=True) == (0, None)
    assert root.level == logging.CRITICAL


@pytest.mark.parametrize(
    ("name", "edit", "code", "text"),
    [
        ("1", ("root", SET, "info"), INVALID_CONFIG, "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ("1", ("other.library", SET, "INFO"), INVALID_CONFIG, "Logger other.library does not exist!"),
        ("1", ("root", DELETE, None), INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (
            "1",
            ("root", APPEND, "INFO"),
            INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        ("7", ("root", SET, "INFO"), INVALID_REQUEST, "Unexpected node id. Expected 1, but received 7"),
        ("", ("root", SET, "INFO"), INVALID_REQUEST, "Node id must be an integer, but it is: "),
    ],
)
async def test_a_level_that_cannot_be_set(harness: Harness, name: str, edit: Any, code: int, text: str) -> None:
    answer = alter(harness, LOGGER, name, edit)
    assert answer[0] == code
    assert text in (answer[1] or "")


# Which resources have settings


def listed(harness: Harness, *kinds: int, version: int = 1) -> list[tuple[str, int]]:
    answer = harness.send(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert answer.error_code == 0
    return [(one.resource_name, one.resource_type) for one in answer.config_resources]


async def test_resources_with_settings_are_listed_by_type(harness: Harness) -> None:
    harness.create("t")
    alter(harness, METRICS, "m", ("interval.ms", SET, "5000"))
    alter(harness, GROUP, "g", ("share.delivery.count.limit", SET, "4"))
    everything = [("g", GROUP), ("m", METRICS), ("1", LOGGER), ("1", BROKER), ("t", TOPIC)]
    assert listed(harness) == everything
    assert listed(harness, TOPIC, GROUP) == [("g", GROUP), ("t", TOPIC)]
    assert listed(harness, version=0) == [("m", METRICS)]
    refused = harness.send(ListConfigResourcesRequest(resource_types=[TOPIC, 3]), 1)
    assert (refused.error_code, refused.config_resources) == (errors.UnsupportedVersionError.code, [])


def test_settings_that_are_only_stored_are_logged_once_when_they_are_set(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    def stored_only() -> list[str]:
        return [record.getMessage() for record in caplog.records if "does not act on it" in record.getMessage()]

    assert alter(harness, BROKER, "1", ("num.io.threads", SET, "9")) == (0, None)
    assert stored_only() == ["the broker setting num.io.threads is stored, but this broker does not act on it yet"]
    assert alter(harness, BROKER, "1", ("num.io.threads", SET, "10")) == (0, None)
    assert alter(harness, BROKER, "", ("log.cleaner.backoff.ms", SET, "10")) == (0, None)
    assert len(stored_only()) == 1


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "")], ids=["topic", "all brokers"])
async def test_another_min_insync_replicas_makes_no_replica_eligible(harness: Harness, kind: int, name: str) -> None:
    topics = [harness.create(topic) for topic in ("t", "u")]
    harness.broker.controller.append([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)])
    for topic_id in topics:
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, eligible_leader_replicas=[7])
        harness.broker.controller.append([change])
    assert alter(harness, kind, name, ("min.insync.replicas", SET, "2")) == (0, None)
    found = [harness.broker.image.topics[topic].partitions[0].eligible_leader_replicas for topic in ("t", "u")]
    assert found == ([[], [7]] if name else [[], []])
    assert harness.broker.controller.cluster.index.eligible(7) == ([PartitionId(topics[1], 0)] if name else [])
