"""The result of `poll`: records of several partitions, decoded when they are read.

Elsewhere: decoding (`kclient.records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from kclient.records import ConsumerRecord, RecordChunk, chain_iter, to_arrow
from kclient.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow


class Records(Sequence[ConsumerRecord]):
    """An immutable sequence of records, each partition's in the order of its log.

    It may be iterated more than once; every pass decodes the records again, so keep the records themselves if you need
    them twice. A Records object keeps the memory of its fetch responses, which may contain more than it returns; single
    records do not depend on it. It is false if it is empty.
    """

    __slots__ = ("_chunks", "_count")

    def __init__(self, chunks: Sequence[RecordChunk] = ()) -> None:
        self._chunks = tuple(chunks)
        self._count = sum(map(len, self._chunks))

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return chain_iter(self._chunks)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        if isinstance(index, slice):
            return list(self)[index]
        position = index + self._count if index < 0 else index
        if not 0 <= position < self._count:
            raise IndexError(f"there are {self._count} records, and no record {index}")
        for chunk in self._chunks:
            if position < len(chunk):
                return chunk[position]
            position -= len(chunk)
        raise AssertionError("unreachable: the count covers the chunks")

    def __repr__(self) -> str:
        partitions = ", ".join(map(str, self.partitions))
        return f"<Records: {self._count} of {partitions}>" if self._count else "<Records: none>"

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions of the records."""
        return tuple(dict.fromkeys(TopicPartition(chunk.topic, chunk.partition) for chunk in self._chunks))

    def by_partition(self) -> dict[TopicPartition, Records]:
        """Return the records of each partition."""
        chunks: dict[TopicPartition, list[RecordChunk]] = {}
        for chunk in self._chunks:
            chunks.setdefault(TopicPartition(chunk.topic, chunk.partition), []).append(chunk)
        return {tp: Records(own) for tp, own in chunks.items()}

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset after these records by partition: what to commit once they are processed."""
        return {TopicPartition(chunk.topic, chunk.partition): chunk.next_offset for chunk in self._chunks}

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return the records as columns, without a Python object per record.

        Parameters:
            columns: some of topic, partition, offset, timestamp, timestamp_type, key, value, headers,
                leader_epoch; all by default.

        Raises:
            ImportError: pyarrow is not installed (the extra `arrow`).
        """
        return to_arrow(self._chunks, columns)
