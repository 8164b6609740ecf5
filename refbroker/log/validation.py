"""The leader's checks of appended records, and the offsets and timestamps it gives them.

Headers and checksums are checked; records are decoded only if the topic has another compression than the batch, if it
is compacted (each record needs a key), or if a timestamp is out of range and the response must name the records.
Offsets and leader epoch are in the first 16 bytes of each batch, outside of the checksum, so that the rest is written
unchanged.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kclient.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from kclient.records import BatchBuilder, BatchHeader, RecordCursor, assign_offsets, batch_headers
from refbroker.log.config import INT64_MAX, LogConfig
from refbroker.log.files import BytesLike

_OFFSET_AND_EPOCH = struct.Struct(">q4si")
_STAMPED = 16
# A small batch may contain millions of invalid records; a response names the first ones.
_MOST_RECORD_ERRORS = 1000
CREATE_TIME, LOG_APPEND_TIME = 0, 1


class Origin(enum.Enum):
    """The origin of an append, which decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft_leader"
    REPLICATION = "replication"


# The leader's batches must not be refused afterwards, and the metadata log is not subject to topic settings.
_SIZE_CHECKED = (Origin.CLIENT, Origin.COORDINATOR)


class RecordError(NamedTuple):
    """A refused record: its index in the batch, and the reason."""

    batch_index: int
    message: str


class RejectedRecordsError(InvalidRecordError):
    """Records of a batch were refused; none of it was stored.

    Attributes:
        record_errors: the records and reasons, for the produce response.
    """

    def __init__(self, message: str, record_errors: list[RecordError], **context: Any) -> None:
        super().__init__(message, **context)
        self.record_errors = record_errors


class RejectedTimestampsError(InvalidTimestampError):
    """Records of a batch have timestamps out of range; none of it was stored.

    Attributes:
        record_errors: the records and reasons, for the produce response.
    """

    def __init__(self, message: str, record_errors: list[RecordError], **context: Any) -> None:
        super().__init__(message, **context)
        self.record_errors = record_errors


@dataclass(slots=True)
class StampedBatch:
    """A batch as it is written to the log.

    Attributes:
        header: the received header, whose offsets, epoch and timestamps are not those in the log.
        parts: its bytes, stamped, to be written one after the other.
        size: of all parts, in bytes.
        base_offset, last_offset: its offsets in the log.
        max_timestamp: its largest timestamp in the log, in milliseconds.
        leader_epoch: its leader epoch in the log.
    """

    header: BatchHeader
    parts: tuple[BytesLike, ...]
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int


def check_records(
    records: BytesLike, config: LogConfig, origin: Origin, topic: str, partition: int
) -> list[BatchHeader]:
    """Check headers and checksums, and return the headers.

    Parameters:
        records: the batches to append.

    Raises:
        CorruptRecordError: a checksum does not match, or the bytes are malformed.
        RecordTooLargeError: a batch is larger than `max.message.bytes`.
        InvalidRecordError: a client sent no batch, several, or one that a client may not send.
    """
    where: dict[str, Any] = {"topic": topic, "partition": partition}
    try:
        headers = list(batch_headers(records))
    except CorruptRecordError as error:
        raise CorruptRecordError(error.message, **where) from error
    if not headers:
        raise InvalidRecordError("The request must have at least one whole record batch per partition", **where)
    if origin is Origin.CLIENT:
        if len(headers) > 1:
            raise InvalidRecordError("The request must have exactly one record batch per partition", **where)
        _check_client_batch(headers[0], where)
    for header in headers:
        if header.magic != 2:
            raise InvalidRecordError(f"Record batches must be in format 2, not {header.magic}", **where)
        if header.size_in_bytes > config.max_message_bytes and origin in _SIZE_CHECKED:
            raise RecordTooLargeError(
                f"The record batch has {header.size_in_bytes} bytes, which is more than the {config.max_message_bytes} "
                f"that max.message.bytes allows",
                **where,
            )
        if not header.is_valid():
            raise CorruptRecordError(f"Record is corrupt (stored crc = {header.checksum})", **where)
    return headers


def _check_client_batch(header: BatchHeader, where: dict[str, Any]) -> None:
    """Raise InvalidRecordError for batches that only the broker writes, and for inconsistent headers."""
    if header.magic != 2:
        raise InvalidRecordError(f"Record batches must be in format 2, not {header.magic}", **where)
    if header.base_offset != 0:
        raise InvalidRecordError(
            f"The base offset of the record batch should be 0, but is {header.base_offset}", **where
        )
    count = header.record_count
    if count <= 0:
        raise InvalidRecordError(f"Invalid reported count for record batch: {count}", **where)
    if header.last_offset - header.base_offset + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of records "
            f"{count}",
            **where,
        )
    if header.is_control:
        raise InvalidRecordError("Clients are not allowed to write control records", **where)
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {header.base_sequence} in record batch of producer {header.producer_id}", **where
        )


