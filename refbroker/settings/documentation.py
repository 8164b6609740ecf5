"""What settings mean, in a sentence each; for DescribeConfigs with documentation.

Only settings this broker acts on are explained; the others are stored, and say so.
"""

from __future__ import annotations

from refbroker.settings.definitions import Setting

STORED_ONLY = "Stored and shown, but this broker does not act on it."

_TOPIC = {
    "cleanup.policy": "What happens to old segments: delete them by time or size, or compact them by key.",
    "compression.gzip.level": "The level when compression.type is gzip.",
    "compression.lz4.level": "The level when compression.type is lz4.",
    "compression.type": "The codec batches are stored with; producer keeps what the producer chose.",
    "compression.zstd.level": "The level when compression.type is zstd.",
    "delete.retention.ms": "How long compaction keeps tombstones and transaction markers, in milliseconds.",
    "file.delete.delay.ms": "How long deleted files stay for those who still read them, in milliseconds.",
    "flush.messages": "After how many records the log is flushed to the disk.",
    "flush.ms": "After how many milliseconds the log is flushed to the disk.",
    "index.interval.bytes": "An index entry is made about every so many bytes.",
    "max.compaction.lag.ms": "A record is compacted after this time whatever the dirty ratio, in milliseconds.",
    "max.message.bytes": "The largest record batch that is accepted, in bytes, compressed.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may lie in the future, in milliseconds.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may lie in the past, in milliseconds.",
    "message.timestamp.type": "Whether records keep the producer's timestamp or get the broker's.",
    "min.cleanable.dirty.ratio": "The part of a log that must be new before it is compacted, from 0 to 1.",
    "min.compaction.lag.ms": "A record is not compacted before this time has passed, in milliseconds.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all.",
    "preallocate": "Whether a segment's file is made at full size when it is created.",
    "retention.bytes": "The oldest segments beyond this size are deleted, in bytes; -1 for no limit.",
    "retention.ms": "Segments whose youngest record is older than this are deleted, in milliseconds; -1 for no limit.",
    "segment.bytes": "A segment is rolled before it grows beyond this, in bytes.",
    "segment.index.bytes": "The largest size of an index, in bytes.",
    "segment.jitter.ms": "Up to this is taken off segment.ms at random, in milliseconds.",
    "segment.ms": "A segment is rolled when its records span this time, in milliseconds.",
}

