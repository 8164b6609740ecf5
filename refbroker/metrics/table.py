"""Every metric there is: its name, what it means, its labels, and which of Kafka's it is.

Where Kafka has the metric the name is Kafka's MBean in the usual form of the Prometheus JMX exporter: domain, type
and name in lower case, joined by underscores, `PerSec` becoming `_total`. Kafka's other names (`socket-server-metrics`)
come the same way, their dashes as underscores. What only this broker has begins with `refbroker_`; the process's own
numbers have the names that every Prometheus client gives them.

A label that is empty is not written, which is the same to Prometheus: `topic=""` is the number over all topics.
"""

from __future__ import annotations

from typing import NamedTuple

COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """The declaration of a metric.

    Attributes:
        name: on the page and in the dict.
        kind: COUNTER, GAUGE or HISTOGRAM (of milliseconds).
        text: what it is.
        labels: what tells its values apart.
        mbean: Kafka's name of it, when Kafka has it.
    """

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()
    mbean: str | None = None


def _request(name: str, kind: str, text: str, mbean: str, *labels: str) -> Metric:
    return Metric(
        f"kafka_network_requestmetrics_{name}",
        kind,
        text,
        ("request", *labels),
        f"kafka.network:type=RequestMetrics,name={mbean}",
    )


def _topic(name: str, text: str, mbean: str) -> Metric:
    return Metric(
        f"kafka_server_brokertopicmetrics_{name}_total",
        COUNTER,
        text,
        ("topic",),
        f"kafka.server:type=BrokerTopicMetrics,name={mbean}",
    )


def _socket(name: str, kind: str, text: str, mbean: str, *labels: str) -> Metric:
    return Metric(
        f"kafka_server_socket_server_metrics_{name}",
        kind,
        text,
        labels,
        f"kafka.server:type=socket-server-metrics,name={mbean}",
    )


def _log(name: str, text: str, mbean: str) -> Metric:
    return Metric(f"kafka_log_log_{name}", GAUGE, text, ("topic", "partition"), f"kafka.log:type=Log,name={mbean}")


def _groups(name: str) -> Metric:
    state = f" in the state {name}" if name else ""
    return Metric(
        f"kafka_coordinator_group_groupmetadatamanager_numgroups{name.lower()}",
        GAUGE,
        f"Classic groups{state}.",
        (),
        f"kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups{name}",
    )


def _coordinator(name: str, kind: str, text: str, *labels: str) -> Metric:
    """A metric whose Kafka name is this one; a counter's ends with `count`, which says here that it is a total."""
    ending = "total" if kind == COUNTER else "count"
    return Metric(
        f"kafka_server_group_coordinator_metrics_{name.replace('-', '_')}_{ending}",
        kind,
        text,
        labels,
        f"kafka.server:type=group-coordinator-metrics,name={name}-count",
    )


def _process(name: str, kind: str, text: str) -> Metric:
    return Metric(f"process_{name}", kind, text)


# Requests
REQUESTS = _request("requests_total", COUNTER, "Requests that were handled.", "RequestsPerSec")
ERRORS = _request("errors_total", COUNTER, "Error codes in answers, one for each partition.", "ErrorsPerSec", "error")
QUEUE_TIME = _request(
    "requestqueuetimems",
    HISTOGRAM,
    "From the arrival of a request to its handling: what was before it on its connection.",
    "RequestQueueTimeMs",
)
WORK_TIME = _request("localtimems", HISTOGRAM, "Decoding a request, handling it, encoding the answer.", "LocalTimeMs")
WAIT_TIME = _request(
    "remotetimems",
    HISTOGRAM,
    "Waiting for what the answer needs, in a long poll; only those that wait.",
    "RemoteTimeMs",
)
RESPONSE_TIME = _request(
    "responsesendtimems",
    HISTOGRAM,
    "From the answer to its last byte given to the socket.",
    "ResponseSendTimeMs",
)
REQUEST_BYTES = Metric("refbroker_request_bytes_total", COUNTER, "Bytes of requests.", ("request",))
RESPONSE_BYTES = Metric("refbroker_response_bytes_total", COUNTER, "Bytes of answers.", ("request",))

# Records
RECORDS_IN = _topic("messagesin", "Records that were stored.", "MessagesInPerSec")
BYTES_IN = _topic("bytesin", "Bytes of record batches that were stored.", "BytesInPerSec")
BYTES_OUT = _topic("bytesout", "Bytes of record batches that were fetched.", "BytesOutPerSec")
BYTES_REJECTED = _topic("bytesrejected", "Bytes of record batches that were too large.", "BytesRejectedPerSec")
FAILED_PRODUCE = _topic(
    "failedproducerequests",
    "Partitions of Produce requests whose log refused the batch with an error that nobody expects.",
    "FailedProduceRequestsPerSec",
)
FAILED_FETCH = _topic(
    "failedfetchrequests",
    "Partitions of Fetch requests that could not be read with an error that nobody expects.",
    "FailedFetchRequestsPerSec",
)

