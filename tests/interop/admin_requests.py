"""Admin requests that Apache Kafka and refbroker must answer alike: changes of settings that are refused or allowed.

They are sent with `validate_only`, to a topic `T` of one partition and to resources that have no settings of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kclient.protocol.messages.alter_configs import AlterConfigsRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Edits = list[tuple[str, int, str | None]]


class Change(NamedTuple):
    """Changes of one resource's settings."""

    kind: int
    name: str
    edits: Edits


def incremental(*changes: Change, dry: bool = True) -> IncrementalAlterConfigsRequest:
    one = IncrementalAlterConfigsRequest
    return one(
        resources=[
            one.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[one.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in edits],
            )
            for kind, name, edits in changes
        ],
        validate_only=dry,
    )


def replacing(*changes: Change, dry: bool = True) -> AlterConfigsRequest:
    """The same in the older way, which sets what is named and resets what is not."""
    one = AlterConfigsRequest
    return one(
        resources=[
            one.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[one.AlterableConfig(name=key, value=value) for key, _, value in edits],
            )
            for kind, name, edits in changes
        ],
        validate_only=dry,
    )


#: Values of topic settings, some of which cannot be.
TOPIC_VALUES: dict[str, list[str]] = {
    "retention.ms": ["abc", "-2", " 5 ", "", "5.0"],
    "segment.bytes": ["10", "1e9", "2147483648"],
    "cleanup.policy": ["foo", "", "compact,compact", "compact,,delete", " compact , delete ", ","],
    "compression.type": ["brotli", "", "GZIP"],
    "compression.gzip.level": ["44", "0", "-1"],
    "compression.zstd.level": ["23"],
    "compression.lz4.level": ["0"],
    "min.cleanable.dirty.ratio": ["1.5", "-0.1", "x", "NaN", "1e-3", "0.5f", "Infinity", "1_0"],
    "preallocate": ["yes", "TRUE", " true"],
    "unknown.thing": ["1"],
    "min.insync.replicas": ["0", "99"],
    "max.message.bytes": ["-1"],
    "message.timestamp.type": ["createtime"],
    "leader.replication.throttled.replicas": ["*", "0:1,1:1", "x", ""],
    "follower.replication.throttled.replicas": ["none"],
    "remote.storage.enable": ["true"],
    "remote.log.copy.disable": ["true"],
    "local.retention.ms": ["-3", "99999999999"],
    "max.compaction.lag.ms": ["0"],
    "index.interval.bytes": ["+7"],
    "flush.ms": ["-1"],
    "file.delete.delay.ms": ["0x10"],
}

#: Values that a running broker is to take, for itself and for all.
BROKER_VALUES: dict[str, list[str]] = {
    "message.max.bytes": ["abc", "-1", "2000000"],
    "node.id": ["3"],
    "foo.bar": ["3"],
    "log.retention.ms": ["0", "-5", "60000"],
    "log.retention.hours": ["2"],
    "log.retention.bytes": ["-7"],
    "log.roll.ms": ["0"],
    "log.segment.bytes": ["10"],
    "log.cleanup.policy": ["x", "compact,delete"],
    "log.flush.interval.ms": ["5"],
    "log.local.retention.ms": ["-1", "99999999999"],
    "log.local.retention.bytes": ["5"],
    "log.message.timestamp.type": ["x"],
    "log.cleaner.threads": ["3", "2"],
    "log.cleaner.dedupe.buffer.size": ["1000"],
    "log.cleaner.io.buffer.size": ["-1"],
    "num.io.threads": ["100", "1", "0", "16"],
    "num.network.threads": ["7", "0"],
    "num.replica.fetchers": ["3"],
    "num.recovery.threads.per.data.dir": ["5"],
    "background.threads": ["21"],
    "remote.log.reader.threads": ["100"],
    "remote.log.index.file.cache.total.size.bytes": ["0"],
    "remote.fetch.max.wait.ms": ["0"],
    "cordoned.log.dirs": ["/nope", "*"],
    "ssl.keystore.location": ["/x"],
    "ssl.protocol": ["TLS"],
    "sasl.enabled.mechanisms": ["PLAIN"],
    "listener.name.plaintext.ssl.keystore.location": ["/nope"],
    "listener.name.plaintext.max.connections": ["0", "10"],
    "max.connections": ["10", "-1"],
    "max.connection.creation.rate": ["0"],
    "max.connections.per.ip": ["0"],
    "max.connections.per.ip.overrides": ["a:b", "127.0.0.1:5"],
    "leader.replication.throttled.rate": ["-1", "1000"],
    "metric.reporters": ["org.nope", ""],
    "principal.builder.class": ["x.Y"],
    "config.providers": ["file"],
    "producer.id.expiration.ms": ["0"],
    "transaction.partition.verification.enable": ["x"],
    "unclean.leader.election.enable": ["true"],
    "compression.type": ["x"],
    "group.consumer.assignment.interval.ms": ["20000"],
    "group.coordinator.cached.buffer.max.bytes": ["5"],
}

METRICS_VALUES: dict[str, list[str]] = {
    "metrics": ["*", "a,a", "", "a,,b"],
    "interval.ms": ["5", "x", "3600001", "100"],
    "match": [
        "foo=1", "client_id", "client_id=[", "client_id=a,client_id=b", "client_id=a=b", "",
        "client_software_name = Java , client_id=.*",
    ],
    "foo": ["1"],
}  # fmt: skip

