"""The records since the last commit: the offsets to commit with them, and when."""

from __future__ import annotations

from kclient.types import ConsumerRecord, OffsetAndMetadata, TopicPartition


class Batch:
    """The records of one transaction.

    Parameters:
        max_records: the maximum number of records.
        max_seconds: how long the first record may wait for the commit.

    Attributes:
        records_in, records_out: the numbers of records read and sent.
        offsets: by partition, the next offset to read.
        started: when the first record was taken (loop's clock).
    """

    def __init__(self, max_records: int, max_seconds: float) -> None:
        self._max_records = max_records
        self._max_seconds = max_seconds
        self.records_in = 0
        self.records_out = 0
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.started = 0.0

    @property
    def room(self) -> int:
        """The number of records that it still accepts."""
        return self._max_records - self.records_in

    def add(self, tp: TopicPartition, record: ConsumerRecord, results: int) -> None:
        """Add a record that was transformed, and the number of its results."""
        self.records_in += 1
        self.records_out += results
        self.offsets[tp] = OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the commit is due; 0 if it is due or the batch is full."""
        if self.room <= 0:
            return 0.0
        return max(0.0, self.started + self._max_seconds - now)
