"""Every metric: its name, meaning, labels and Kafka's counterpart.

A metric that Kafka has is named after Kafka's MBean as the Prometheus JMX exporter usually does: domain, type and name
in lower case, joined by underscores, with `_total` for `PerSec`. Kafka's other names (`socket-server-metrics`) follow
the same rule, with underscores for dashes. Metrics that only this broker has begin with `refbroker_`; those of the
process have the names that every Prometheus client uses.

An empty label is not written, which Prometheus treats as the same: `topic=""` is the sum over all topics.
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
        text: the description.
        labels: the names of its labels.
        mbean: Kafka's name of the metric, if Kafka has it.
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


def _quota(kind: str, name: str, text: str) -> Metric:
    """Return a metric of the clients that share a quota: of a user, a client id, or both."""
    return Metric(
        f"kafka_server_{kind.lower()}_{name.replace('-', '_')}",
        GAUGE,
        text,
        ("user", "client_id"),
        f"kafka.server:type={kind},name={name}",
    )


def _throttle(kind: str) -> Metric:
    return _quota(kind, "throttle-time", "Average throttle time in milliseconds, of the requests that had one.")


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
    """Return a metric with this Kafka name; a counter's name ends with `count`, which becomes `total` here."""
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
REQUESTS = _request("requests_total", COUNTER, "Handled requests.", "RequestsPerSec")
ERRORS = _request("errors_total", COUNTER, "Error codes in responses, one for each partition.", "ErrorsPerSec", "error")
QUEUE_TIME = _request(
    "requestqueuetimems",
    HISTOGRAM,
    "Time from the arrival of a request until its handling, spent on earlier requests of the same connection.",
    "RequestQueueTimeMs",
)
WORK_TIME = _request(
    "localtimems", HISTOGRAM, "Time to decode a request, handle it and encode the response.", "LocalTimeMs"
)
WAIT_TIME = _request(
    "remotetimems",
    HISTOGRAM,
    "Time that a long poll waits for what its response needs; only requests that wait are counted.",
    "RemoteTimeMs",
)
RESPONSE_TIME = _request(
    "responsesendtimems",
    HISTOGRAM,
    "Time until the last byte of a response is passed to the socket.",
    "ResponseSendTimeMs",
)
REQUEST_BYTES = Metric("refbroker_request_bytes_total", COUNTER, "Bytes of requests.", ("request",))
RESPONSE_BYTES = Metric("refbroker_response_bytes_total", COUNTER, "Bytes of responses.", ("request",))

# Records
RECORDS_IN = _topic("messagesin", "Stored records.", "MessagesInPerSec")
BYTES_IN = _topic("bytesin", "Bytes of stored record batches.", "BytesInPerSec")
BYTES_OUT = _topic("bytesout", "Bytes of fetched record batches.", "BytesOutPerSec")
BYTES_REJECTED = _topic("bytesrejected", "Bytes of rejected record batches that were too large.", "BytesRejectedPerSec")
FAILED_PRODUCE = _topic(
    "failedproducerequests",
    "Partitions of Produce requests that failed with an unexpected error of the log.",
    "FailedProduceRequestsPerSec",
)
FAILED_FETCH = _topic(
    "failedfetchrequests",
    "Partitions of Fetch requests that failed with an unexpected error.",
    "FailedFetchRequestsPerSec",
)

# Connections
CONNECTIONS = _socket("connection_count", GAUGE, "Open connections.", "connection-count")
CONNECTIONS_OPENED = _socket("connection_creation_total", COUNTER, "Opened connections.", "connection-creation-total")
CONNECTIONS_CLOSED = _socket(
    "connection_close_total",
    COUNTER,
    "Closed connections: by the client, because they were idle, because there were too many, because of an error, or "
    "at shutdown.",
    "connection-close-total",
    "reason",
)
INCOMING_BYTES = _socket("incoming_byte_total", COUNTER, "Bytes of all requests.", "incoming-byte-total")
OUTGOING_BYTES = _socket("outgoing_byte_total", COUNTER, "Bytes of all responses.", "outgoing-byte-total")

