"""The meaning of settings, in a sentence each, for DescribeConfigs with documentation.

Only settings with an effect in this broker have a description of their own.
"""

from __future__ import annotations

from refbroker.settings.definitions import Setting

STORED_ONLY = "Stored and shown, without an effect in this broker."

_TOPIC = {
    "cleanup.policy": "Whether old segments are deleted by time or size, compacted by key, or both.",
    "compression.gzip.level": "The compression level for gzip.",
    "compression.lz4.level": "The compression level for lz4.",
    "compression.type": "The codec of stored batches; producer keeps the producer's codec.",
    "compression.zstd.level": "The compression level for zstd.",
    "delete.retention.ms": "How long compaction keeps tombstones and transaction markers, in milliseconds.",
    "file.delete.delay.ms": "How long deleted files are kept for readers, in milliseconds.",
    "flush.messages": "The number of records after which the log is flushed to the disk.",
    "flush.ms": "The time after which the log is flushed to the disk, in milliseconds.",
    "index.interval.bytes": "The approximate number of bytes between two index entries.",
    "max.compaction.lag.ms": "The time after which a record is compacted whatever the dirty ratio, in milliseconds.",
    "max.message.bytes": "The largest record batch that is accepted, in bytes, compressed.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may be in the future, in milliseconds.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may be in the past, in milliseconds.",
    "message.timestamp.type": "Whether records have the timestamp of the producer or of the broker.",
    "min.cleanable.dirty.ratio": "The part of a log that must be dirty before it is compacted, from 0 to 1.",
    "min.compaction.lag.ms": "The time before which a record is not compacted, in milliseconds.",
    "min.insync.replicas": "The number of replicas that must be in sync for a write with acks=all.",
    "preallocate": "Whether a segment's file is created at its full size.",
    "retention.bytes": "The size of a log beyond which its oldest segments are deleted, in bytes; -1 for no limit.",
    "retention.ms": "The age of its latest record at which a segment is deleted, in milliseconds; -1 for no limit.",
    "segment.bytes": "The largest size of a segment, in bytes.",
    "segment.index.bytes": "The largest size of an index, in bytes.",
    "segment.jitter.ms": "The largest random time that is subtracted from segment.ms, in milliseconds.",
    "segment.ms": "The time span of its records at which a segment is rolled, in milliseconds.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become the leader, which may lose "
    "records.",
}

