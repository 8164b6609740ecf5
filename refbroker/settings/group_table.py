"""The settings of a group in Kafka 4.3, and the broker settings that are their defaults.

One setting per line, in the notation of `definitions`.
"""

from __future__ import annotations

from typing import NamedTuple

GROUP_TABLE = """
consumer.assignment.interval.ms int 1000 0.. AD
consumer.heartbeat.interval.ms int 5000 1.. AD
consumer.session.timeout.ms int 45000 1.. AD
share.assignment.interval.ms int 1000 0.. D
share.auto.offset.reset string latest offset-reset D
share.delivery.count.limit int 5 2.. D
share.heartbeat.interval.ms int 5000 1.. D
share.isolation.level string read_uncommitted read_committed|read_uncommitted D
share.partition.max.record.locks int 2000 100.. D
share.record.lock.duration.ms int 30000 1000.. D
share.renew.acknowledge.enable boolean true * D
share.session.timeout.ms int 45000 1.. D
streams.assignment.interval.ms int 1000 0.. D
streams.heartbeat.interval.ms int 5000 1.. D
streams.initial.rebalance.delay.ms int 3000 0.. D
streams.num.standby.replicas int 0 0.. D
streams.session.timeout.ms int 45000 1.. D
"""


class Bounds(NamedTuple):
    """The broker settings that limit a setting of groups; None for no limit."""

    least: str | None
    most: str | None


GROUP_BOUNDS: dict[str, Bounds] = {
    f"{kind}.{name}": Bounds(f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    for kind in ("consumer", "share", "streams")
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
} | {
    "share.record.lock.duration.ms": Bounds(
        "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"
    ),
    "share.delivery.count.limit": Bounds(
        "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"
    ),
    "share.partition.max.record.locks": Bounds(
        "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"
    ),
    "streams.num.standby.replicas": Bounds(None, "group.streams.max.standby.replicas"),
}

_WITHOUT_BROKER_SETTING = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
GROUP_SYNONYMS: dict[str, str] = {
    line.split()[0]: f"group.{line.split()[0]}"
    for line in GROUP_TABLE.strip().splitlines()
    if line.split()[0] not in _WITHOUT_BROKER_SETTING
}
"""The broker setting that applies if the group has no value."""
