# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin: consumed records, and the cursor that reads them out of fetched batches.

The structure of a batch is validated once, in C, when the batch is opened; its records become Python objects when
they are iterated, in one pass over the bytes. `kclient.records.pure` explains the format and has the docstrings.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8

from kclient.records._handover cimport step_aside
from kclient.records._wire cimport (
    HeaderView, RecordView, check_headers, int32_t, int64_t, load16, load32, load64, read_header, read_record, uint8_t,
    uint64_t,
)

from crc32c import crc32c

from kclient.errors import CorruptRecordError, DeserializationError
from kclient.records._builder import BatchBuilder, murmur2
from kclient.records.batch import BatchHeader, iterate_batches, split_batches
from kclient.records.control import ABORT, control_type
from kclient.records.legacy import decode_messages, v2_section
from kclient.records.pure.cursor import deserialize
from kclient.records.pure.record import records_section

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject* object)

cdef enum:
    HEADER_SIZE = 61
    CRC_END = 21
    LOG_OVERHEAD = 12
    SMALLEST_LEGACY = 14
    RECORDS_PER_LOOK = 256
    NOGIL_BYTES = 16384


cdef class RecordContext:
    def __init__(self, str topic, partition, leader_epoch, timestamp_type):
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.timestamp_type = timestamp_type


@cython.freelist(1024)
cdef class ConsumerRecord:
    """A record as a consumer hands it out; see `kclient.records.pure.ConsumerRecord`."""

    def __init__(
        self, str topic, partition=0, int64_t offset=0, int64_t timestamp=-1, timestamp_type=0, key=None, value=None,
        headers=(), leader_epoch=None,
    ):
        self.context = RecordContext(topic, partition, leader_epoch, timestamp_type)
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    @property
    def topic(self):
        return self.context.topic

    @property
    def partition(self):
        return self.context.partition

    @property
    def leader_epoch(self):
        return self.context.leader_epoch

    @property
    def timestamp_type(self):
        return self.context.timestamp_type

    def _astuple(self):
        return (
            self.context.topic, self.context.partition, self.offset, self.timestamp, self.context.timestamp_type,
            self.key, self.value, self.headers, self.context.leader_epoch,
        )

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._astuple() == (<ConsumerRecord>other)._astuple()

    __hash__ = None

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, timestamp_type={self.timestamp_type}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )

    def __reduce__(self):
        return type(self), self._astuple()


cdef tuple NO_HEADERS = ()
cdef int64_t FIRST_INT64 = -LAST_INT64 - 1


cdef tuple decode_headers(const RecordView* view):
    cdef HeaderView header
    cdef const uint8_t* p = view.headers
    cdef list headers = []
    cdef int32_t index
    for index in range(view.header_count):
        p = read_header(p, view.end, &header)
        if p == NULL:
            raise BufferError("the fetched bytes changed while they were read")
        # Names are UTF-8 by Kafka's word, not by its checks; a consumer must not stumble over others.
        name = PyUnicode_DecodeUTF8(<const char*>header.key, header.key_size, "replace")
        if header.value_size < 0:
            headers.append((name, None))
        else:
            headers.append((name, PyBytes_FromStringAndSize(<const char*>header.value, header.value_size)))
    return tuple(headers)


@cython.freelist(64)
cdef class Segment:
    cdef Segment copy(self):
        cdef Segment other = Segment.__new__(Segment)
        other.context = self.context
        other.owner = self.owner
        other.start = self.start
        other.end = self.end
        other.visible = self.visible
        other.next_offset = self.next_offset
        other.final_offset = self.final_offset
        other.base_offset = self.base_offset
        other.base_timestamp = self.base_timestamp
        other.append_timestamp = self.append_timestamp
        other.has_append_timestamp = self.has_append_timestamp
        return other


cdef Segment NO_RECORDS = Segment.__new__(Segment)


cdef Segment split(Segment segment, int64_t count):
    """The first `count` visible records as a segment of their own; `segment` goes on behind them."""
    cdef Segment first = segment.copy()
    cdef RecordView view
    first.visible = count
    while count > 0:
        if not read_visible(segment, &view):
            raise BufferError("the fetched bytes changed while they were read")
        count -= 1
    first.final_offset = segment.next_offset
    return first


cdef inline ConsumerRecord decode_next(Segment segment):
    """Decode the next visible record, of which there must be one, and go past it."""
    cdef RecordView view
    cdef ConsumerRecord record
    if not read_visible(segment, &view):
        raise BufferError("the fetched bytes changed while they were read")
    record = ConsumerRecord.__new__(ConsumerRecord)
    record.context = segment.context
    record.offset = segment.next_offset - 1
    record.timestamp = timestamp_of(segment, &view)
    if view.key_size >= 0:
        record.key = PyBytes_FromStringAndSize(<const char*>view.key, view.key_size)
    if view.value_size >= 0:
        record.value = PyBytes_FromStringAndSize(<const char*>view.value, view.value_size)
    record.headers = NO_HEADERS if view.header_count == 0 else decode_headers(&view)
    # Bytes and a shared context cannot be part of a reference cycle, so the collector need not look.
    PyObject_GC_UnTrack(<PyObject*>record)
    return record


