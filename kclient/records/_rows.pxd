# The C surface of Arrow rows on their way into batches; see _rows.pyx.

from libc.stdint cimport int32_t, int64_t, uint8_t

# Where the values of an Arrow column are; `offset` is where its first row stands in the buffers. A column that does not
# exist has no data and no rows that are not null.
cdef struct Column:
    const uint8_t* validity
    const int32_t* offsets32
    const int64_t* offsets64
    const uint8_t* data
    int64_t offset
    bint exists


cdef inline bint is_null(const Column* column, int64_t row) noexcept nogil:
    cdef int64_t place = column.offset + row
    if not column.exists:
        return True
    return column.validity != NULL and not (column.validity[place >> 3] >> (place & 7)) & 1


# The size of a value, -1 for null, and where it is.
cdef inline Py_ssize_t binary(const Column* column, int64_t row, const char** data) noexcept nogil:
    cdef int64_t place = column.offset + row
    cdef int64_t start
    if is_null(column, row):
        return -1
    if column.offsets32 != NULL:
        start = column.offsets32[place]
        data[0] = <const char*>column.data + start
        return column.offsets32[place + 1] - start
    start = column.offsets64[place]
    data[0] = <const char*>column.data + start
    return column.offsets64[place + 1] - start


# A number that is 0 or more, -1 for null.
cdef inline int32_t number32(const Column* column, int64_t row) noexcept nogil:
    return -1 if is_null(column, row) else (<const int32_t*>column.data)[column.offset + row]


cdef inline int64_t number64(const Column* column, int64_t row) noexcept nogil:
    return -1 if is_null(column, row) else (<const int64_t*>column.data)[column.offset + row]


cdef class ArrowRows:
    cdef readonly Py_ssize_t first
    cdef readonly list names
    cdef Py_ssize_t length
    cdef Column topics
    cdef Column value
    cdef Column key
    cdef Column headers
    cdef Column header_names
    cdef Column header_values
    cdef Column partitions
    cdef Column timestamps
    # The arrays whose buffers the columns are.
    cdef list kept
    cdef uint8_t* scratch
    cdef Py_ssize_t scratch_size

    cdef Column column(self, array)
    cdef int64_t header_range(self, int64_t row, int64_t* start) noexcept nogil

    # The headers of a row as they stand in a record, without their count of bytes; good until the next call.
    cdef Py_ssize_t encoded_headers(self, int64_t row, const char** encoded) except -1
