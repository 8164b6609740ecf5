"""Replays the log of a partition into a coordinator's state.

Files are read in a worker thread, and between pieces of the replay the event loop does other work. Records of kinds
that are not known here, which a newer broker may have written, are skipped, as Kafka does; damaged ones are an error.
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
from refbroker.log import PartitionLog
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

RECORDS_IN_A_PIECE = 500
"""A few milliseconds' work."""


class ReplayedState(Protocol):
    """State that the records of a log make up."""

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Take over what a record says; None as value: what the key names is gone."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or forget, what a producer wrote in its transaction."""


@dataclass(slots=True)
class LoadSummary:
    """What has been replayed."""

    records: int = 0
    size_in_bytes: int = 0


async def load(log: PartitionLog, state: ReplayedState, buffer_bytes: int) -> LoadSummary:
    """Replay a log from its start to its end, which may move meanwhile.

    Parameters:
        buffer_bytes: how much is read at once; a batch that is larger is read whole.

    Raises:
        CorruptRecordError, ProtocolError: a record cannot be read.
        KafkaStorageError: the disk fails.
    """
    summary = LoadSummary()
    offset, in_piece = log.log_start_offset, 0
    while offset < log.log_end_offset:
        records = log.read(offset, buffer_bytes).records
        if not len(records):
            # Compaction can leave nothing at the end of a log.
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
