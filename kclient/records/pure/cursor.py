"""Reads one partition's fetched bytes record by record or chunk by chunk, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, overload

from kclient.errors import CorruptRecordError, DeserializationError
from kclient.records.batch import BatchHeader, split_batches
from kclient.records.control import ABORT, control_type
from kclient.records.pure.record import ConsumerRecord, decode_batch

__all__ = ["RecordChunk", "RecordCursor", "chain_iter", "chunk_columns"]

INT64_MAX = 2**63 - 1

Deserializer = Callable[[bytes, str, tuple[tuple[str, bytes | None], ...]], Any]
"""A function of the bytes of a key or value, the topic, and the headers of the record."""


class RecordChunk:
    """Some records of one partition, in order; it can be iterated more than once.

    Attributes:
        topic, partition: the partition of the records.
        first_offset: the first record's offset, or `next_offset` without records.
        next_offset: the next offset to read, after these records and what was skipped behind them.
    """

    __slots__ = ("_raw", "_records", "first_offset", "next_offset", "partition", "topic")

    def __init__(
        self, topic: str, partition: int, records: list[ConsumerRecord], raw: list[ConsumerRecord], next_offset: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.first_offset = raw[0].offset if raw else next_offset
        self.next_offset = next_offset
        self._records = records
        self._raw = raw

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        return self._records[index]

    def __repr__(self) -> str:
        return (
            f"RecordChunk(topic={self.topic!r}, partition={self.partition}, records={len(self)}, "
            f"first_offset={self.first_offset}, next_offset={self.next_offset})"
        )


def chain_iter(chunks: Iterable[RecordChunk]) -> Iterator[ConsumerRecord]:
    """Return an iterator over the records of several chunks."""
    return chain.from_iterable(chunks)


def chunk_columns(chunks: Iterable[RecordChunk], columns: Sequence[str]) -> dict[str, list[Any]]:
    """Return the raw records of `chunks` as one list per column; see `kclient.records.arrow`."""
    raw = [record for chunk in chunks for record in chunk._raw]
    return {column: [getattr(record, column) for record in raw] for column in columns}


class RecordCursor:
    """Reads the result of one fetch for one partition.

    Records below the fetch offset and control batches are skipped, and with `read_committed` the records of aborted
    transactions too; `next_offset` moves past all of them. A corrupt batch raises an error when it is reached, after
    all earlier records were returned, and again until `skip_to` moves past it. An incomplete last batch, which a fetch
    may return, ends the cursor.

    Parameters:
        data: bytes-like, whole batches one after the other; must not change while it is read.
        topic, partition: where they are from.
        fetch_offset: the offset asked for.
        check_checksums: whether to verify the checksum of each batch.
        aborted: producer id and first offset of the aborted transactions, as the fetch returned them.
        read_committed: whether to skip aborted transactions.
        key_deserializer, value_deserializer: called with the bytes of each key or value that is not
            null, the topic and the headers, before `take` or `next_record` returns.

    Attributes:
        next_offset: after the last record handed out or skipped; what the position becomes.
        leader_epoch: of the batch last touched, None before any or if unknown.
        exhausted: whether there is nothing left to hand out.
        bytes_remaining: how many of the data's bytes are in batches not opened yet.
    """

    def __init__(
        self,
        data: Any,
        topic: str,
        partition: int,
        fetch_offset: int,
        *,
        check_checksums: bool = True,
        aborted: Sequence[tuple[int, int]] = (),
        read_committed: bool = False,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = fetch_offset
        self.leader_epoch: int | None = None
        self._view = memoryview(data).cast("B")
        self._position = 0
        self._frame_is_broken = False
        self._skipped_to = -1
        self._check_checksums = check_checksums
        self._read_committed = read_committed
        # The next one to begin is at the end.
        self._aborted = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._aborted_producers: set[int] = set()
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._open: list[ConsumerRecord] = []
        self._index = 0
        self._open_end = fetch_offset

    @property
    def exhausted(self) -> bool:
        return self._index == len(self._open) and self._position >= len(self._view)

    @property
    def bytes_remaining(self) -> int:
        return len(self._view) - self._position

    def take(self, max_records: int | None = None) -> RecordChunk:
        """Return up to `max_records` records (None for all), an empty chunk at the end.

        Raises:
            CorruptRecordError: the next batch is corrupt.
            DeserializationError: a deserializer failed on the next record; `next_offset` is its offset.
            ValueError: `max_records` is less than 1.
        """
        if max_records is not None and max_records < 1:
            raise ValueError(f"max_records is at least 1, not {max_records}")
        records: list[ConsumerRecord] = []
        raw: list[ConsumerRecord] = []
        while max_records is None or len(raw) < max_records:
            try:
                record = self._peek()
                if record is None:
                    break
                records.append(self._deserialized(record))
            except (CorruptRecordError, DeserializationError):
                if not raw:
                    raise
                break
            raw.append(record)
            self._step()
        return RecordChunk(self.topic, self.partition, records, raw, self.next_offset)

    def next_record(self) -> ConsumerRecord | None:
        """Return the next record, None at the end; raises like `take`."""
        record = self._peek()
        if record is None:
            return None
        record = self._deserialized(record)
        self._step()
        return record

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`, skipping everything below it, corrupt or not.

        Raises:
            ValueError: the offset was passed already.
        """
        if offset < self.next_offset:
            raise ValueError(f"cannot go back to offset {offset} from {self.next_offset}")
        if self._frame_is_broken and offset > self.next_offset:
            # Without a size the next batch cannot be found: it has to be fetched again.
            self._position = len(self._view)
        self.next_offset = self._skipped_to = offset
        while self._index < len(self._open) and self._open[self._index].offset < offset:
            self._index += 1
        if self._index == len(self._open):
            self._close_batch()

    def _peek(self) -> ConsumerRecord | None:
        """Return the next record without moving past it."""
        if self._index == len(self._open) and not self._open_batch():
            return None
        return self._open[self._index]

    def _step(self) -> None:
        """Move past the record that `_peek` returned."""
        self.next_offset = self._open[self._index].offset + 1
        self._index += 1
        if self._index == len(self._open):
            self._close_batch()

    def _close_batch(self) -> None:
        self.next_offset = max(self.next_offset, self._open_end)
        self._open = []
        self._index = 0

    def _open_batch(self) -> bool:
        """Open the next batch with records to return; return False without one."""
        while True:
            try:
                found = next(split_batches(self._view[self._position :]), None)
            except CorruptRecordError as error:
                self._frame_is_broken = True
                raise self._corrupt(error) from None
            if found is None:
                self._position = len(self._view)
                return False
            header = BatchHeader(found[0])
            try:
                records = self._visible_records(header)
            except CorruptRecordError as error:
                if self._skipped_to < 0 or header.last_offset >= self._skipped_to:
                    raise self._corrupt(error) from None
                records = []
            self._position += header.size_in_bytes
            self._open_end = header.next_offset
            if records:
                self._open = records
                return True
            self._close_batch()

    def _corrupt(self, error: CorruptRecordError) -> CorruptRecordError:
        return CorruptRecordError(
            error.message,
            topic=self.topic,
            partition=self.partition,
            offset=max(self.next_offset, error.offset or 0),
        )

    def _visible_records(self, header: BatchHeader) -> list[ConsumerRecord]:
        """Return the records of a batch that the reader may see."""
        if self._check_checksums:
            header.verify()
        self.leader_epoch = header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None
        if not 0 <= header.base_offset <= header.last_offset < INT64_MAX:
            raise header.corrupt("its offsets do not exist")
        # Skipped batches count, too: they may begin or end an aborted transaction.
        if self._read_committed and header.has_producer_id and self._is_aborted(header):
            return []
        if header.is_control or header.last_offset < self.next_offset:
            return []
        records = []
        expected = self.next_offset
        for record in decode_batch(header, self.topic, self.partition, self._check_checksums):
            if expected <= record.offset < INT64_MAX:
                records.append(record)
                expected = record.offset + 1
        return records

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to an aborted transaction; track where these begin and end."""
        while self._aborted and self._aborted[-1][1] <= header.last_offset:
            self._aborted_producers.add(self._aborted.pop()[0])
        if header.is_control:
            for record in islice(decode_batch(header, self.topic, self.partition, False), 1):
                try:
                    control = control_type(record.key)
                except ValueError as error:
                    raise header.corrupt(str(error)) from None
                if control == ABORT:
                    self._aborted_producers.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborted_producers

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        if self._key_deserializer is None and self._value_deserializer is None:
            return record
        result: ConsumerRecord = deserialize(record, self._key_deserializer, self._value_deserializer)
        return result


def deserialize(record: Any, key_deserializer: Deserializer | None, value_deserializer: Deserializer | None) -> Any:
    """Return a copy of `record` with deserialized key and value; null stays None.

    Raises:
        DeserializationError: one of them failed.
    """
    part = "key"
    key, value = record.key, record.value
    try:
        if key_deserializer is not None and key is not None:
            key = key_deserializer(key, record.topic, record.headers)
        part = "value"
        if value_deserializer is not None and value is not None:
            value = value_deserializer(value, record.topic, record.headers)
    except Exception as error:
        raise DeserializationError(
            record.topic,
            record.partition,
            record.offset,
            part=part,
            key=record.key,
            value=record.value,
            reason=error,
        ) from error
    return type(record)(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        key,
        value,
        record.headers,
        record.leader_epoch,
    )
