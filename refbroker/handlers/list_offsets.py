"""ListOffsets (2), versions 1 to 11: returns offsets by timestamp, and special offsets.

-1 is the latest (with READ_COMMITTED the last stable offset), -2 the earliest, -3 the one with the largest timestamp,
-4 the earliest on this machine, which equals the earliest without tiered storage. -5 and -6, for tiered storage, return
no offset (-1), and so does a time after all records. Debugging tools with the replica id -2, and followers, get the log
end offset as the latest. A new leader whose high watermark has not reached the begin of its epoch cannot tell which
offset is the latest; then that and times without a replicated record are OFFSET_NOT_AVAILABLE, before version 5
LEADER_NOT_AVAILABLE. A special timestamp that the version of the request does not have
is UNSUPPORTED_VERSION, a partition that occurs twice INVALID_REQUEST.

Permissions: DESCRIBE on the topic.
"""

from __future__ import annotations

from collections import Counter

from kclient.errors import (
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    OffsetNotAvailableError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import PartitionServices
from refbroker.log import Isolation
from refbroker.metadata.partitions import LocalPartition
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_TOPIC

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER = -1
FIRST_WITH_OFFSET_NOT_AVAILABLE = 5

Partition = ListOffsetsResponse.ListOffsetsPartitionResponse


def handle(context: Context[PartitionServices], request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer a ListOffsets request."""
    # A topic may have several entries.
    wanted: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, []).extend(topic.partitions)
    topics = []
    for name, entries in wanted.items():
        refusal = context.access.refusal(DESCRIBE_TOPIC, name)
        counts = Counter(one.partition_index for one in entries)
        partitions = [
            _find(context, name, one, request, refusal) for one in entries if counts[one.partition_index] == 1
        ]
        twice = [index for index, count in counts.items() if count > 1]
        partitions += [Partition(partition_index=index, error_code=code_of(InvalidRequestError())) for index in twice]
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: Context[PartitionServices],
    topic: str,
    wanted: ListOffsetsRequest.ListOffsetsPartition,
    request: ListOffsetsRequest,
    refusal: KafkaError | None,
) -> Partition:
    index, timestamp = wanted.partition_index, wanted.timestamp
    try:
        if refusal is not None:
            raise refusal
        if timestamp < 0 and context.version < FIRST_VERSIONS.get(timestamp, 1 << 15):
            raise UnsupportedVersionError(topic=topic, partition=index)
        found = context.broker.partitions.find(topic, index, wanted.current_leader_epoch)
        answer = _look_up(found, timestamp, _isolation(request))
    except OffsetNotAvailableError as error:
        known = context.version >= FIRST_WITH_OFFSET_NOT_AVAILABLE
        return Partition(partition_index=index, error_code=code_of(error if known else LeaderNotAvailableError()))
    except KafkaError as error:
        return Partition(partition_index=index, error_code=code_of(error))
    answer.partition_index = index
    if context.version < 4:
        answer.leader_epoch = -1
    return answer


def _isolation(request: ListOffsetsRequest) -> Isolation:
    if request.replica_id != CONSUMER:
        return Isolation.LOG_END
    return Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED


def _look_up(found: LocalPartition, timestamp: int, isolation: Isolation) -> Partition:
    log, leader_epoch = found.log, found.state.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = log.epochs.epoch_for_offset(start)
        return Partition(offset=start, leader_epoch=leader_epoch if epoch < 0 else epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Partition()
    limit = log.readable_end(isolation)
    if timestamp == LATEST:
        _check_high_watermark(found, isolation)
        return Partition(offset=limit, leader_epoch=leader_epoch)
    record = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if record is None or record.offset >= limit:
        _check_high_watermark(found, isolation)
        return Partition()
    return Partition(timestamp=record.timestamp, offset=record.offset, leader_epoch=record.leader_epoch)


def _check_high_watermark(found: LocalPartition, isolation: Isolation) -> None:
    """Check that the high watermark has reached the current leader epoch.

    Raises:
        OffsetNotAvailableError: it has not, so records that an earlier leader has replicated may be above it.
    """
    log = found.log
    start = log.epochs.latest_start_offset
    if (
        isolation is not Isolation.LOG_END
        and log.leader_epoch == found.state.leader_epoch
        and log.high_watermark < start
    ):
        raise OffsetNotAvailableError(
            f"the high watermark {log.high_watermark} has not reached offset {start}, at which leader epoch "
            f"{log.leader_epoch} begins",
            topic=found.topic,
            partition=found.state.partition_id,
        )