BROKER_CONNECTION_RATE = _socket(
    "broker_connection_accept_rate",
    GAUGE,
    "Accepted connections per second, without those of the brokers' own listener.",
    "broker-connection-accept-rate",
)
CONNECTION_RATE = _socket(
    "connection_accept_rate", GAUGE, "Accepted connections per second.", "connection-accept-rate", "listener"
)
CONNECTION_THROTTLE = _socket(
    "connection_accept_throttle_time",
    GAUGE,
    "Average milliseconds that connections waited for the rates of the listener and of the broker, of those that did.",
    "connection-accept-throttle-time",
    "listener",
)
ADDRESS_THROTTLE = _socket(
    "ip_connection_accept_throttle_time",
    GAUGE,
    "Average milliseconds that connections were held for the rate of their address, of those that were.",
    "ip-connection-accept-throttle-time",
    "listener",
)

# Client quotas
PRODUCE_RATE = _quota("Produce", "byte-rate", "Bytes of Produce requests per second.")
PRODUCE_THROTTLE = _throttle("Produce")
FETCH_RATE = _quota("Fetch", "byte-rate", "Bytes of Fetch responses per second.")
FETCH_THROTTLE = _throttle("Fetch")
REQUEST_RATE = _quota("Request", "request-time", "Time of requests, in percent of one CPU.")
REQUEST_THROTTLE = _throttle("Request")
MUTATION_RATE = _quota("ControllerMutation", "mutation-rate", "Partitions created or deleted per second.")
MUTATION_TOKENS = _quota("ControllerMutation", "tokens", "Partitions that may be created or deleted at once.")
MUTATION_THROTTLE = _throttle("ControllerMutation")

