"""DescribeLogDirs (35), versions 1 to 5: returns the data directories, their disks, and the logs in them (KIP-113,
KIP-827).

The response covers the requested topics, or all of them, without the metadata log. A log that is being filled to
replace another one is a future log, and its lag is what it lacks. An offline directory is KAFKA_STORAGE_ERROR. From
version 5 on, the response says whether a directory is cordoned.

Permissions: DESCRIBE on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from kclient.errors import KafkaError
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import LogDirServices
from refbroker.log import LogDirectory, PartitionLog
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Partition = DescribeLogDirsResponse.DescribeLogDirsPartition

UNKNOWN_LAG = -1


def handle(context: Context[LogDirServices], request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Answer a DescribeLogDirs request."""
    refusal = context.access.refusal(DESCRIBE_CLUSTER)
    if refusal is not None:
        return DescribeLogDirsResponse(error_code=code_of(refusal))
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(context, directory, wanted) for directory in context.broker.logs.directories]
    )


def _describe(context: Context[LogDirServices], directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> Result:
    path = str(directory.path.absolute())
    try:
        space = directory.space()
    except KafkaError as error:
        return Result(log_dir=path, error_code=code_of(error))
    topics: dict[str, Topic] = {}
    for log, is_future in _logs(directory):
        if log.topic == METADATA_TOPIC or (wanted is not None and (log.topic, log.partition) not in wanted):
            continue
        topic = topics.setdefault(log.topic, Topic(name=log.topic))
        topic.partitions.append(
            Partition(
                partition_index=log.partition,
                partition_size=log.size_in_bytes(),
                offset_lag=_lag(context, log, is_future),
                is_future_key=is_future,
            )
        )
    return Result(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=space.total,
        usable_bytes=space.usable,
        is_cordoned=directory in context.broker.logs.cordoned,
    )


def _logs(directory: LogDirectory) -> Iterator[tuple[PartitionLog, bool]]:
    for log in directory.logs.values():
        yield log, False
    for log in directory.futures.values():
        yield log, True


def _lag(context: Context[LogDirServices], log: PartitionLog, is_future: bool) -> int:
    current = context.broker.logs.get(log.topic, log.partition)
    if current is None:
        return UNKNOWN_LAG
    if is_future:
        return current.log_end_offset - log.log_end_offset
    return max(current.high_watermark - log.log_end_offset, 0)
