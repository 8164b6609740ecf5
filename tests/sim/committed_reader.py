"""A reader of committed records: the broker's Fetch, and the client's cursor that omits what was aborted."""

from __future__ import annotations

from kclient.protocol.messages.fetch import FetchRequest
from kclient.records import RecordCursor
from kclient.types import ConsumerRecord
from tests.sim.transaction_broker import SimulatedBroker
from tests.support.transaction_harness import DATA

READ_COMMITTED = 1


class CommittedReader:
    """Reads one partition, without a network in between.

    Attributes:
        position: of the next record.
        stable: the latest last stable offset from a response; it never goes back.
    """

    def __init__(self, broker: SimulatedBroker, partition: int) -> None:
        self.position = broker.log(DATA, partition).log_start_offset
        self.stable = 0
        self._broker = broker
        self._partition = partition

    def read(self) -> list[ConsumerRecord]:
        """What is committed and was not read yet; nothing while the broker is down."""
        records: list[ConsumerRecord] = []
        # A Fetch ends with a segment.
        while (found := self._fetch()) is not None:
            records += found
        return records

    def _fetch(self) -> list[ConsumerRecord] | None:
        """What one Fetch brings; None when the position stays."""
        where, before = f"{DATA}-{self._partition}", self.position
        wanted = FetchRequest.FetchPartition(
            partition=self._partition, fetch_offset=before, partition_max_bytes=1 << 20
        )
        topic = FetchRequest.FetchTopic(topic=DATA, partitions=[wanted])
        answer = self._broker.ask(FetchRequest(isolation_level=READ_COMMITTED, topics=[topic]), 12)
        if answer is None:
            return None
        [found] = answer.responses[0].partitions
        assert found.error_code == 0, f"{where} cannot be read: {found.error_code}"
        stable = found.last_stable_offset
        assert stable >= max(self.stable, before), f"{where} was stable up to {self.stable}, and is up to {stable}"
        self.stable = stable
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        cursor = RecordCursor(found.records or b"", DATA, self._partition, before, aborted=aborted, read_committed=True)
        records: list[ConsumerRecord] = []
        while (record := cursor.next_record()) is not None:
            assert record.offset < stable, f"{where} is stable up to {stable}, and {record} was handed out"
            records.append(record)
        self.position = cursor.next_offset
        return records if self.position > before else None
