"""The replay of a partition's log into a coordinator's state.

Files are read in a worker thread, and the event loop does other work between pieces of the replay. Records of unknown
types, which a newer broker may have written, are skipped, as in Kafka; damaged records are an error.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from kclient.protocol import Message
from kclient.protocol.log_records import UnknownRecordTypeError
from kclient.records import ABORT, COMMIT, RecordBatch, parse_control_record, read_batches
from refbroker.coordinators.records import decode_record
from refbroker.log import Isolation, PartitionLog
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

RECORDS_IN_A_PIECE = 500
"""A few milliseconds' work."""


class ReplayedState(Protocol):
    """The state that a log is replayed into."""

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Apply a record; a value of None is a tombstone, which deletes the key."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the records of a producer's transaction if it was committed; discard them if it was aborted."""


@dataclass(slots=True)
class LoadSummary:
    """The number and size of the replayed records."""

    records: int = 0
    size_in_bytes: int = 0


async def load(log: PartitionLog, state: ReplayedState, buffer_bytes: int) -> LoadSummary:
    """Replay a log from its start to its end, which may move in the meantime.

    Parameters:
        buffer_bytes: the number of bytes to read at once; a larger batch is read whole.

    Raises:
        CorruptRecordError, ProtocolError: a record cannot be decoded.
        KafkaStorageError: the log cannot be read from disk.
    """
    summary = LoadSummary()
    offset, in_piece = log.log_start_offset, 0
    while offset < log.log_end_offset:
        records = log.read(offset, buffer_bytes, isolation=Isolation.LOG_END).records
        if not len(records):
            # Compaction may have removed all records up to the log end offset.
            break
        data = await in_thread(records.read)
        for batch in read_batches(data):
            in_piece += _replay(batch, log, state)
            summary.size_in_bytes += batch.size_in_bytes
            offset = batch.next_offset
            if in_piece >= RECORDS_IN_A_PIECE:
                summary.records, in_piece = summary.records + in_piece, 0
                await asyncio.sleep(0)
    summary.records += in_piece
    return summary


def _replay(batch: RecordBatch, log: PartitionLog, state: ReplayedState) -> int:
    records = batch.records(log.topic, log.partition)
    for record in records:
        if batch.is_control:
            control = parse_control_record(record)
            if control.type in (ABORT, COMMIT):
                state.end_transaction(batch.producer_id, committed=control.type == COMMIT)
            continue
        try:
            key, value = decode_record(record.key or b"", record.value, log.topic)
        except UnknownRecordTypeError as error:
            logger.warning("%s-%d, offset %d is skipped: %s", log.topic, log.partition, record.offset, error)
            continue
        state.replay(key, value, batch.producer_id, record.offset)
    return len(records)
