# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Consumed records, compiled, and their decoding from batches.

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
    HeaderView, RecordView, check_headers, int32_t, int64_t, read_header, read_record, uint8_t,
)

from kclient.records.batch import iterate_batches
from kclient.records.legacy import decode_messages, v2_section
from kclient.records.pure.record import records_section

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject* object)

cdef enum:
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
    """A record as a consumer returns it.

    Parameters:
        topic: the topic of the record.
        partition: the partition of the record.
        offset: the offset of the record.
        timestamp: milliseconds since the epoch; -1 if the record has no timestamp.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did, -1 if there is no timestamp.
        key: bytes, None for null, or the result of the key deserializer.
        value: bytes, None for null, or the result of the value deserializer.
        headers: pairs of name and bytes or None, in order; a name may occur more than once.
        leader_epoch: the leader epoch of the partition when the record was written, None if unknown.
    """

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


cdef tuple decode_headers(const RecordView* view):
    cdef HeaderView header
    cdef const uint8_t* p = view.headers
    cdef list headers = []
    cdef int32_t index
    for index in range(view.header_count):
        p = read_header(p, view.end, &header)
        if p == NULL:
            raise BufferError("the fetched bytes changed while they were read")
        # Names should be UTF-8, but brokers do not check that; a consumer must not fail on other bytes.
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


NO_RECORDS = Segment.__new__(Segment)


cdef Segment split(Segment segment, int64_t count):
    """Return the first `count` visible records as a segment; `segment` continues after them."""
    cdef Segment first = segment.copy()
    cdef RecordView view
    first.visible = count
    while count > 0:
        if not read_visible(segment, &view):
            raise BufferError("the fetched bytes changed while they were read")
        count -= 1
    first.final_offset = segment.next_offset
    return first


cdef ConsumerRecord decode_next(Segment segment):
    """Decode the next visible record, which must exist, and advance past it."""
    cdef RecordView view
    if not read_visible(segment, &view):
        raise BufferError("the fetched bytes changed while they were read")
    return decode_record(segment, &view, segment.next_offset - 1)


cdef inline ConsumerRecord decode_record(Segment segment, RecordView* view, int64_t offset):
    cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
    record.context = segment.context
    record.offset = offset
    record.timestamp = timestamp_of(segment, view)
    if view.key_size >= 0:
        record.key = PyBytes_FromStringAndSize(<const char*>view.key, view.key_size)
    if view.value_size >= 0:
        record.value = PyBytes_FromStringAndSize(<const char*>view.value, view.value_size)
    record.headers = NO_HEADERS if view.header_count == 0 else decode_headers(view)
    # Bytes and a shared context cannot be part of a reference cycle, so they need no garbage collection.
    PyObject_GC_UnTrack(<PyObject*>record)
    return record


cdef int64_t validate(Segment segment, int64_t count) noexcept nogil:
    """Check the structure of every record and count the visible ones.

    Return `count` if all are valid, the index of the first malformed record, or -1 if bytes are left over.
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
    """Return a description of an error in the records of a batch, None without one; count the visible records."""
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
    """Return the records of a batch in any format, from `next_offset` on, as a validated segment."""
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
    # The owner, bytes or a view of the caller, keeps the memory valid.
    PyObject_GetBuffer(segment.owner, &buffer, PyBUF_SIMPLE)
    segment.start = <const uint8_t*>buffer.buf
    segment.end = segment.start + buffer.len
    PyBuffer_Release(&buffer)
    fault = structure_fault(segment, count)
    if fault is not None:
        raise header.corrupt(fault)
    return segment


def decode_batch(header, str topic, partition, bint verify) -> list:
    cdef Segment segment = open_segment(header, topic, partition, 0, verify)
    cdef const uint8_t* p = segment.start
    cdef RecordView view
    cdef list records = []
    # All of them, including those that a consumer does not see because their offsets go back.
    while p < segment.end:
        if not read_record(p, segment.end, &view):
            raise BufferError("the fetched bytes changed while they were read")
        p = view.end
        records.append(decode_record(segment, &view, wrapping_add(segment.base_offset, view.offset_delta)))
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
    """Return an iterator over the records of several chunks."""
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
        """Advance to the next segment or chunk; raise StopIteration without one."""
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
