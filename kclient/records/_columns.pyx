# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Decoding of fetched records into Arrow buffers: one pass to measure, one to copy, both without the GIL.

`kclient.records.arrow` describes the columns and has the version in plain Python.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from kclient.records._records cimport RecordChunk, Segment, read_visible, timestamp_of
from kclient.records._wire cimport HeaderView, RecordView, read_header

from kclient.records.arrow import column_types

cdef enum: LAST_INT32 = 0x7FFFFFFF

cdef struct Totals:
    int64_t records
    int64_t key_bytes
    int64_t key_nulls
    int64_t value_bytes
    int64_t value_nulls
    int64_t timestamp_nulls
    int64_t headers
    int64_t name_bytes
    int64_t header_bytes
    int64_t header_nulls
    bint foreign_names

# A binary column that is being filled. Offsets have 32 or 64 bits; there is a bitmap only if there are nulls.
cdef struct Binary:
    int32_t* offsets32
    int64_t* offsets64
    uint8_t* data
    uint8_t* validity
    int64_t room
    int64_t used
    int64_t index
    int64_t length

# Where the numbers of the next record are written; NULL for columns that were not requested.
cdef struct Numbers:
    int64_t* offset
    int64_t* timestamp
    uint8_t* timestamp_validity
    int32_t* header_offsets
    int64_t index
    int64_t length


cdef int measure(Segment segment, Totals* totals, bint with_headers) noexcept nogil:
    cdef RecordView view
    cdef HeaderView header
    cdef const uint8_t* p
    cdef int32_t index, position
    while read_visible(segment, &view):
        totals.records += 1
        if view.key_size >= 0:
            totals.key_bytes += view.key_size
        else:
            totals.key_nulls += 1
        if view.value_size >= 0:
            totals.value_bytes += view.value_size
        else:
            totals.value_nulls += 1
        if timestamp_of(segment, &view) == -1:
            totals.timestamp_nulls += 1
        if not with_headers or view.header_count == 0:
            continue
        totals.headers += view.header_count
        p = view.headers
        for index in range(view.header_count):
            p = read_header(p, view.end, &header)
            if p == NULL:
                return -1
            totals.name_bytes += header.key_size
            for position in range(header.key_size):
                if header.key[position] >= 0x80:
                    totals.foreign_names = True
                    break
            if header.value_size >= 0:
                totals.header_bytes += header.value_size
            else:
                totals.header_nulls += 1
    return 0


cdef inline bint put(Binary* column, const uint8_t* data, int32_t size) noexcept nogil:
    """Append one value, -1 bytes for null; return False if there is no space for it."""
    if column.index >= column.length:
        return False
    if size >= 0:
        if size > column.room - column.used:
            return False
        memcpy(column.data + column.used, data, size)
        column.used += size
        if column.validity != NULL:
            column.validity[column.index >> 3] |= <uint8_t>(1 << (column.index & 7))
    column.index += 1
    if column.offsets32 != NULL:
        column.offsets32[column.index] = <int32_t>column.used
    else:
        column.offsets64[column.index] = column.used
    return True


cdef bint fill(
    Segment segment, Numbers* numbers, Binary* keys, Binary* values, Binary* names, Binary* header_values
) noexcept nogil:
    """Copy the records of a segment; return False if the bytes have changed since they were measured."""
    cdef RecordView view
    cdef HeaderView header
    cdef const uint8_t* p
    cdef int64_t timestamp
    cdef int32_t index
    while read_visible(segment, &view):
        if numbers.index >= numbers.length:
            return False
        if keys != NULL and not put(keys, view.key, view.key_size if view.key_size >= 0 else -1):
            return False
        if values != NULL and not put(values, view.value, view.value_size if view.value_size >= 0 else -1):
            return False
        if numbers.offset != NULL:
            numbers.offset[numbers.index] = segment.next_offset - 1
        if numbers.timestamp != NULL:
            timestamp = timestamp_of(segment, &view)
            numbers.timestamp[numbers.index] = timestamp
            if numbers.timestamp_validity != NULL and timestamp != -1:
                numbers.timestamp_validity[numbers.index >> 3] |= <uint8_t>(1 << (numbers.index & 7))
        if numbers.header_offsets != NULL:
            p = view.headers
            for index in range(view.header_count):
                p = read_header(p, view.end, &header)
                if p == NULL or not put(names, header.key, header.key_size):
                    return False
                if not put(header_values, header.value, header.value_size):
                    return False
            numbers.header_offsets[numbers.index + 1] = <int32_t>names.index
        numbers.index += 1
    return segment.visible == 0


