"""Collects every metric of a broker, on its event loop.

The loop gets a turn between parts and every few hundred partitions, so that a page with many partitions delays no
request; the values are then not all from the same moment.
"""

from __future__ import annotations

import asyncio

from kclient.errors import BrokerError
from refbroker.log.compaction.manager import uncleanable_bytes
from refbroker.metrics import table
from refbroker.metrics.counters import Closed
from refbroker.metrics.histogram import Histogram
from refbroker.metrics.samples import Samples
from refbroker.server.connection_limits import ConnectionLimits
from refbroker.server.metrics import groups, process, quotas, transactions
from refbroker.server.services import ServerServices

PARTITIONS_PER_TURN = 200
LATE_AFTER_MS = 300_000
"""How long after the longest timeout a transaction counts as late, as in Kafka."""


async def collect(broker: ServerServices, connections: int, limits: ConnectionLimits) -> Samples:
    """Return the metrics of a running broker.

    Parameters:
        connections: the number of open connections.
        limits: how fast clients connect.
    """
    samples = Samples()
    _requests(broker, connections, samples)
    quotas.collect(broker.quotas, limits, samples)
    _topics(broker, samples)
    await asyncio.sleep(0)
    await _logs(broker, samples)
    _directories(broker, samples)
    _cleaner(broker, samples)
    groups.collect(broker.groups, broker.metrics.groups, samples)
    transactions.collect(broker.transactions, broker.clock(), samples)
    _rest(broker, samples)
    process.collect(samples)
    return samples


def _requests(broker: ServerServices, connections: int, samples: Samples) -> None:
    bytes_in = bytes_out = 0
    for stats in [stats for _, stats in sorted(broker.metrics.requests.items())]:
        samples.add(table.REQUESTS, stats.count, stats.name)
        samples.add(table.REQUEST_BYTES, stats.bytes_in, stats.name)
        samples.add(table.RESPONSE_BYTES, stats.bytes_out, stats.name)
        for code, number in sorted(stats.errors.items()):
            kind = BrokerError.by_code.get(code)
            samples.add(table.ERRORS, number, stats.name, str(code) if kind is None else kind.name)
        samples.add(table.QUEUE_TIME, stats.queue.snapshot(), stats.name)
        samples.add(table.WORK_TIME, stats.work.snapshot(), stats.name)
        samples.add(table.WAIT_TIME, stats.wait.snapshot(), stats.name)
        samples.add(table.RESPONSE_TIME, stats.response.snapshot(), stats.name)
        bytes_in += stats.bytes_in
        bytes_out += stats.bytes_out
    samples.add(table.INCOMING_BYTES, bytes_in)
    samples.add(table.OUTGOING_BYTES, bytes_out)
    opened, closed = broker.metrics.connections_opened, broker.metrics.connections_closed
    samples.add(table.CONNECTIONS, connections)
    samples.add(table.CONNECTIONS_OPENED, opened)
    for reason in Closed:
        samples.add(table.CONNECTIONS_CLOSED, closed[reason], reason.value)


def _topics(broker: ServerServices, samples: Samples) -> None:
    topics = broker.metrics.topics
    for name, stats in [("", topics.total()), *sorted(topics.all().items())]:
        samples.add(table.RECORDS_IN, stats.records_in, name)
        samples.add(table.BYTES_IN, stats.bytes_in, name)
        samples.add(table.BYTES_OUT, stats.bytes_out, name)
        samples.add(table.BYTES_REJECTED, stats.bytes_rejected, name)
        samples.add(table.FAILED_PRODUCE, stats.failed_produce, name)
        samples.add(table.FAILED_FETCH, stats.failed_fetch, name)


