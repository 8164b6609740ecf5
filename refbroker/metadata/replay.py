"""The effect of the batches of the metadata log on the image, in the order of the log.

Records of a transaction (KIP-866) take effect together when it ends, and not at all if it is aborted. Control records
have the voters. Elsewhere: the effect of one record (`image`), and which batches are committed (`replica`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.messages.records.control import VotersRecord
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kclient.records import RecordBatch
from refbroker.metadata.control_records import VoterSet, decode_control
from refbroker.metadata.image import ClusterImage


class MetadataBatch(NamedTuple):
    """A batch of the metadata log with decoded records.

    Attributes:
        next_offset: the offset after its last record.
        epoch: the leader epoch in which it was appended.
        timestamp_ms: its largest timestamp.
        size: in bytes.
        records: its records; empty for a control batch.
        control: the control records that are known here.
    """

    next_offset: int
    epoch: int
    timestamp_ms: int
    size: int
    records: Sequence[Message]
    control: Sequence[Message] = ()

    @classmethod
    def decode(cls, batch: RecordBatch) -> Self:
        """Return a batch as read from the log.

        Raises:
            CorruptRecordError, ProtocolError: a record cannot be read.
        """
        records: list[Message] = []
        control: list[Message] = []
        for record in batch.records():
            if not batch.is_control:
                records.append(decode_metadata_record(record.value or b""))
            elif (message := decode_control(record)) is not None:
                control.append(message)
        return cls(
            batch.next_offset,
            batch.partition_leader_epoch,
            batch.max_timestamp,
            batch.size_in_bytes,
            records,
            control,
        )


class Replay:
    """The position in the metadata log up to which the image is replayed.

    Parameters:
        image: the image, which only this object changes.

    Attributes:
        next_offset: the offset of the next record.
        epoch: the leader epoch of the last batch.
        timestamp_ms: the timestamp of the last batch.
        voters: the voters, as far as control records contain them.
        has_voters: whether the log or the snapshot says which voters there are, beside the snapshot of formatting.
    """

    def __init__(self, image: ClusterImage) -> None:
        self.next_offset = 0
        self.epoch = 0
        self.timestamp_ms = 0
        self.voters = VoterSet()
        self.has_voters = False
        self._image = image
        self._transaction: list[Message] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended, so that the image is behind `next_offset`."""
        return self._transaction is not None

    def begin(self, next_offset: int, epoch: int, timestamp_ms: int, voters: VoterSet) -> None:
        """Continue from the end of a snapshot, whose records the image has."""
        self.next_offset, self.epoch, self.timestamp_ms = next_offset, epoch, timestamp_ms
        self.voters = voters
        # The snapshot at offset 0 is that of formatting, which other nodes do not get.
        self.has_voters = next_offset > 0
        self._transaction = None
        self._image.next_offset = next_offset

    def apply(self, batch: MetadataBatch) -> list[Message]:
        """Apply the next batch to the image, and return the records that take effect."""
        for message in batch.control:
            self.voters.replay(message)
            self.has_voters |= isinstance(message, VotersRecord)
        effective: list[Message] = []
        for record in batch.records:
            self._add(record, effective)
        for record in effective:
            self._image.replay(record)
        self.next_offset = batch.next_offset
        self.epoch, self.timestamp_ms = batch.epoch, batch.timestamp_ms
        if self._transaction is None:
            self._image.next_offset = batch.next_offset
        return effective

    def _add(self, record: Message, effective: list[Message]) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            effective += self._transaction or []
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            effective.append(record)