cdef int64_t validate(Segment segment, int64_t count) noexcept nogil:
    """Look at every record and count the visible ones.

    Returns `count` when all is well, the index of the first malformed record, or -1 when bytes are left over.
    """
    cdef const uint8_t* p = segment.start
    cdef RecordView view
    cdef int64_t index, offset
    cdef int64_t expected = segment.next_offset
    cdef int64_t visible = 0
    for index in range(count):
        if not read_record(p, segment.end, &view):
            return index
        if view.header_count > 0 and not check_headers(&view):
            return index
        p = view.end
        offset = wrapping_add(segment.base_offset, view.offset_delta)
        if offset >= expected and offset != LAST_INT64:
            expected = offset + 1
            visible += 1
    segment.visible = visible
    segment.final_offset = expected
    return count if p == segment.end else -1


cdef str structure_fault(Segment segment, int64_t count):
    """What is wrong with the records of a batch, None when nothing is; counts the visible ones."""
    cdef int64_t outcome
    if count < 0:
        return f"it says it has {count} records"
    if segment.end - segment.start >= NOGIL_BYTES:
        with nogil:
            outcome = validate(segment, count)
    else:
        outcome = validate(segment, count)
    if outcome == -1:
        return f"bytes are left after its {count} records"
    if outcome != count:
        return f"record {outcome} of {count} is malformed"
    return None


cdef Segment open_segment(header, str topic, partition, int64_t next_offset, bint verify):
    """The records of a batch in any format as a validated segment of those at or above `next_offset`."""
    cdef int64_t count
    cdef str fault
    cdef Segment segment = Segment.__new__(Segment)
    cdef Py_buffer buffer
    leader_epoch = header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None
    segment.next_offset = next_offset
    if header.magic < 2:
        messages = decode_messages(header, verify)
        first = messages[0]
        segment.owner = v2_section(header, messages)
        segment.context = RecordContext(topic, partition, leader_epoch, first.timestamp_type)
        segment.base_offset = first.offset
        segment.base_timestamp = first.timestamp
        count = len(messages)
    else:
        segment.owner = records_section(header)
        segment.context = RecordContext(topic, partition, leader_epoch, header.timestamp_type)
        segment.base_offset = header.base_offset
        segment.base_timestamp = header.base_timestamp
        segment.append_timestamp = header.max_timestamp
        segment.has_append_timestamp = header.timestamp_type == 1
        count = header.record_count
    # The owner, bytes or a view of the caller's, keeps the bytes where they are for as long as it lives.
    PyObject_GetBuffer(segment.owner, &buffer, PyBUF_SIMPLE)
    segment.start = <const uint8_t*>buffer.buf
    segment.end = segment.start + buffer.len
    PyBuffer_Release(&buffer)
    fault = structure_fault(segment, count)
    if fault is not None:
        raise header.corrupt(fault)
    return segment


def decode_batch(header, str topic, partition, bint verify) -> list:
    cdef Segment segment = open_segment(header, topic, partition, FIRST_INT64, verify)
    cdef list records = []
    while segment.visible > 0:
        records.append(decode_next(segment))
    return records


def read_batches(data, *, verify_checksum=True):
    return iterate_batches(data, decode_batch, verify_checksum)


cdef class RecordChunk:
    """Some records of one partition, in order; see `kclient.records.pure.RecordChunk`."""

    def __len__(self):
        return self.length

    def __iter__(self):
        return chain_iter((self,))

    def __getitem__(self, index):
        cdef Py_ssize_t wanted
        cdef Segment segment
        cdef RecordView view
        if isinstance(index, slice):
            return list(self)[index]
        if self.decoded is not None:
            return self.decoded[index]
        wanted = index
        if wanted < 0:
            wanted += self.length
        if not 0 <= wanted < self.length:
            raise IndexError("there is no such record in the chunk")
        for segment in self.segments:
            if wanted < segment.visible:
                segment = segment.copy()
                while wanted > 0 and read_visible(segment, &view):
                    wanted -= 1
                return decode_next(segment)
            wanted -= segment.visible

    def __repr__(self):
        return (
            f"RecordChunk(topic={self.topic!r}, partition={self.partition}, records={self.length}, "
            f"first_offset={self.first_offset}, next_offset={self.next_offset})"
        )