async def _logs(broker: ServerServices, samples: Samples) -> None:
    logs = broker.logs.logs()
    topics = broker.image.topics
    partitions = producers = late = 0
    late_after_ms = broker.config.integer("transaction.max.timeout.ms") + LATE_AFTER_MS
    for number, log in enumerate(logs, 1):
        labels = (log.topic, str(log.partition))
        samples.add(table.LOG_SIZE, log.size_in_bytes(), *labels)
        samples.add(table.LOG_START, log.log_start_offset, *labels)
        samples.add(table.LOG_END, log.log_end_offset, *labels)
        stable = log.last_stable_offset
        samples.add(table.LAST_STABLE, stable, *labels)
        samples.add(table.LAST_STABLE_LAG, log.high_watermark - stable, *labels)
        samples.add(table.LAST_STABLE_AGE, log.unstable_for_ms(broker.clock()), *labels)
        late += log.has_late_transaction(broker.clock(), late_after_ms)
        samples.add(table.LOG_SEGMENTS, len(log.segments), *labels)
        partitions += log.topic in topics
        producers += log.number_of_producers
        if log.config.compacted:
            samples.add(table.UNCLEANED, uncleanable_bytes(log), *labels)
        if number % PARTITIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    samples.add(table.PARTITIONS, partitions)
    samples.add(table.PRODUCERS, producers)
    samples.add(table.LATE_TRANSACTIONS, late)
    samples.add(table.SEGMENTS_DELETED, broker.logs.segments_deleted)


def _directories(broker: ServerServices, samples: Samples) -> None:
    offline = 0
    flushes = Histogram()
    for directory in broker.logs.directories:
        path = str(directory.path)
        failed = directory.health.failure is not None
        offline += failed
        flushes.add(directory.health.flushes)
        samples.add(table.DIRECTORY_OFFLINE, int(failed), path)
        usable = None if failed else process.usable_bytes(directory.path)
        if usable is not None:
            samples.add(table.DIRECTORY_USABLE, usable, path)
    samples.add(table.DIRECTORIES_OFFLINE, offline)
    samples.add(table.FLUSHES, flushes.snapshot())


def _cleaner(broker: ServerServices, samples: Samples) -> None:
    stats = broker.cleaner.stats
    samples.add(table.CLEANER_PASSES, stats.passes)
    samples.add(table.CLEANER_READ, stats.bytes_read)
    samples.add(table.CLEANER_WRITTEN, stats.bytes_written)
    samples.add(table.CLEANER_RECORDS, stats.records_kept, "kept")
    samples.add(table.CLEANER_RECORDS, stats.records_removed, "removed")
    samples.add(table.CLEANER_BUFFER, stats.max_map_utilization_percent)
    samples.add(table.CLEANER_DELAY, stats.max_compaction_delay_ms / 1000)
    samples.add(table.DIRTIEST, stats.max_dirty_percent)
    if stats.last_run_ms >= 0:
        samples.add(table.CLEANER_IDLE, max(broker.clock() - stats.last_run_ms, 0))
    for directory, keys in stats.uncleanable.items():
        logs = [log for log in (broker.logs.get(*key) for key in keys) if log is not None]
        samples.add(table.UNCLEANABLE, len(logs), directory)
        samples.add(table.UNCLEANABLE_BYTES, sum(map(uncleanable_bytes, logs)), directory)


def _rest(broker: ServerServices, samples: Samples) -> None:
    image = broker.image
    samples.add(table.SESSIONS, len(broker.sessions))
    samples.add(table.DELAYED, len(broker.delayed_fetches), "Fetch")
    samples.add(table.METADATA_OFFSET, broker.metadata.end_offset - 1)
    snapshot = broker.metadata.latest_snapshot
    if snapshot is not None:
        samples.add(table.METADATA_SNAPSHOT, snapshot.offset)
    samples.add(table.TOPICS, len(image.topics))
    samples.add(table.GLOBAL_PARTITIONS, sum(len(topic.partitions) for topic in image.topics.values()))
    samples.add(table.LOOP_LAG, broker.metrics.event_loop.lag.snapshot())