class Stamper:
    """Gives batches their offsets, leader epoch and timestamps.

    Parameters:
        config: the log's settings.
        topic, partition: for error messages.
        leader_epoch: the epoch of this broker as leader.
        now_ms: the broker's clock.
        origin: the origin of the append; the metadata log is not subject to topic settings.
    """

    def __init__(
        self, config: LogConfig, topic: str, partition: int, leader_epoch: int, now_ms: int, origin: Origin
    ) -> None:
        self.config = config
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.origin = origin
        self.topic = topic
        self.partition = partition
        self._where: dict[str, Any] = {"topic": topic, "partition": partition}

    def stamp(self, header: BatchHeader, base_offset: int) -> StampedBatch:
        """Return the batch as it is written at `base_offset`.

        Raises:
            RejectedRecordsError, RejectedTimestampsError: the topic does not accept some records.
            RecordTooLargeError: after recompression it is larger than `max.message.bytes`.
            CorruptRecordError: its records are malformed.
        """
        config = self.config
        raw: BytesLike = header.raw
        if self.origin is Origin.RAFT_LEADER:
            return self._stamped(header, raw, base_offset, header.max_timestamp)
        if header.compression_type != self._target_compression(header):
            raw = self._recompressed(header)
        elif self._must_look_at_records(header):
            for _ in self._checked_records(header):
                pass
        max_timestamp = header.max_timestamp
        if config.log_append_time:
            if header.timestamp_type == LOG_APPEND_TIME and self.origin is Origin.CLIENT:
                raise InvalidTimestampError("Producer should not set timestamp type to LogAppendTime.", **self._where)
            max_timestamp = self.now_ms
            raw = bytearray(raw)
            assign_offsets(
                raw, base_offset, self.leader_epoch, max_timestamp=self.now_ms, timestamp_type=LOG_APPEND_TIME
            )
        elif header.timestamp_type == LOG_APPEND_TIME:
            raw = bytearray(raw)
            assign_offsets(raw, base_offset, self.leader_epoch, timestamp_type=CREATE_TIME)
        return self._stamped(header, raw, base_offset, max_timestamp)

    def _stamped(self, header: BatchHeader, raw: BytesLike, base_offset: int, max_timestamp: int) -> StampedBatch:
        view = memoryview(raw)
        front = _OFFSET_AND_EPOCH.pack(base_offset, bytes(view[8:12]), self.leader_epoch)
        last_offset = base_offset + header.last_offset - header.base_offset
        parts = (front, view[_STAMPED:])
        return StampedBatch(header, parts, len(view), base_offset, last_offset, max_timestamp, self.leader_epoch)

    def _target_compression(self, header: BatchHeader) -> str:
        wanted = self.config.compression_type
        if wanted == "producer" or header.is_control:
            return header.compression_type
        return "none" if wanted == "uncompressed" else wanted

    def _must_look_at_records(self, header: BatchHeader) -> bool:
        config = self.config
        if header.is_control:
            return False
        if config.compacted and self.origin is Origin.CLIENT:
            return True
        if config.log_append_time:
            return False
        # The header has only the first and the largest timestamp: a lower bound requires reading each record.
        too_young = header.max_timestamp - self.now_ms > config.message_timestamp_after_max_ms
        return too_young or config.message_timestamp_before_max_ms != INT64_MAX

    def _checked_records(self, header: BatchHeader) -> Iterator[Any]:
        """Yield the records one by one, however many there are; refuse the batch at the end if some are invalid."""
        errors: list[RecordError] = []
        bad_timestamps = False
        place = f"topic partition {self._where['topic']}-{self._where['partition']}"
        for index, record in enumerate(self._records(header)):
            if self.config.compacted and record.key is None:
                errors.append(RecordError(index, f"Compacted topic cannot accept message without key in {place}"))
            elif (text := self._timestamp_fault(record)) is not None:
                bad_timestamps = True
                errors.append(RecordError(index, text))
            else:
                yield record
            if len(errors) == _MOST_RECORD_ERRORS:
                break
        if bad_timestamps:
            text = "One or more records have been rejected due to invalid timestamp"
            raise RejectedTimestampsError(text, errors, **self._where)
        if errors:
            shown = ", ".join(
                f"RecordError(batchIndex={one.batch_index}, message='{one.message}')" for one in errors[:3]
            )
            text = (
                f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing "
                f"the first three errors at most: [{shown}]"
            )
            raise RejectedRecordsError(text, errors, **self._where)

    def _records(self, header: BatchHeader) -> Iterator[Any]:
        """Yield the records as a consumer would receive them."""
        cursor = RecordCursor(header.raw, **self._where, fetch_offset=header.base_offset, check_checksums=False)
        chunk = cursor.take()
        if len(chunk) != header.record_count:
            raise InvalidRecordError("The records of the batch do not have incremental offsets", **self._where)
        return iter(chunk)

    def _timestamp_fault(self, record: Any) -> str | None:
        """Return why a record's timestamp is refused; None if it is not."""
        config = self.config
        if config.log_append_time or record.timestamp == -1:
            return None
        if record.timestamp < 0:
            return f"Invalid negative timestamp {record.timestamp}"
        earliest = self.now_ms - config.message_timestamp_before_max_ms
        latest = self.now_ms + config.message_timestamp_after_max_ms
        if earliest <= record.timestamp <= latest:
            return None
        return (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )

    def _recompressed(self, header: BatchHeader) -> BytesLike:
        """Return the batch with the topic's compression."""
        builder = BatchBuilder(self._target_compression(header), self.config.compression_level, max_bytes=2**31 - 1)
        for record in self._checked_records(header):
            timestamp = self.now_ms if self.config.log_append_time else record.timestamp
            builder.append(timestamp, record.key, record.value, record.headers)
        batch: BytesLike = builder.build(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
        )
        if len(batch) > self.config.max_message_bytes:
            raise RecordTooLargeError(
                f"Compressed with {self.config.compression_type} the record batch has {len(batch)} bytes, more "
                f"than the {self.config.max_message_bytes} that max.message.bytes allows",
                **self._where,
            )
        return batch


def keep_offsets(header: BatchHeader) -> StampedBatch:
    """Return a batch of another replica's log, unchanged."""
    return StampedBatch(
        header,
        (header.raw,),
        header.size_in_bytes,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.partition_leader_epoch,
    )
