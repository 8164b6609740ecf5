"""The replacement of a batch by smaller ones, or by one without the records that the broker refused.

The records are read from the batch as it was sent; a piece records where each run of them went, so that their futures
find them. Elsewhere: sequence numbers (`idempotence`) and queues (`sender`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from kclient.producer.batch import ProducerBatch, Queue
from kclient.producer.result import Piece
from kclient.records import ConsumerRecord, read_batches
from kclient.records.batch import BATCH_OVERHEAD

NewBatch = Callable[[Queue, float, float, int], ProducerBatch]
"""Returns an empty batch for a queue, with creation time, deadline and maximum size."""


def split(batch: ProducerBatch, new_batch: NewBatch) -> tuple[list[ProducerBatch], list[Piece]]:
    """Return two batches with half of the records each; more, if one would have most of the bytes."""
    records = _records(batch)
    assert batch.builder is not None
    limit = BATCH_OVERHEAD + (batch.builder.size_in_bytes - BATCH_OVERHEAD) * 5 // 8
    middle = (len(records) + 1) // 2
    parts: list[ProducerBatch] = []
    pieces: list[Piece] = []
    for start, half in ((0, records[:middle]), (middle, records[middle:])):
        _fill(batch, half, range(start, start + len(half)), limit, new_batch, parts, pieces)
    return parts, pieces


def without(
    batch: ProducerBatch, refused: Container[int], new_batch: NewBatch
) -> tuple[list[ProducerBatch], list[Piece]]:
    """Return one batch with the records that were not refused."""
    kept = [(index, record) for index, record in enumerate(_records(batch)) if index not in refused]
    assert batch.builder is not None
    parts: list[ProducerBatch] = []
    pieces: list[Piece] = []
    indexes = [index for index, _ in kept]
    _fill(batch, [record for _, record in kept], indexes, batch.builder.size_in_bytes, new_batch, parts, pieces)
    return parts, pieces


def _records(batch: ProducerBatch) -> list[ConsumerRecord]:
    return [record for part in read_batches(batch.build(), verify_checksum=False) for record in part.records()]


def _fill(
    batch: ProducerBatch,
    records: Sequence[ConsumerRecord],
    indexes: Sequence[int],
    limit: int,
    new_batch: NewBatch,
    parts: list[ProducerBatch],
    pieces: list[Piece],
) -> None:
    part: ProducerBatch | None = None
    for index, record in zip(indexes, records, strict=True):
        place = -1
        while place < 0:
            if part is None:
                part = new_batch(batch.queue, batch.created, batch.deadline, limit)
                parts.append(part)
            assert part.builder is not None
            place = part.builder.append(record.timestamp, record.key, record.value, record.headers)
            if place < 0:
                part = None
        assert part is not None
        last = pieces[-1] if pieces else None
        follows = last is not None and last.result is part.result and place - last.start == index - last.first
        if not follows:
            pieces.append(Piece(index, part.result, place))