def chain_iter(chunks):
    """The records of several chunks, one after the other."""
    cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
    iterator.chunks = iter(chunks)
    iterator.segments = []
    iterator.segment = NO_RECORDS
    iterator.countdown = RECORDS_PER_LOOK
    return iterator


@cython.final
cdef class RecordIterator:
    cdef object chunks
    cdef list segments
    cdef Py_ssize_t next_segment
    cdef Segment segment
    cdef list decoded
    cdef Py_ssize_t next_decoded
    cdef int countdown

    def __iter__(self):
        return self

    def __next__(self):
        self.countdown -= 1
        if self.countdown == 0:
            self.countdown = RECORDS_PER_LOOK
            step_aside()
        while True:
            if self.segment.visible > 0:
                return decode_next(self.segment)
            if self.decoded is not None and self.next_decoded < len(self.decoded):
                self.next_decoded += 1
                return self.decoded[self.next_decoded - 1]
            self.advance()

    cdef int advance(self) except -1:
        """Go on to the next segment or chunk; StopIteration when there is none."""
        cdef RecordChunk chunk
        if self.next_segment < len(self.segments):
            self.segment = (<Segment>self.segments[self.next_segment]).copy()
            self.next_segment += 1
            return 0
        chunk = next(self.chunks)
        self.next_segment = self.next_decoded = 0
        self.decoded = chunk.decoded
        self.segments = [] if chunk.decoded is not None else chunk.segments
        return 0


cdef class RecordCursor:
    """Walks over what one fetch returned for one partition; see `kclient.records.pure.RecordCursor`."""

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
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.view = memoryview(data).cast("B")
        self.topic = topic
        self.partition = partition
        self.next_offset = self.open_end = fetch_offset
        self.skipped_to = -1
        self.check_checksums = check_checksums
        self.read_committed = read_committed
        # The next to begin is at the end.
        self.aborted = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self.aborted_producers = set()
        self.key_deserializer = key_deserializer
        self.value_deserializer = value_deserializer
        self.open = NO_RECORDS

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

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
            # Without a size there is no way to the next batch: it has to be fetched again.
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
        """Add `count` decoded records of the open batch, or those in front of one that fails, which is told."""
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
        """Open the next batch that has records to hand out; False when there is none."""
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
                if BatchHeader(self.view[self.position : self.position + total]).last_offset >= self.skipped_to:
                    raise self.corrupt(error) from None
                segment = NO_RECORDS
            self.position += total
            self.open_end = wrapping_add(end, 1)
            if segment.visible > 0:
                self.open = segment
                step_aside()
                return True
            self.close_batch()

    cdef Segment visible_segment(self, const uint8_t* p, Py_ssize_t total, int64_t last_offset):
        """What is to be handed out of the batch at p; has no visible records when there is nothing."""
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
        if last_offset < self.next_offset:
            return NO_RECORDS
        producer_id = load64(p + 43)
        if self.read_committed and producer_id >= 0:
            if self.is_aborted(total, producer_id, last_offset, attributes):
                return NO_RECORDS
        if attributes & 0x20:
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
        """Whether a batch belongs to an aborted transaction; keeps account of where such begin and end."""
        cdef Segment segment
        while self.aborted and self.aborted[len(self.aborted) - 1][1] <= last_offset:
            self.aborted_producers.add(self.aborted.pop()[0])
        if attributes & 0x20:
            header = self.header(total)
            segment = open_segment(header, self.topic, self.partition, 0, False)
            if segment.visible > 0:
                try:
                    control = control_type(decode_next(segment).key)
                except ValueError as error:
                    raise header.corrupt(str(error)) from None
                if control == ABORT:
                    self.aborted_producers.discard(producer_id)
            return False
        return (attributes & 0x10) != 0 and producer_id in self.aborted_producers

    cdef int set_context(self, int32_t leader_epoch, int timestamp_type) except -1:
        """Note a batch's leader epoch; batches in a row that have the same share one context."""
        epoch = leader_epoch if leader_epoch >= 0 else None
        if self.context is None or self.leader_epoch != epoch or self.context.timestamp_type != timestamp_type:
            self.context = RecordContext(self.topic, self.partition, epoch, timestamp_type)
        self.leader_epoch = epoch
        return 0

    cdef header(self, Py_ssize_t total):
        return BatchHeader(self.view[self.position : self.position + total])

    cdef broken_frame(self):
        """The error for a batch whose size or format does not exist."""
        self.frame_is_broken = True
        try:
            next(split_batches(self.view[self.position :]))
        except CorruptRecordError as error:
            return self.corrupt(error)

    cdef corrupt(self, error):
        return CorruptRecordError(
            error.message, topic=self.topic, partition=self.partition, offset=max(self.next_offset, error.offset or 0)
        )