_BROKER = {
    "add.partitions.to.txn.retry.backoff.max.ms": "How long records wait at most for the end of their producer's "
    "transaction before, in milliseconds.",
    "add.partitions.to.txn.retry.backoff.ms": "How long they wait before the coordinator is asked again, in "
    "milliseconds.",
    "advertised.listeners": "The addresses that clients are told to connect to; by default the listeners.",
    "auto.create.topics.enable": "Whether a topic is created when a client first asks for it.",
    "broker.id": "The older name of node.id.",
    "broker.rack": "The rack the broker says it is in.",
    "connections.max.idle.ms": "A connection without requests is closed after so many milliseconds.",
    "cordoned.log.dirs": "The data directories that get no new partitions; * for all of them.",
    "default.replication.factor": "How many replicas a topic gets when its creator does not say.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The most bytes of records in the answer to one fetch request.",
    "group.consumer.assignment.interval.ms": "How long an assignment of a consumer group stays, in milliseconds.",
    "group.consumer.assignors": "The assignors that consumer groups can have; the first one is the default.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups send heartbeats, in milliseconds.",
    "group.consumer.max.assignment.interval.ms": "The largest assignment interval a group may set, in milliseconds.",
    "group.consumer.max.heartbeat.interval.ms": "The largest heartbeat interval a group may set, in milliseconds.",
    "group.consumer.max.session.timeout.ms": "The largest session timeout a group may set, in milliseconds.",
    "group.consumer.max.size": "How many members a consumer group may have.",
    "group.consumer.migration.policy": "In which direction groups with members may change their protocol.",
    "group.consumer.min.assignment.interval.ms": "The smallest assignment interval a group may set, in milliseconds.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest heartbeat interval a group may set, in milliseconds.",
    "group.consumer.min.session.timeout.ms": "The smallest session timeout a group may set, in milliseconds.",
    "group.consumer.session.timeout.ms": "How long a member of a consumer group may be silent, in milliseconds.",
    "group.coordinator.rebalance.protocols": "Without `consumer` among them, clients cannot use the consumer protocol.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members, in milliseconds.",
    "group.max.session.timeout.ms": "The longest session timeout that a member of a group may have, in milliseconds.",
    "group.max.size": "How many members a group may have.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member of a group may have, in milliseconds.",
    "listeners": "The addresses the broker listens on; PLAINTEXT on loopback.",
    "log.cleaner.backoff.ms": "How often logs are looked at for what may be compacted, in milliseconds.",
    "log.cleaner.dedupe.buffer.size": "The memory all cleaners together use for the keys of a log, in bytes.",
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.cleaner.io.buffer.load.factor": "The part of the memory for keys that may be used, from 0 to 1.",
    "log.cleaner.io.buffer.size": "How much all cleaners together read and write at once, in bytes.",
    "log.cleaner.io.max.bytes.per.second": "How much all cleaners together may read and write, in bytes per second.",
    "log.cleaner.threads": "How many logs are compacted at once.",
    "log.dir": "The data directory, when log.dirs is not set.",
    "log.dirs": "The data directories.",
    "log.flush.offset.checkpoint.interval.ms": "How often recovery points are written, in milliseconds.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often log start offsets are written, in milliseconds.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written, in milliseconds.",
    "log.retention.check.interval.ms": "How often logs are looked at for what may be deleted, in milliseconds.",
    "max.connections": "How many connections are accepted at once.",
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions are kept.",
    "max.request.partition.size.limit": "The most partitions in one page of DescribeTopicPartitions.",
    "metadata.log.dir": "Where the metadata log is; by default in the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": "The metadata is snapshotted after so many bytes.",
    "metadata.log.max.snapshot.interval.ms": "Changed metadata is snapshotted after this, in milliseconds; 0: never.",
    "metadata.log.segment.bytes": "A segment of the metadata log is rolled before it grows beyond this, in bytes.",
    "metadata.log.segment.ms": "A segment of the metadata log is rolled at this age, in milliseconds.",
    "metadata.max.retention.bytes": "Old metadata goes when log and snapshots exceed this, in bytes; a snapshot stays.",
    "metadata.max.retention.ms": "Snapshots of the metadata go at this age, in milliseconds; the newest stays.",
    "node.id": "The number of this node in its cluster.",
    "num.partitions": "How many partitions a topic gets when its creator does not say.",
    "num.replica.alter.log.dirs.threads": "How many partitions move between directories at once; else one for each.",
    "num.recovery.threads.per.data.dir": "How many logs of a data directory are recovered at once after a crash.",
    "offset.metadata.max.bytes": "How long a text may be that a client has kept with an offset, in characters.",
    "offsets.load.buffer.size": "How much of a partition of __consumer_offsets is read at once, in bytes.",
    "offsets.retention.check.interval.ms": "How often offsets are looked at for what may go, in milliseconds.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept, in minutes.",
    "offsets.topic.compression.codec": "The codec that __consumer_offsets is written with, by its number.",
    "offsets.topic.num.partitions": "How many partitions __consumer_offsets gets when it is made.",
    "offsets.topic.replication.factor": "How many replicas __consumer_offsets gets; at most one on each broker.",
    "offsets.topic.segment.bytes": "The segment.bytes that __consumer_offsets gets when it is made.",
    "producer.id.expiration.check.interval.ms": "How often producers that have been idle for too long are looked for, "
    "in milliseconds.",
    "producer.id.expiration.ms": "How long an idle idempotent producer is remembered, in milliseconds.",
    "socket.listen.backlog.size": "How many connections may wait to be accepted.",
    "socket.receive.buffer.bytes": "The size of the sockets' receive buffers, -1 for the system's choice.",
    "socket.request.max.bytes": "The largest request, in bytes.",
    "socket.send.buffer.bytes": "The size of the sockets' send buffers, -1 for the system's choice.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often transactions whose time is up are "
    "looked for, in milliseconds.",
    "transaction.max.timeout.ms": "The longest transaction.timeout.ms that producers may have, in milliseconds.",
    "transaction.partition.verification.enable": "Whether records of a transaction are taken only when its coordinator "
    "has confirmed that their partition is part of it; for transactions of version 2 that is always so.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often transactional ids that have not been used "
    "are looked for, in milliseconds.",
    "transaction.state.log.load.buffer.size": "How much of __transaction_state is read at once, in bytes.",
    "transaction.state.log.min.isr": "The min.insync.replicas that __transaction_state gets when it is made.",
    "transaction.state.log.num.partitions": "How many partitions __transaction_state gets when it is made.",
    "transaction.state.log.replication.factor": "How many replicas __transaction_state gets, one on each broker.",
    "transaction.state.log.segment.bytes": "The segment.bytes that __transaction_state gets when it is made.",
    "transactional.id.expiration.ms": "How long a transactional id is kept that is not used, in milliseconds.",
}


def documentation(setting: Setting, *, topic: bool) -> str:
    """What a setting means."""
    if not setting.acted_on:
        return STORED_ONLY
    text = _TOPIC.get(setting.name) if topic else _BROKER.get(setting.name)
    if text is None:
        from refbroker.settings.topic_table import BROKER_SYNONYMS

        for name, synonyms in BROKER_SYNONYMS.items():
            if setting.name in dict(synonyms):
                return f"What applies to topics that do not set {name}: {_TOPIC.get(name, STORED_ONLY)}"
    return text or STORED_ONLY