# Connections
CONNECTIONS = _socket("connection_count", GAUGE, "Connections that are open.", "connection-count")
CONNECTIONS_OPENED = _socket(
    "connection_creation_total", COUNTER, "Connections that were opened.", "connection-creation-total"
)
CONNECTIONS_CLOSED = _socket(
    "connection_close_total",
    COUNTER,
    "Connections that were closed: by the client, for being idle, refused for being too many, for an error, or as "
    "the broker stopped.",
    "connection-close-total",
    "reason",
)
INCOMING_BYTES = _socket("incoming_byte_total", COUNTER, "Bytes of all requests.", "incoming-byte-total")
OUTGOING_BYTES = _socket("outgoing_byte_total", COUNTER, "Bytes of all answers.", "outgoing-byte-total")

# Logs
LOG_SIZE = _log("size", "Bytes of the log's segments.", "Size")
LOG_START = _log("logstartoffset", "The first offset of the log.", "LogStartOffset")
LOG_END = _log("logendoffset", "The offset that the next record gets.", "LogEndOffset")
LAST_STABLE = Metric(
    "refbroker_log_last_stable_offset",
    GAUGE,
    "Before this offset every transaction is decided; where readers of committed records stop.",
    ("topic", "partition"),
)
LAST_STABLE_LAG = Metric(
    "kafka_cluster_partition_laststableoffsetlag",
    GAUGE,
    "How far the last stable offset is behind the high watermark.",
    ("topic", "partition"),
    "kafka.cluster:type=Partition,name=LastStableOffsetLag",
)
LAST_STABLE_AGE = Metric(
    "refbroker_log_last_stable_offset_age_ms",
    GAUGE,
    "For how long an open transaction has held the last stable offset where it is, 0 while none does.",
    ("topic", "partition"),
)
LOG_SEGMENTS = _log("numlogsegments", "Segments of the log.", "NumLogSegments")
PARTITIONS = Metric(
    "kafka_server_replicamanager_partitioncount",
    GAUGE,
    "Partitions with a log here.",
    (),
    "kafka.server:type=ReplicaManager,name=PartitionCount",
)
PRODUCERS = Metric(
    "kafka_server_replicamanager_produceridcount",
    GAUGE,
    "Idempotent producers that the partitions remember.",
    (),
    "kafka.server:type=ReplicaManager,name=ProducerIdCount",
)
LATE_TRANSACTIONS = Metric(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    GAUGE,
    "Partitions whose oldest open transaction should have timed out five minutes ago; it may hang.",
    (),
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
)
DIRECTORIES_OFFLINE = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount",
    GAUGE,
    "Data directories that failed.",
    (),
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
DIRECTORY_OFFLINE = Metric(
    "kafka_log_logmanager_logdirectoryoffline",
    GAUGE,
    "Whether the data directory has failed: 0 or 1.",
    ("logDirectory",),
    "kafka.log:type=LogManager,name=LogDirectoryOffline",
)
DIRECTORY_USABLE = Metric(
    "refbroker_log_directory_usable_bytes",
    GAUGE,
    "Free space of the data directory's disk, for those who are not root.",
    ("logDirectory",),
)
FLUSHES = Metric(
    "kafka_log_logflushstats_logflushrateandtimems",
    HISTOGRAM,
    "Flushes of logs, and how long the disk took.",
    (),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
SEGMENTS_DELETED = Metric(
    "refbroker_log_retention_deleted_segments_total", COUNTER, "Segments that retention has deleted."
)

# Compaction
CLEANER_PASSES = Metric("refbroker_log_cleaner_passes_total", COUNTER, "Passes of compaction that were finished.")
CLEANER_READ = Metric(
    "refbroker_log_cleaner_read_bytes_total", COUNTER, "Bytes that compaction has read, those for its map included."
)
CLEANER_WRITTEN = Metric("refbroker_log_cleaner_written_bytes_total", COUNTER, "Bytes that compaction has written.")
CLEANER_RECORDS = Metric(
    "refbroker_log_cleaner_records_total", COUNTER, "Records that compaction has looked at, by outcome.", ("outcome",)
)
CLEANER_BUFFER = Metric(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    GAUGE,
    "How full the offset map of the last pass was.",
    (),
    "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent",
)
CLEANER_DELAY = Metric(
    "kafka_log_logcleaner_max_compaction_delay_secs",
    GAUGE,
    "For how long a log had been due by max.compaction.lag.ms when one was last chosen.",
    (),
    "kafka.log:type=LogCleaner,name=max-compaction-delay-secs",
)
DIRTIEST = Metric(
    "kafka_log_logcleanermanager_max_dirty_percent",
    GAUGE,
    "The dirty part of the dirtiest log when one was last chosen.",
    (),
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
CLEANER_IDLE = Metric(
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    GAUGE,
    "How long ago compaction last looked for logs to clean.",
    (),
    "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
)
UNCLEANABLE = Metric(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    GAUGE,
    "Partitions that could not be cleaned and are passed over.",
    ("logDirectory",),
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
UNCLEANABLE_BYTES = Metric(
    "kafka_log_logcleanermanager_uncleanable_bytes",
    GAUGE,
    "What waits to be cleaned in partitions that are passed over.",
    ("logDirectory",),
    "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
)
UNCLEANED = Metric(
    "refbroker_log_cleaner_uncleaned_bytes",
    GAUGE,
    "Bytes of a compacted log, its active segment left out, that compaction has not seen.",
    ("topic", "partition"),
)

# Fetching
SESSIONS = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    GAUGE,
    "Incremental fetch sessions.",
    (),
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
DELAYED = Metric(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    GAUGE,
    "Requests whose answer waits.",
    ("delayedOperation",),
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
)

# Groups
GROUPS = _groups("")
GROUPS_EMPTY = _groups("Empty")
GROUPS_PREPARING = _groups("PreparingRebalance")
GROUPS_COMPLETING = _groups("CompletingRebalance")
GROUPS_STABLE = _groups("Stable")
GROUPS_DEAD = _groups("Dead")
OFFSETS = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    GAUGE,
    "Partitions that groups have committed an offset for.",
    (),
    "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
)
OFFSETS_COMMITTED = _coordinator("offset-commit", COUNTER, "Offsets that were committed.")
OFFSETS_DELETED = _coordinator("offset-deletion", COUNTER, "Offsets that were deleted by OffsetDelete requests.")
OFFSETS_EXPIRED = _coordinator("offset-expiration", COUNTER, "Offsets that were kept long enough.")
GROUPS_BY_PROTOCOL = _coordinator("group", GAUGE, "Groups of either protocol.", "protocol")
CONSUMER_GROUPS = _coordinator("consumer-group", GAUGE, "Consumer groups in each state.", "state")
REBALANCES = _coordinator("group-completed-rebalance", COUNTER, "Rebalances of classic groups that came to their end.")
CONSUMER_REBALANCES = _coordinator(
    "consumer-group-rebalance",
    COUNTER,
    "New epochs of consumer groups: subscriptions or topics changed. A member that leaves does not count.",
)

# Transactions
TRANSACTIONAL_IDS = Metric(
    "refbroker_transactional_ids", GAUGE, "Transactional ids that this broker coordinates, in each state.", ("state",)
)
OPEN_TRANSACTIONS = Metric(
    "refbroker_open_transactions",
    GAUGE,
    "Transactions that have begun at least so many milliseconds ago and are not complete.",
    ("open_for_ms",),
)

# The cluster's metadata
METADATA_OFFSET = Metric(
    "kafka_server_broker_metadata_metrics_last_applied_record_offset",
    GAUGE,
    "The last record of the metadata log that the broker has taken in.",
    (),
    "kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset",
)
METADATA_SNAPSHOT = Metric(
    "refbroker_metadata_snapshot_offset", GAUGE, "The offset up to which the newest snapshot of the metadata reaches."
)
TOPICS = Metric(
    "kafka_controller_kafkacontroller_globaltopiccount",
    GAUGE,
    "Topics of the cluster.",
    (),
    "kafka.controller:type=KafkaController,name=GlobalTopicCount",
)
GLOBAL_PARTITIONS = Metric(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    GAUGE,
    "Partitions of the cluster.",
    (),
    "kafka.controller:type=KafkaController,name=GlobalPartitionCount",
)

# The process
LOOP_LAG = Metric("refbroker_event_loop_lag_ms", HISTOGRAM, "How late the event loop was, looked at once a second.")
MEMORY = _process("resident_memory_bytes", GAUGE, "Memory of the process that is in use.")
CPU = _process("cpu_seconds_total", COUNTER, "Processor time of the process, user and system.")
OPEN_FILES = _process("open_fds", GAUGE, "Open file descriptors of the process.")
STARTED = _process("start_time_seconds", GAUGE, "When the process started, in seconds since the epoch.")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in this order."""
