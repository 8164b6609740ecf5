"""What was read since the last commit: which offsets to commit with it, and whether it is time to."""

from __future__ import annotations

from kclient.types import ConsumerRecord, OffsetAndMetadata, TopicPartition


class Batch:
    """The records of one transaction.

    Parameters:
        max_records: how many there may be.
        max_seconds: how long the first may wait for the commit.

    Attributes:
        records_in, records_out: how many were read, and sent.
        offsets: by partition, the next one to read.
        started: when the first record was taken; on the loop's clock.
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
        """How many records it still takes."""
        return self._max_records - self.records_in

    def add(self, tp: TopicPartition, record: ConsumerRecord, results: int) -> None:
        """A record was transformed, and so many results sent."""
        self.records_in += 1
        self.records_out += results
        self.offsets[tp] = OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)

    def seconds_left(self, now: float) -> float:
        """Until it is to be committed; 0 when it is time, or it is full."""
        if self.room <= 0:
            return 0.0
        return max(0.0, self.started + self._max_seconds - now)
