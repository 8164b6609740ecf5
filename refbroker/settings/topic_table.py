"""The settings of a topic in Kafka 4.3, and the broker settings that are their defaults.

One setting per line. On the left of `=` is the topic setting in the notation of `definitions`; a name alone means that
type, default, range and flags are those of the broker setting. On the right are the broker settings that apply if the
topic has no value, in order of precedence, with `*FACTOR` where the unit differs.
"""

from __future__ import annotations

TOPIC_TABLE = """
cleanup.policy = log.cleanup.policy
compression.gzip.level = compression.gzip.level
compression.lz4.level = compression.lz4.level
compression.type = compression.type
compression.zstd.level = compression.zstd.level
delete.retention.ms = log.cleaner.delete.retention.ms
file.delete.delay.ms = log.segment.delete.delay.ms
flush.messages = log.flush.interval.messages
flush.ms long 9223372036854775807 0.. AD = log.flush.interval.ms log.flush.scheduler.interval.ms
follower.replication.throttled.replicas list "" throttled-replicas D
index.interval.bytes = log.index.interval.bytes
leader.replication.throttled.replicas list "" throttled-replicas D
local.retention.bytes = log.local.retention.bytes
local.retention.ms = log.local.retention.ms
max.compaction.lag.ms = log.cleaner.max.compaction.lag.ms
max.message.bytes = message.max.bytes
message.timestamp.after.max.ms = log.message.timestamp.after.max.ms
message.timestamp.before.max.ms = log.message.timestamp.before.max.ms
message.timestamp.type = log.message.timestamp.type
min.cleanable.dirty.ratio = log.cleaner.min.cleanable.ratio
min.compaction.lag.ms = log.cleaner.min.compaction.lag.ms
min.insync.replicas = min.insync.replicas
preallocate = log.preallocate
remote.log.copy.disable boolean false * D
remote.log.delete.on.disable boolean false * D
remote.storage.enable boolean false * D
retention.bytes = log.retention.bytes
retention.ms long 604800000 -1.. AD = log.retention.ms log.retention.minutes*60000 log.retention.hours*3600000
segment.bytes = log.segment.bytes
segment.index.bytes = log.index.size.max.bytes
segment.jitter.ms long 0 0.. AD = log.roll.jitter.ms log.roll.jitter.hours*3600000
segment.ms long 604800000 1.. AD = log.roll.ms log.roll.hours*3600000
unclean.leader.election.enable = unclean.leader.election.enable
"""


def _read_synonyms(text: str) -> tuple[tuple[str, int], ...]:
    units = (each.partition("*") for each in text.split())
    return tuple((name, int(factor or 1)) for name, _, factor in units)


BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    own.split()[0]: _read_synonyms(synonyms)
    for own, _, synonyms in (line.partition("=") for line in TOPIC_TABLE.strip().splitlines())
    if synonyms
}
"""The broker settings that apply if the topic has no value, in order of precedence, each with the factor of its
unit.
"""
