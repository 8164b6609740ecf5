# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled cursor over fetched batches of one partition; `kclient.records.pure.cursor` has the docstrings."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from kclient.records._handover cimport step_aside
from kclient.records._records cimport (
    LAST_INT64, NO_RECORDS, ConsumerRecord, RecordChunk, RecordContext, Segment, decode_next, open_segment, read_visible,
    split, structure_fault, wrapping_add,
)
from kclient.records._wire cimport RecordView, int32_t, int64_t, load16, load32, load64, uint8_t, uint64_t

from crc32c import crc32c

from kclient.errors import CorruptRecordError, DeserializationError
from kclient.records._records import decode_batch
from kclient.records.batch import BatchHeader, split_batches
from kclient.records.control import ABORT, control_type
from kclient.records.pure.cursor import deserialize

cdef enum:
    HEADER_SIZE = 61
    CRC_END = 21
    LOG_OVERHEAD = 12
    SMALLEST_LEGACY = 14


cdef class RecordCursor:
    """Reads the result of one fetch for one partition; see `kclient.records.pure.RecordCursor`."""

    cdef readonly str topic
    cdef readonly object partition
    cdef readonly int64_t next_offset
    cdef readonly object leader_epoch
    cdef object view
    cdef Py_buffer buffer
    cdef Py_ssize_t position
    cdef bint frame_is_broken
    cdef int64_t skipped_to
    cdef bint check_checksums
    cdef bint read_committed
    cdef list aborted
    cdef set aborted_producers
    cdef object key_deserializer
    cdef object value_deserializer
    cdef RecordContext context
    cdef Segment open
    cdef int64_t open_end

    def __cinit__(
        self, data, str topic, partition, int64_t fetch_offset, *, bint check_checksums=True, aborted=(),
        bint read_committed=False, key_deserializer=None, value_deserializer=None,
    ):
        self.view = memoryview(data).cast("B")
        # The view keeps the memory valid. The buffer is released at once, because a memoryview that is exported while
        # the garbage collector clears it crashes Python before 3.11.9 (gh-77894).
        PyObject_GetBuffer(self.view, &self.buffer, PyBUF_SIMPLE)
        PyBuffer_Release(&self.buffer)
        self.topic = topic
        self.partition = partition
        self.next_offset = self.open_end = fetch_offset
        self.skipped_to = -1
        self.check_checksums = check_checksums
        self.read_committed = read_committed
        # The next one to start is at the end.
        self.aborted = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self.aborted_producers = set()
        self.key_deserializer = key_deserializer
        self.value_deserializer = value_deserializer
        self.open = NO_RECORDS

    @property
    def exhausted(self) -> bool:
        return self.open.visible == 0 and self.position >= self.buffer.len

    @property
    def bytes_remaining(self) -> int:
        return self.buffer.len - self.position

    def take(self, max_records=None):
        cdef int64_t limit = LAST_INT64 if max_records is None else max_records
        cdef int64_t count
        cdef bint failed = False
        cdef Segment first
        cdef RecordView view
        cdef RecordChunk chunk = RecordChunk.__new__(RecordChunk)
        if limit < 1:
            raise ValueError(f"max_records is at least 1, not {max_records}")
        chunk.topic = self.topic
        chunk.partition = self.partition
        chunk.segments = []
        if self.key_deserializer is not None or self.value_deserializer is not None:
            chunk.decoded = []
        while chunk.length < limit and not failed:
            if self.open.visible == 0:
                try:
                    if not self.open_batch():
                        break
                except CorruptRecordError:
                    if chunk.length == 0:
                        raise
                    break
            count = min(self.open.visible, limit - chunk.length)
            if chunk.decoded is not None:
                failed = self.deserialize_into(chunk, count)
                count = len(chunk.decoded) - chunk.length
                if count == 0:
                    break
            chunk.segments.append(self.take_from_open(count))
            chunk.length += count
        chunk.next_offset = chunk.first_offset = self.next_offset
        if chunk.length > 0:
            first = (<Segment>chunk.segments[0]).copy()
            read_visible(first, &view)
            chunk.first_offset = first.next_offset - 1
        return chunk

    def next_record(self):
        cdef ConsumerRecord record
        if self.open.visible == 0 and not self.open_batch():
            return None
        if self.key_deserializer is None and self.value_deserializer is None:
            record = decode_next(self.open)
            self.next_offset = self.open.next_offset
            if self.open.visible == 0:
                self.close_batch()
            return record
        record = self.deserialized(decode_next(self.open.copy()))
        self.take_from_open(1)
        return record

    def skip_to(self, int64_t offset):
        cdef RecordView view
        cdef Segment ahead
        if offset < self.next_offset:
            raise ValueError(f"cannot go back to offset {offset} from {self.next_offset}")
        if self.frame_is_broken and offset > self.next_offset:
            # Without a size, the next batch cannot be found: it has to be fetched again.
            self.position = self.buffer.len
        self.next_offset = self.skipped_to = offset
        while self.open.visible > 0:
            ahead = self.open.copy()
            read_visible(ahead, &view)
            if ahead.next_offset > offset:
                break
            self.open = ahead
        if self.open.visible == 0:
            self.close_batch()

    cdef Segment take_from_open(self, int64_t count):
        cdef Segment taken = self.open
        if count < taken.visible:
            taken = split(taken, count)
            self.next_offset = taken.final_offset
        else:
            self.next_offset = taken.final_offset
            self.close_batch()
        return taken

    cdef void close_batch(self) noexcept:
        self.open = NO_RECORDS
        if self.open_end > self.next_offset:
            self.next_offset = self.open_end

    cdef bint deserialize_into(self, RecordChunk chunk, int64_t count) except -1:
        """Add `count` records of the open batch to the chunk; return True if one fails, or raise if it is the first."""
        cdef Segment ahead = self.open.copy()
        while count > 0:
            try:
                chunk.decoded.append(self.deserialized(decode_next(ahead)))
            except DeserializationError:
                if not chunk.decoded:
                    raise
                return True
            count -= 1
        return False

    cdef ConsumerRecord deserialized(self, ConsumerRecord raw):
        return deserialize(raw, self.key_deserializer, self.value_deserializer)

    cdef bint open_batch(self) except -1:
        """Open the next batch with visible records; return False without one."""
        cdef const uint8_t* p
        cdef Py_ssize_t left, total
        cdef int64_t end
        cdef Segment segment
        while True:
            p = <const uint8_t*>self.buffer.buf + self.position
            left = self.buffer.len - self.position
            if left < LOG_OVERHEAD:
                self.position = self.buffer.len
                return False
            total = <Py_ssize_t><int32_t>load32(p + 8) + LOG_OVERHEAD
            if total < LOG_OVERHEAD + SMALLEST_LEGACY:
                raise self.broken_frame()
            if total > left:
                self.position = self.buffer.len
                return False
            if p[16] > 2 or (p[16] == 2 and total < HEADER_SIZE) or (p[16] == 1 and total < 34):
                raise self.broken_frame()
            end = load64(p)
            if p[16] == 2:
                end = wrapping_add(end, <int32_t>load32(p + 23))
            try:
                segment = self.visible_segment(p, total, end)
            except CorruptRecordError as error:
                if self.skipped_to < 0 or self.header(total).last_offset >= self.skipped_to:
                    raise self.corrupt(error) from None
                segment = NO_RECORDS
                # The last offset of a corrupt batch may be invalid.
                end = self.next_offset - 1
            self.position += total
            self.open_end = wrapping_add(end, 1)
            if segment.visible > 0:
                self.open = segment
                step_aside()
                return True
            self.close_batch()

    cdef Segment visible_segment(self, const uint8_t* p, Py_ssize_t total, int64_t last_offset):
        """Return the visible records of the batch at p; the segment may be empty."""
        cdef Segment segment
        cdef int64_t base_offset = load64(p)
        cdef int64_t producer_id
        cdef int attributes
        cdef str fault
        if p[16] < 2:
            header = self.header(total)
            if self.check_checksums:
                header.verify()
            self.set_context(-1, 0)
            if last_offset < 0 or last_offset == LAST_INT64:
                raise header.corrupt("its offsets do not exist")
            if last_offset < self.next_offset:
                return NO_RECORDS
            return open_segment(header, self.topic, self.partition, self.next_offset, self.check_checksums)
        if self.check_checksums and <uint64_t>crc32c(
            self.view[self.position + CRC_END : self.position + total]
        ) != load32(p + 17):
            raise self.header(total).corrupt("its checksum does not match")
        attributes = load16(p + 21)
        self.set_context(<int32_t>load32(p + 12), 1 if attributes & 8 else 0)
        if base_offset < 0 or last_offset < base_offset or last_offset == LAST_INT64:
            raise self.header(total).corrupt("its offsets do not exist")
        # Batches that are skipped are checked too: they may begin or end an aborted transaction.
        producer_id = load64(p + 43)
        if self.read_committed and producer_id >= 0:
            if self.is_aborted(total, producer_id, last_offset, attributes):
                return NO_RECORDS
        if attributes & 0x20 or last_offset < self.next_offset:
            return NO_RECORDS
        if attributes & 7:
            segment = open_segment(
                self.header(total), self.topic, self.partition, self.next_offset, self.check_checksums
            )
            segment.context = self.context
            return segment
        segment = Segment.__new__(Segment)
        segment.context = self.context
        segment.owner = self.view
        segment.start = p + HEADER_SIZE
        segment.end = p + total
        segment.next_offset = self.next_offset
        segment.base_offset = base_offset
        segment.base_timestamp = load64(p + 27)
        segment.append_timestamp = load64(p + 35)
        segment.has_append_timestamp = (attributes & 8) != 0
        fault = structure_fault(segment, <int32_t>load32(p + 57))
        if fault is not None:
            raise self.header(total).corrupt(fault)
        return segment

    cdef bint is_aborted(self, Py_ssize_t total, int64_t producer_id, int64_t last_offset, int attributes) except -1:
        """Return whether a batch belongs to an aborted transaction; track the start and end of these."""
        while self.aborted and self.aborted[len(self.aborted) - 1][1] <= last_offset:
            self.aborted_producers.add(self.aborted.pop()[0])
        if attributes & 0x20:
            header = self.header(total)
            for record in decode_batch(header, self.topic, self.partition, False)[:1]:
                try:
                    control = control_type(record.key)
                except ValueError as error:
                    raise header.corrupt(str(error)) from None
                if control == ABORT:
                    self.aborted_producers.discard(producer_id)
            return False
        return (attributes & 0x10) != 0 and producer_id in self.aborted_producers

    cdef int set_context(self, int32_t leader_epoch, int timestamp_type) except -1:
        """Set leader epoch and context of a batch; consecutive batches with equal values share a context."""
        epoch = leader_epoch if leader_epoch >= 0 else None
        if self.context is None or self.leader_epoch != epoch or self.context.timestamp_type != timestamp_type:
            self.context = RecordContext(self.topic, self.partition, epoch, timestamp_type)
        self.leader_epoch = epoch
        return 0

    cdef header(self, Py_ssize_t total):
        return BatchHeader(self.view[self.position : self.position + total])

    cdef broken_frame(self):
        """Return the error for a batch with an invalid size or format."""
        self.frame_is_broken = True
        try:
            next(split_batches(self.view[self.position :]))
        except CorruptRecordError as error:
            return self.corrupt(error)

    cdef corrupt(self, error):
        return CorruptRecordError(
            error.message, topic=self.topic, partition=self.partition, offset=max(self.next_offset, error.offset or 0)
        )