GROUP_VALUES: dict[str, list[str]] = {
    "consumer.session.timeout.ms": ["1", "99999999", "45000", "0"],
    "consumer.heartbeat.interval.ms": ["4999", "15001"],
    "consumer.assignment.interval.ms": ["15001"],
    "share.record.lock.duration.ms": ["999", "1000"],
    "share.auto.offset.reset": [
        "foo", "by_duration:PT1H", "by_duration:PT-1H", "by_duration:x", "by_duration", "EARLIEST", "by_duration:P1D",
        "by_duration:1", "", "by_duration:-PT1H", "by_duration:PT", "by_duration:pt1.5s", "by_duration:PT1H-30M",
    ],
    "share.isolation.level": ["x"],
    "share.renew.acknowledge.enable": ["x"],
    "share.delivery.count.limit": ["11", "1"],
    "share.partition.max.record.locks": ["99", "10001"],
    "streams.num.standby.replicas": ["3"],
    "streams.session.timeout.ms": ["44999"],
    "streams.initial.rebalance.delay.ms": ["-1"],
    "consumer.assignor.offload.enable": ["true"],
    "foo": ["1"],
}  # fmt: skip

#: Requests that have more to them than one value.
OTHERS: list[Change] = [
    Change(TOPIC, "T", [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]),
    Change(TOPIC, "T", [("retention.ms", SET, "10"), ("local.retention.ms", SET, "50")]),
    Change(TOPIC, "T", [("retention.ms", SET, "10"), ("retention.ms", SET, "50")]),
    Change(TOPIC, "T", [("retention.ms", SET, None), ("segment.ms", SET, None)]),
    Change(TOPIC, "T", [("retention.ms", APPEND, "5")]),
    Change(TOPIC, "T", [("nothing", APPEND, "5")]),
    Change(TOPIC, "T", [("nothing", DELETE, None)]),
    Change(TOPIC, "T", [("cleanup.policy", SUBTRACT, "delete")]),
    Change(TOPIC, "T", [("cleanup.policy", APPEND, "compact")]),
    Change(TOPIC, "T", [("cleanup.policy", APPEND, "foo")]),
    Change(TOPIC, "T", []),
    Change(TOPIC, "none", []),
    Change(TOPIC, "none", [("retention.ms", SET, "x")]),
    Change(TOPIC, "bad name", [("retention.ms", SET, "5")]),
    Change(TOPIC, "", [("retention.ms", SET, "5")]),
    Change(99, "x", [("a", SET, "b")]),
    Change(BROKER, "7", [("num.io.threads", SET, "8")]),
    Change(BROKER, "x", [("num.io.threads", SET, "8")]),
    Change(BROKER, "1", [("log.cleanup.policy", APPEND, "compact")]),
    Change(BROKER, "1", [("num.io.threads", APPEND, "8")]),
    Change(BROKER, "1", [("foo.bar", APPEND, "8")]),
    Change(BROKER, "1", [("node.id", DELETE, None)]),
    Change(BROKER, "1", [("node.id", SET, "1"), ("process.roles", SET, "x")]),
    Change(BROKER, "1", [("log.retention.ms", 9, "1")]),
    Change(BROKER, "1", [("log.retention.ms", SET, "1000"), ("log.local.retention.ms", SET, "2000")]),
    Change(LOGGER, "1", [("root", SET, "INFO")]),
    Change(LOGGER, "1", [("root", SET, "info")]),
    Change(LOGGER, "1", [("root", SET, None)]),
    Change(LOGGER, "1", [("nope", SET, "INFO")]),
    Change(LOGGER, "1", [("root", DELETE, None)]),
    Change(LOGGER, "1", [("root", APPEND, "INFO")]),
    Change(LOGGER, "7", [("root", SET, "INFO")]),
    Change(LOGGER, "", [("root", SET, "INFO")]),
    Change(METRICS, "", [("metrics", SET, "a")]),
    Change(METRICS, "bad name", [("metrics", SET, "a")]),
    Change(METRICS, "m", [("metrics", APPEND, "a")]),
    Change(METRICS, "m", [("foo", DELETE, None)]),
    Change(GROUP, "", [("share.delivery.count.limit", SET, "3")]),
    Change(GROUP, "g", [("share.session.timeout.ms", APPEND, "7")]),
]


def single_changes() -> Iterator[Change]:
    """One change each."""
    targets: list[tuple[int, str, dict[str, list[str]]]] = [
        (TOPIC, "T", TOPIC_VALUES), (BROKER, "1", BROKER_VALUES), (BROKER, "", BROKER_VALUES),
        (METRICS, "m", METRICS_VALUES), (GROUP, "g", GROUP_VALUES),
    ]  # fmt: skip
    for kind, name, values in targets:
        for key, several in values.items():
            for value in several:
                yield Change(kind, name, [(key, SET, value)])
    yield from OTHERS


def renamed(change: Change, topic: str) -> Change:
    """With the topic's real name."""
    return change._replace(name=topic) if change[:2] == (TOPIC, "T") else change


def answers(response: Any) -> list[tuple[int, str, int, str | None]]:
    """What an answer says, in an order of its own."""
    return sorted(
        (one.resource_type, one.resource_name, one.error_code, one.error_message) for one in response.responses
    )