# Logs
LOG_SIZE = _log("size", "Bytes of the log's segments.", "Size")
LOG_START = _log("logstartoffset", "The first offset of the log.", "LogStartOffset")
LOG_END = _log("logendoffset", "The offset of the next record.", "LogEndOffset")
LAST_STABLE = Metric(
    "refbroker_log_last_stable_offset",
    GAUGE,
    "The last stable offset: every transaction before it has ended, and readers of committed records stop there.",
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
    "For how long an open transaction has held back the last stable offset; 0 when none does.",
    ("topic", "partition"),
)
LOG_SEGMENTS = _log("numlogsegments", "Segments of the log.", "NumLogSegments")
PARTITIONS = Metric(
    "kafka_server_replicamanager_partitioncount",
    GAUGE,
    "Partitions whose log is on this broker.",
    (),
    "kafka.server:type=ReplicaManager,name=PartitionCount",
)
PRODUCERS = Metric(
    "kafka_server_replicamanager_produceridcount",
    GAUGE,
    "Idempotent producers whose state the partitions keep.",
    (),
    "kafka.server:type=ReplicaManager,name=ProducerIdCount",
)
LATE_TRANSACTIONS = Metric(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    GAUGE,
    "Partitions whose oldest open transaction exceeded its timeout by more than five minutes; it may hang.",
    (),
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
)
DIRECTORIES_OFFLINE = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount",
    GAUGE,
    "Failed data directories.",
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
    "Free space on the data directory's disk for users other than root.",
    ("logDirectory",),
)
FLUSHES = Metric(
    "kafka_log_logflushstats_logflushrateandtimems",
    HISTOGRAM,
    "Flushes of logs and how long each took.",
    (),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
SEGMENTS_DELETED = Metric("refbroker_log_retention_deleted_segments_total", COUNTER, "Segments deleted by retention.")

# Compaction
CLEANER_PASSES = Metric("refbroker_log_cleaner_passes_total", COUNTER, "Completed compaction passes.")
CLEANER_READ = Metric(
    "refbroker_log_cleaner_read_bytes_total",
    COUNTER,
    "Bytes read by compaction, including those read to build its offset map.",
)
CLEANER_WRITTEN = Metric("refbroker_log_cleaner_written_bytes_total", COUNTER, "Bytes written by compaction.")
CLEANER_RECORDS = Metric(
    "refbroker_log_cleaner_records_total", COUNTER, "Records processed by compaction, by outcome.", ("outcome",)
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
    "How long the log that was last selected had exceeded max.compaction.lag.ms.",
    (),
    "kafka.log:type=LogCleaner,name=max-compaction-delay-secs",
)
DIRTIEST = Metric(
    "kafka_log_logcleanermanager_max_dirty_percent",
    GAUGE,
    "The dirty ratio of the dirtiest log at the last selection.",
    (),
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
CLEANER_IDLE = Metric(
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    GAUGE,
    "Time since compaction last searched for logs to clean.",
    (),
    "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
)
UNCLEANABLE = Metric(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    GAUGE,
    "Partitions that compaction skips because they could not be cleaned.",
    ("logDirectory",),
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
UNCLEANABLE_BYTES = Metric(
    "kafka_log_logcleanermanager_uncleanable_bytes",
    GAUGE,
    "Uncleaned bytes of the partitions that compaction skips.",
    ("logDirectory",),
    "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
)
UNCLEANED = Metric(
    "refbroker_log_cleaner_uncleaned_bytes",
    GAUGE,
    "Bytes of a compacted log that compaction has not processed, without the active segment.",
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
    "Requests that wait for their response.",
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
    "Partitions with a committed offset.",
    (),
    "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
)
OFFSETS_COMMITTED = _coordinator("offset-commit", COUNTER, "Committed offsets.")
OFFSETS_DELETED = _coordinator("offset-deletion", COUNTER, "Offsets deleted by OffsetDelete requests.")
OFFSETS_EXPIRED = _coordinator("offset-expiration", COUNTER, "Offsets that expired.")
GROUPS_BY_PROTOCOL = _coordinator("group", GAUGE, "Groups of either protocol.", "protocol")
CONSUMER_GROUPS = _coordinator("consumer-group", GAUGE, "Consumer groups in each state.", "state")
REBALANCES = _coordinator("group-completed-rebalance", COUNTER, "Completed rebalances of classic groups.")
CONSUMER_REBALANCES = _coordinator(
    "consumer-group-rebalance",
    COUNTER,
    "New epochs of consumer groups, caused by changed subscriptions or topics. A member that leaves does not count.",
)

# Transactions
TRANSACTIONAL_IDS = Metric(
    "refbroker_transactional_ids", GAUGE, "Transactional ids that this broker coordinates, in each state.", ("state",)
)
OPEN_TRANSACTIONS = Metric(
    "refbroker_open_transactions",
    GAUGE,
    "Incomplete transactions that have been open for at least this many milliseconds.",
    ("open_for_ms",),
)

# The cluster's metadata
METADATA_OFFSET = Metric(
    "kafka_server_broker_metadata_metrics_last_applied_record_offset",
    GAUGE,
    "The offset of the last metadata record that the broker has applied.",
    (),
    "kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset",
)
METADATA_SNAPSHOT = Metric(
    "refbroker_metadata_snapshot_offset", GAUGE, "The end offset of the latest metadata snapshot."
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
LOOP_LAG = Metric(
    "refbroker_event_loop_lag_ms", HISTOGRAM, "How late the event loop runs its timers, measured once a second."
)
MEMORY = _process("resident_memory_bytes", GAUGE, "Resident memory of the process.")
CPU = _process("cpu_seconds_total", COUNTER, "CPU time of the process, user and system.")
OPEN_FILES = _process("open_fds", GAUGE, "Open file descriptors of the process.")
STARTED = _process("start_time_seconds", GAUGE, "Start time of the process, in seconds since the epoch.")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All metrics, in this order."""
