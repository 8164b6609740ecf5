"""What compaction should do to a log, in the simplest words: a list of records, and rules without any bytes.

The model knows what was appended, where segments begin, and from each pass how far it came; it says which
records are left, and until when tombstones stay. Offset maps, files, indexes, headers of batches and markers of
transactions are not its business; the tests look at those for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModelRecord:
    """A record that is still there."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    batch: ModelBatch

    @property
    def what(self) -> tuple[int, int, bytes | None, bytes | None]:
        return self.offset, self.timestamp, self.key, self.value


@dataclass(eq=False)
class ModelBatch:
    """A batch; `aborted` is None while its transaction is open."""

    producer_id: int = -1
    aborted: bool | None = False
    horizon_ms: int | None = None


@dataclass
class Model:
    """The records of a log."""

    delete_retention_ms: int
    records: list[ModelRecord] = field(default_factory=list)
    open_batches: dict[int, list[ModelBatch]] = field(default_factory=dict)

    def append(
        self, base_offset: int, timestamp: int, pairs: list[tuple[bytes | None, bytes | None]], producer_id: int,
        transactional: bool,
    ) -> None:  # fmt: skip
        """Take a batch in."""
        batch = ModelBatch(producer_id, None if transactional else False)
        if transactional:
            self.open_batches.setdefault(producer_id, []).append(batch)
        self.records += [
            ModelRecord(base_offset + number, timestamp + number, key, value, batch)
            for number, (key, value) in enumerate(pairs)
        ]

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Decide what the producer has open."""
        for batch in self.open_batches.pop(producer_id, []):
            batch.aborted = not commit

    def clean(self, first_dirty: int, end_offset: int, rewritten_end: int, now_ms: int) -> None:
        """A pass whose map covered from `first_dirty` to before `end_offset`.

        Parameters:
            rewritten_end: where the first segment begins that was not rewritten.
        """
        last = {
            record.key: record.offset
            for record in self.records
            if first_dirty <= record.offset < end_offset and not record.batch.aborted
        }
        rewritten = [record for record in self.records if record.offset < rewritten_end]
        left = [record for record in rewritten if self._stays(record, last, end_offset, now_ms)]
        for record in left:
            if record.value is None and record.batch.horizon_ms is None:
                record.batch.horizon_ms = now_ms + self.delete_retention_ms
        self.records = left + self.records[len(rewritten) :]

    def _stays(self, record: ModelRecord, last: dict[bytes | None, int], end_offset: int, now_ms: int) -> bool:
        batch = record.batch
        if batch.aborted:
            return False
        if record.offset >= end_offset:
            return True
        if record.key is None or last.get(record.key, -1) > record.offset:
            return False
        # A horizon that this pass sets lies in the future, if only by nothing.
        return record.value is not None or batch.horizon_ms is None or now_ms < batch.horizon_ms

    def committed(self, before: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """What a reader of committed records sees of the log before an offset."""
        return [record.what for record in self.records if record.batch.aborted is False and record.offset < before]

    def all(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Every record of data, committed or not."""
        return [record.what for record in self.records]
