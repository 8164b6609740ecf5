# The C surface of consumed records. The batch builder and murmur2 are in `_builder.pxd`.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kclient.records._wire cimport RecordView, read_record

cdef enum: LAST_INT64 = 0x7FFFFFFFFFFFFFFF

# The attributes that all records of one batch share.
cdef class RecordContext:
    cdef readonly str topic
    cdef readonly object partition
    cdef readonly object leader_epoch
    cdef readonly object timestamp_type

cdef class ConsumerRecord:
    cdef RecordContext context
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp

# A run of records whose structure was validated: from `start`, `visible` of them are at or above `next_offset`; when
# all are read, `next_offset` is `final_offset`. `owner` keeps the bytes alive.
cdef class Segment:
    cdef RecordContext context
    cdef object owner
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef int64_t visible
    cdef int64_t next_offset
    cdef int64_t final_offset
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_timestamp
    cdef bint has_append_timestamp

    cdef Segment copy(self)


# The empty segment.
cdef Segment NO_RECORDS

cdef Segment split(Segment segment, int64_t count)
cdef ConsumerRecord decode_next(Segment segment)
cdef str structure_fault(Segment segment, int64_t count)
cdef Segment open_segment(header, str topic, partition, int64_t next_offset, bint verify)


# Find the next visible record and advance past it; return False without one.
cdef inline bint read_visible(Segment segment, RecordView* view) noexcept nogil:
    cdef int64_t offset
    while segment.visible > 0:
        if not read_record(segment.start, segment.end, view):
            return False
        segment.start = view.end
        offset = wrapping_add(segment.base_offset, view.offset_delta)
        if offset >= segment.next_offset and offset != LAST_INT64:
            segment.next_offset = offset + 1
            segment.visible -= 1
            return True
    return False


cdef inline int64_t wrapping_add(int64_t left, int64_t right) noexcept nogil:
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef inline int64_t timestamp_of(Segment segment, RecordView* view) noexcept nogil:
    if segment.has_append_timestamp:
        return segment.append_timestamp
    return wrapping_add(segment.base_timestamp, view.timestamp_delta)


cdef class RecordChunk:
    cdef readonly str topic
    cdef readonly object partition
    cdef readonly int64_t first_offset
    cdef readonly int64_t next_offset
    cdef list segments
    cdef list decoded
    cdef Py_ssize_t length