cdef class Buffers:
    """Allocates Arrow buffers and keeps them until an array takes them over."""

    cdef object allocate
    cdef list kept

    def __cinit__(self, pyarrow):
        self.allocate = pyarrow.allocate_buffer
        self.kept = []

    cdef void* room(self, int64_t size, bint zeroed) except NULL:
        buffer = self.allocate(max(size, 8))
        self.kept.append(buffer)
        cdef void* address = <void*><uintptr_t>buffer.address
        if zeroed:
            memset(address, 0, max(size, 8))
        return address

    cdef take(self):
        return self.kept.pop()


cdef class BinaryColumn:
    """The buffers of a binary Arrow array."""

    cdef Binary c
    cdef object offsets
    cdef object data
    cdef object validity
    cdef int64_t nulls

    def __cinit__(self, pyarrow, int64_t length, int64_t size, int64_t nulls):
        cdef Buffers buffers = Buffers(pyarrow)
        self.nulls = nulls
        self.c.length = length
        self.c.room = size
        if size > LAST_INT32:
            self.c.offsets64 = <int64_t*>buffers.room((length + 1) * 8, False)
            self.c.offsets64[0] = 0
        else:
            self.c.offsets32 = <int32_t*>buffers.room((length + 1) * 4, False)
            self.c.offsets32[0] = 0
        self.offsets = buffers.take()
        self.c.data = <uint8_t*>buffers.room(size, False)
        self.data = buffers.take()
        if nulls:
            self.c.validity = <uint8_t*>buffers.room((length + 7) // 8, True)
            self.validity = buffers.take()

    def array(self, pyarrow):
        of_type = pyarrow.binary() if self.c.offsets32 != NULL else pyarrow.large_binary()
        return pyarrow.Array.from_buffers(
            of_type, self.c.length, [self.validity, self.offsets, self.data], self.nulls
        )


cdef list measured_segments(list chunks, Totals* totals, bint with_headers):
    """Return the segments of all chunks; add their contents to `totals`."""
    cdef list segments = []
    cdef Segment segment, walker
    cdef RecordChunk chunk
    cdef bint ok
    for chunk in chunks:
        for segment in chunk.segments:
            segments.append(segment)
            walker = segment.copy()
            with nogil:
                ok = measure(walker, totals, with_headers) == 0 and walker.visible == 0
            if not ok:
                raise BufferError("the fetched bytes changed while they were read")
    return segments


def arrow_arrays(pyarrow, list chunks, columns) -> list:
    """Return the records of the compiled twin's `chunks` as one Arrow array per column."""
    cdef Totals totals
    cdef Numbers numbers
    cdef Segment segment, walker
    cdef list segments
    cdef bint with_headers = "headers" in columns
    cdef BinaryColumn keys, values, names, header_values
    cdef Binary* key_column = NULL
    cdef Binary* value_column = NULL
    cdef Binary* name_column = NULL
    cdef Binary* header_column = NULL
    cdef Buffers buffers = Buffers(pyarrow)
    cdef bint ok
    cdef dict made = {}
    types = column_types(pyarrow)
    memset(&totals, 0, sizeof(totals))
    memset(&numbers, 0, sizeof(numbers))

    segments = measured_segments(chunks, &totals, with_headers)
    numbers.length = totals.records
    if "key" in columns:
        keys = BinaryColumn(pyarrow, totals.records, totals.key_bytes, totals.key_nulls)
        key_column = &keys.c
    if "value" in columns:
        values = BinaryColumn(pyarrow, totals.records, totals.value_bytes, totals.value_nulls)
        value_column = &values.c
    if "offset" in columns:
        numbers.offset = <int64_t*>buffers.room(totals.records * 8, False)
        made["offset"] = [None, buffers.take()]
    if "timestamp" in columns:
        numbers.timestamp = <int64_t*>buffers.room(totals.records * 8, False)
        made["timestamp"] = [None, buffers.take()]
        if totals.timestamp_nulls:
            numbers.timestamp_validity = <uint8_t*>buffers.room((totals.records + 7) // 8, True)
            made["timestamp"][0] = buffers.take()
    if with_headers:
        if max(totals.headers, totals.name_bytes, totals.header_bytes) > LAST_INT32:
            raise ValueError("the headers hold more than 2 GiB; take fewer records, or omit the column")
        names = BinaryColumn(pyarrow, totals.headers, totals.name_bytes, 0)
        header_values = BinaryColumn(pyarrow, totals.headers, totals.header_bytes, totals.header_nulls)
        name_column, header_column = &names.c, &header_values.c
        numbers.header_offsets = <int32_t*>buffers.room((totals.records + 1) * 4, True)
        made["headers"] = [None, buffers.take()]

    for segment in segments:
        walker = segment.copy()
        with nogil:
            ok = fill(walker, &numbers, key_column, value_column, name_column, header_column)
        if not ok:
            raise BufferError("the fetched bytes changed while they were read")

    arrays = []
    for column in columns:
        if column == "key":
            arrays.append(keys.array(pyarrow))
        elif column == "value":
            arrays.append(values.array(pyarrow))
        elif column == "headers":
            pairs = pyarrow.StructArray.from_arrays(
                [text_array(pyarrow, names, totals.foreign_names), header_values.array(pyarrow)],
                fields=list(types["headers"].value_type),
            )
            arrays.append(
                pyarrow.Array.from_buffers(types["headers"], totals.records, made["headers"], 0, children=[pairs])
            )
        elif column in made:
            nulls = totals.timestamp_nulls if column == "timestamp" else 0
            arrays.append(pyarrow.Array.from_buffers(types[column], totals.records, made[column], nulls))
        else:
            arrays.append(constant_runs(pyarrow, types[column], column, segments))
    return arrays


cdef text_array(pyarrow, BinaryColumn column, bint check):
    """Return header names as strings. They should be UTF-8, but brokers do not check that; Arrow's strings must be."""
    if not check:
        return column.array(pyarrow).view(pyarrow.string())
    try:
        return column.array(pyarrow).cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        return pyarrow.array(
            [name.decode("utf-8", "replace") for name in column.array(pyarrow).to_pylist()], pyarrow.string()
        )


cdef constant_runs(pyarrow, of_type, str column, list segments):
    """Return a column whose value is the same for all records of a batch."""
    cdef Buffers buffers = Buffers(pyarrow)
    cdef int64_t length = 0
    cdef int32_t* numbers
    cdef int64_t position = 0
    cdef int64_t end
    cdef int32_t number
    cdef dict places = {}
    cdef Segment segment
    cdef bint nulls = False
    for segment in segments:
        length += segment.visible
    numbers = <int32_t*>buffers.room(length * 4, False)
    for segment in segments:
        value = getattr(segment.context, column)
        if column == "topic":
            number = places.setdefault(value, len(places))
        else:
            number = -1 if value is None else value
        nulls = nulls or value is None
        end = position + segment.visible
        while position < end:
            numbers[position] = number
            position += 1
    buffer = buffers.take()
    if column == "topic":
        indices = pyarrow.Array.from_buffers(pyarrow.int32(), length, [None, buffer], 0)
        return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(list(places), pyarrow.string()))
    array = pyarrow.Array.from_buffers(of_type, length, [None, buffer], 0)
    if nulls:
        import pyarrow.compute

        known = pyarrow.compute.not_equal(array, pyarrow.scalar(-1, of_type))
        return pyarrow.compute.if_else(known, array, pyarrow.scalar(None, of_type))
    return array