_BROKER = {
    "authorizer.class.name": "The class that decides what clients may do: Kafka's StandardAuthorizer, or none.",
    "add.partitions.to.txn.retry.backoff.max.ms": "How long records wait for the completion of their producer's "
    "previous transaction, in milliseconds.",
    "add.partitions.to.txn.retry.backoff.ms": "The interval at which the broker checks for that completion, "
    "in milliseconds.",
    "advertised.listeners": "The addresses to which clients connect; by default the listeners.",
    "auto.create.topics.enable": "Whether a topic is created when a client first requests it.",
    "auto.leader.rebalance.enable": "Whether the controller elects preferred leaders at intervals.",
    "broker.session.timeout.ms": "The time without a heartbeat after which the controller fences a broker, in "
    "milliseconds.",
    "broker.id": "The older name of node.id.",
    "broker.rack": "The rack of the broker.",
    "broker.heartbeat.interval.ms": "The interval of heartbeats to the controller, in milliseconds.",
    "controlled.shutdown.enable": "Whether the broker waits until the controller has moved its leaders, when it stops.",
    "controller.quorum.bootstrap.servers": "The addresses at which the broker looks for the controllers.",
    "controller.quorum.fetch.max.bytes": "The largest Fetch response from the metadata log, in bytes.",
    "controller.quorum.fetch.snapshot.max.bytes": "The largest piece of a snapshot of the metadata, in bytes.",
    "controller.quorum.request.timeout.ms": "How long a controller may take for a Fetch of the metadata, in "
    "milliseconds.",
    "controller.quorum.voters": "The ids and addresses of the controllers.",
    "controller.socket.timeout.ms": "How long a controller may take for another request, in milliseconds.",
    "initial.broker.registration.timeout.ms": "How long the first registration at the controller may take, in "
    "milliseconds.",
    "process.roles": "Whether the node is a broker under other controllers (broker), or its own controller.",
    "sasl.mechanism.controller.protocol": "The SASL mechanism with which the broker logs in at controllers.",
    "connection.failed.authentication.delay.ms": "How long a response to a failed login waits, in milliseconds.",
    "connections.max.idle.ms": "The time after which an idle connection is closed, in milliseconds.",
    "cordoned.log.dirs": "The data directories that get no new partitions; * for all of them.",
    "default.replication.factor": "The default number of replicas of new topics.",
    "connections.max.reauth.ms": "The time after which a client has to log in again with SASL, in milliseconds; 0 for "
    "no limit.",
    "controller.quota.window.num": "The number of samples of a controller mutation quota.",
    "controller.quota.window.size.seconds": "The length of a sample of a controller mutation quota, in seconds.",
    "delegation.token.expiry.check.interval.ms": "How often expired delegation tokens are removed, in milliseconds.",
    "delegation.token.expiry.time.ms": "The time after which a delegation token expires unless it is renewed, in "
    "milliseconds.",
    "delegation.token.max.lifetime.ms": "The time after which a delegation token cannot be renewed, in milliseconds.",
    "delegation.token.secret.key": "The key that makes the passwords of delegation tokens; they need one.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The largest number of bytes of records in one fetch response.",
    "group.consumer.assignment.interval.ms": "The shortest time between two assignments of a consumer group, in "
    "milliseconds.",
    "group.consumer.assignors": "The assignors of consumer groups; the first one is the default.",
    "group.consumer.heartbeat.interval.ms": "The heartbeat interval of members of consumer groups, in milliseconds.",
    "group.consumer.max.assignment.interval.ms": "The largest assignment interval a group may set, in milliseconds.",
    "group.consumer.max.heartbeat.interval.ms": "The largest heartbeat interval a group may set, in milliseconds.",
    "group.consumer.max.session.timeout.ms": "The largest session timeout a group may set, in milliseconds.",
    "group.consumer.max.size": "The largest number of members of a consumer group.",
    "group.consumer.migration.policy": "The directions in which groups with members may change their protocol.",
    "group.consumer.min.assignment.interval.ms": "The smallest assignment interval a group may set, in milliseconds.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest heartbeat interval a group may set, in milliseconds.",
    "group.consumer.min.session.timeout.ms": "The smallest session timeout a group may set, in milliseconds.",
    "group.consumer.session.timeout.ms": "The time without heartbeat after which a member of a consumer group is "
    "removed, in milliseconds.",
    "group.coordinator.rebalance.protocols": "Without `consumer` among them, clients cannot use the consumer protocol.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members, in milliseconds.",
    "group.max.session.timeout.ms": "The longest session timeout of a member of a classic group, in milliseconds.",
    "group.max.size": "The largest number of members of a classic group.",
    "group.min.session.timeout.ms": "The shortest session timeout of a member of a classic group, in milliseconds.",
    "inter.broker.listener.name": "The listener that brokers connect to; the limits of the broker do not hold it up.",
    "leader.imbalance.check.interval.seconds": "The interval of elections of preferred leaders, in seconds.",
    "listener.security.protocol.map": "The security protocol of each listener by its name; PLAINTEXT, SSL, "
    "SASL_PLAINTEXT or SASL_SSL.",
    "listeners": "The addresses the broker listens on, each with a name; PLAINTEXT on loopback.",
    "log.cleaner.backoff.ms": "The interval of checks for logs to compact, in milliseconds.",
    "log.cleaner.dedupe.buffer.size": "The memory of all cleaner threads together for keys, in bytes.",
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.cleaner.io.buffer.load.factor": "The part of the memory for keys that may be used, from 0 to 1.",
    "log.cleaner.io.buffer.size": "The I/O buffer of all cleaner threads together, in bytes.",
    "log.cleaner.io.max.bytes.per.second": "The I/O limit of all cleaner threads together, in bytes per second.",
    "log.cleaner.threads": "The number of logs that are compacted concurrently.",
    "log.dir": "The data directory if log.dirs is not set.",
    "log.dirs": "The data directories.",
    "log.flush.offset.checkpoint.interval.ms": "The interval at which recovery points are written, in milliseconds.",
    "log.flush.start.offset.checkpoint.interval.ms": "The interval at which log start offsets are written, in "
    "milliseconds.",
    "replica.high.watermark.checkpoint.interval.ms": "The interval at which high watermarks are written, in "
    "milliseconds.",
    "log.retention.check.interval.ms": "The interval of checks for segments to delete, in milliseconds.",
    "max.connection.creation.rate": "How many connections per second are accepted; the others wait.",
    "max.connections": "The largest number of connections; further ones wait until others are closed.",
    "max.connections.per.ip": "The largest number of connections from one IP address.",
    "max.connections.per.ip.overrides": "The same for some addresses: ADDRESS:NUMBER, separated by commas.",
    "max.incremental.fetch.session.cache.slots": "The largest number of incremental fetch sessions.",
    "max.request.partition.size.limit": "The largest number of partitions in one page of DescribeTopicPartitions.",
    "metadata.log.dir": "The directory of the metadata log; by default the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": "The bytes of records after which a metadata snapshot is taken.",
    "metadata.log.max.snapshot.interval.ms": "The time after which a snapshot of changed metadata is taken, in "
    "milliseconds; 0 for never.",
    "metadata.log.segment.bytes": "The largest size of a segment of the metadata log, in bytes.",
    "metadata.log.segment.ms": "The age at which a segment of the metadata log is rolled, in milliseconds.",
    "metadata.max.retention.bytes": "The size of log and snapshots beyond which old metadata is deleted, in bytes; one "
    "snapshot stays.",
    "metadata.max.retention.ms": "The age at which metadata snapshots are deleted, in milliseconds; the latest stays.",
    "node.id": "The id of this node in its cluster.",
    "num.partitions": "The default number of partitions of new topics.",
    "num.replica.alter.log.dirs.threads": "The number of partitions that move between directories concurrently; by "
    "default one for each directory.",
    "num.recovery.threads.per.data.dir": "The number of logs of a data directory that are recovered concurrently after "
    "a crash.",
    "offset.metadata.max.bytes": "The largest metadata of a committed offset, in characters.",
    "offsets.commit.timeout.ms": "How long answers of a group wait for the replicas of its offsets, in milliseconds.",
    "offsets.load.buffer.size": "The buffer for loading a partition of __consumer_offsets, in bytes.",
    "offsets.retention.check.interval.ms": "The interval of checks for expired offsets, in milliseconds.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept, in minutes.",
    "offsets.topic.compression.codec": "The number of the codec of __consumer_offsets.",
    "offsets.topic.num.partitions": "The number of partitions of a new __consumer_offsets.",
    "offsets.topic.replication.factor": "The number of replicas of __consumer_offsets; at most one on each broker.",
    "offsets.topic.segment.bytes": "The segment.bytes of a new __consumer_offsets.",
    "producer.id.expiration.check.interval.ms": "The interval of checks for expired producer ids, in milliseconds.",
    "producer.id.expiration.ms": "How long an idle producer id is kept, in milliseconds.",
    "security.inter.broker.protocol": "The name of the listener that brokers connect to, unless "
    "inter.broker.listener.name is set.",
    "socket.listen.backlog.size": "The largest number of connections that wait to be accepted.",
    "socket.receive.buffer.bytes": "The size of the sockets' receive buffers; -1 for the default of the system.",
    "quota.window.num": "The number of samples of a client quota.",
    "quota.window.size.seconds": "The length of a sample of a client quota, in seconds.",
    "socket.request.max.bytes": "The largest request, in bytes.",
    "socket.send.buffer.bytes": "The size of the sockets' send buffers; -1 for the default of the system.",
    "request.timeout.ms": "How long answers about a transaction wait for the replicas of its state, in milliseconds.",
    "sasl.enabled.mechanisms": "The mechanisms of a listener with SASL.",
    "sasl.server.max.receive.size": "The largest request of a client that has not logged in, in bytes.",
    "sasl.jaas.config": 'Per listener and mechanism: the users of PLAIN as user_NAME="PASSWORD", the keytab of GSSAPI.',
    "sasl.kerberos.principal.to.local.rules": "Rules that make the users' names of the principals of GSSAPI.",
    "sasl.kerberos.service.name": "The service of the broker's principal; GSSAPI needs it here or in sasl.jaas.config.",
    "sasl.oauthbearer.clock.skew.seconds": "How much the clocks of broker and provider may differ, in seconds.",
    "sasl.oauthbearer.expected.audience": "The audiences of which a token must have one.",
    "sasl.oauthbearer.expected.issuer": "The provider that must have issued a token.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "The time between two fetches of the keys, in milliseconds.",
    "sasl.oauthbearer.jwks.endpoint.url": "The keys that sign tokens: an https URL, or file:///PATH.",
    "sasl.oauthbearer.scope.claim.name": "The claim of a token that contains its scope.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a token that contains the user.",
    "sasl.server.callback.handler.class": "Kafka's class that verifies signed tokens, for a listener and OAUTHBEARER.",
    "ssl.cipher.suites": "The cipher suites to allow, by Java's or OpenSSL's names; empty for OpenSSL's choice.",
    "ssl.client.auth": "Whether clients with TLS need a certificate: none, requested or required.",
    "ssl.enabled.protocols": "The versions of TLS to allow.",
    "ssl.key.password": "The password of the key of the broker's certificate.",
    "ssl.keystore.certificate.chain": "The broker's certificate chain, as PEM text or the path of a PEM file.",
    "ssl.keystore.key": "The key of the broker's certificate, as PEM text or the path of a PEM file.",
    "ssl.keystore.location": "The file of the broker's certificate chain and key, PEM or PKCS12.",
    "ssl.keystore.password": "The password of a PKCS12 keystore.",
    "ssl.principal.mapping.rules": "The rules that derive a client's principal from the subject of its certificate.",
    "ssl.truststore.certificates": "The certificates to trust, as PEM text.",
    "ssl.truststore.location": "The file of the certificates to trust, PEM or PKCS12.",
    "ssl.truststore.password": "The password of a PKCS12 truststore.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "The interval of checks for transactions "
    "that have timed out, in milliseconds.",
    "transaction.max.timeout.ms": "The longest transaction.timeout.ms of producers, in milliseconds.",
    "transaction.partition.verification.enable": "Whether the coordinator must confirm the partition of transactional "
    "records before they are appended; always so with version 2 of transactions.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "The interval of checks for expired "
    "transactional ids, in milliseconds.",
    "transaction.state.log.load.buffer.size": "The buffer for loading a partition of __transaction_state, in bytes.",
    "transaction.state.log.min.isr": "The min.insync.replicas of a new __transaction_state.",
    "transaction.state.log.num.partitions": "The number of partitions of a new __transaction_state.",
    "transaction.state.log.replication.factor": "The number of replicas of __transaction_state, at most one on each "
    "broker.",
    "transaction.state.log.segment.bytes": "The segment.bytes of a new __transaction_state.",
    "transactional.id.expiration.ms": "How long an unused transactional id is kept, in milliseconds.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become the leader, which may lose "
    "records.",
    "unclean.leader.election.interval.ms": "The interval of unclean elections for partitions without a leader, where "
    "the topic allows them, in milliseconds.",
    "zookeeper.connect": "The servers of ZooKeeper, as HOST:PORT,HOST:PORT/FOLDER, and the folder in which the broker "
    "shows itself and its topics.",
    "zookeeper.connection.timeout.ms": "How long to wait for ZooKeeper at the start, in milliseconds.",
    "zookeeper.session.timeout.ms": "The time after which a broker whose connection is lost is gone from ZooKeeper, in "
    "milliseconds.",
}


def documentation(setting: Setting, *, topic: bool) -> str:
    """Return the description of a setting."""
    if not setting.acted_on:
        return STORED_ONLY
    text = _TOPIC.get(setting.name) if topic else _BROKER.get(setting.name)
    if text is None:
        from refbroker.settings.topic_table import BROKER_SYNONYMS

        for name, synonyms in BROKER_SYNONYMS.items():
            if setting.name in dict(synonyms):
                return f"The default of {name} of topics: {_TOPIC.get(name, STORED_ONLY)}"
    return text or STORED_ONLY
