"""The settings of a topic, as Kafka 4.3 has them, and the broker settings that stand in for them.

One setting a line, in the notation that `definitions` explains.
"""

from __future__ import annotations

TOPIC_TABLE = """
cleanup.policy list delete compact|delete AD
compression.gzip.level int -1 -1|1..9 AD
compression.lz4.level int 9 1..17 AD
compression.type string producer uncompressed|zstd|lz4|snappy|gzip|producer AD
compression.zstd.level int 3 -131072..22 AD
delete.retention.ms long 86400000 0.. AD
file.delete.delay.ms long 60000 0.. AD
flush.messages long 9223372036854775807 1.. AD
flush.ms long 9223372036854775807 0.. AD
follower.replication.throttled.replicas list "" throttled-replicas D
index.interval.bytes int 4096 0.. AD
leader.replication.throttled.replicas list "" throttled-replicas D
local.retention.bytes long -2 -2.. D
local.retention.ms long -2 -2.. D
max.compaction.lag.ms long 9223372036854775807 1.. AD
max.message.bytes int 1048588 0.. AD
message.timestamp.after.max.ms long 3600000 0.. AD
message.timestamp.before.max.ms long 9223372036854775807 0.. AD
message.timestamp.type string CreateTime CreateTime|LogAppendTime AD
min.cleanable.dirty.ratio double 0.5 0..1 AD
min.compaction.lag.ms long 0 0.. AD
min.insync.replicas int 1 1.. AD
preallocate boolean false * AD
remote.log.copy.disable boolean false * D
remote.log.delete.on.disable boolean false * D
remote.storage.enable boolean false * D
retention.bytes long -1 * AD
retention.ms long 604800000 -1.. AD
segment.bytes int 1073741824 1048576.. AD
segment.index.bytes int 10485760 4.. AD
segment.jitter.ms long 0 0.. AD
segment.ms long 604800000 1.. AD
unclean.leader.election.enable boolean false * D
"""

BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
"""The broker settings that apply when the topic has none of its own, in order, each with the factor of its unit."""
