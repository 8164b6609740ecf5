# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of `pure.rows`: rows are read from the buffers of Arrow's columns, where they lie.

The arrays are taken at their word, as everything in Arrow's C data interface is: they come from this process.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kclient.records._wire cimport write_varint, zigzag

from kclient.records import batch as _batch
from kclient.records.batch import header_name_error

cdef enum:
    LONGEST_VARINT = 5

cdef Py_ssize_t HEADER_OVERHEAD = _batch.HEADER_OVERHEAD


cdef class ArrowRows:
    """See `kclient.records.pure.rows.ArrowRows`."""

    def __init__(
        self, *, Py_ssize_t first, Py_ssize_t length, list names, topics=None, value=None, key=None, headers=None,
        partitions=None, timestamps=None,
    ):
        self.first = first
        self.length = length
        self.names = names
        self.kept = []
        self.topics = self.column(topics)
        self.value = self.column(value)
        self.key = self.column(key)
        self.partitions = self.column(partitions)
        self.timestamps = self.column(timestamps)
        lists, header_names, header_values = headers or (None, None, None)
        self.headers = self.column(lists)
        self.header_names = self.column(header_names)
        self.header_values = self.column(header_values)

    def __dealloc__(self):
        free(self.scratch)

    cdef Column column(self, array):
        cdef Column column
        cdef uintptr_t address
        memset(&column, 0, sizeof(Column))
        if array is None:
            return column
        buffers = array.buffers()
        self.kept.append(array)
        column.exists = True
        column.offset = array.offset
        if array.null_count:
            address = buffers[0].address
            column.validity = <const uint8_t*>address
        kind = str(array.type)
        if kind.startswith("list<") or kind in ("binary", "string", "large_binary", "large_string"):
            address = buffers[1].address
            if kind.startswith("large"):
                column.offsets64 = <const int64_t*>address
            else:
                column.offsets32 = <const int32_t*>address
            if kind.startswith("list<"):
                return column
            buffers = buffers[1:]
        # A column of nothing but empty values may have no buffer for them.
        address = 0 if buffers[1] is None else buffers[1].address
        column.data = <const uint8_t*>address
        return column

    def __len__(self):
        return self.length

    cdef int64_t header_range(self, int64_t row, int64_t* start) noexcept nogil:
        cdef int64_t place = self.headers.offset + row
        if is_null(&self.headers, row):
            start[0] = 0
            return 0
        start[0] = self.headers.offsets32[place]
        return self.headers.offsets32[place + 1]

    def record(self, Py_ssize_t row):
        if row < 0 or row >= self.length:
            raise IndexError(row)
        cdef const char* data = NULL
        cdef Py_ssize_t size
        cdef int64_t start, end
        cdef int64_t timestamp = number64(&self.timestamps, row)
        cdef int32_t partition = number32(&self.partitions, row)
        cdef list parts = []
        for column in range(2):
            size = binary(&self.key if column else &self.value, row, &data)
            parts.append(None if size < 0 else data[:size])
        end = self.header_range(row, &start)
        headers = []
        while start < end:
            size = binary(&self.header_names, start, &data)
            name = None if size < 0 else data[:size].decode()
            size = binary(&self.header_values, start, &data)
            headers.append((name, None if size < 0 else data[:size]))
            start += 1
        return (
            self.names[number32(&self.topics, row) if self.topics.exists else 0],
            parts[0],
            parts[1],
            tuple(headers),
            None if partition < 0 else partition,
            None if timestamp < 0 else timestamp,
        )

    def largest(self):
        cdef int64_t row, start, end
        cdef int64_t worst = 0, nameless = -1
        cdef int64_t most = -1, total
        cdef const char* data
        with nogil:
            for row in range(self.length):
                total = max(binary(&self.value, row, &data), 0) + max(binary(&self.key, row, &data), 0)
                end = self.header_range(row, &start)
                while start < end:
                    if is_null(&self.header_names, start):
                        nameless = row
                    total += (
                        HEADER_OVERHEAD + binary(&self.header_names, start, &data)
                        + max(binary(&self.header_values, start, &data), 0)
                    )
                    start += 1
                if nameless >= 0:
                    break
                if total > most:
                    most = total
                    worst = row
        if nameless >= 0:
            raise header_name_error(self.first + nameless)
        return worst, most

    cdef Py_ssize_t encoded_headers(self, int64_t row, const char** encoded) except -1:
        cdef int64_t start, end, place
        cdef Py_ssize_t needed, size
        cdef const char* data = NULL
        cdef uint8_t* p
        end = self.header_range(row, &start)
        if start == end:
            encoded[0] = b"\x00"
            return 1
        needed = LONGEST_VARINT
        for place in range(start, end):
            needed += 2 * LONGEST_VARINT + max(binary(&self.header_names, place, &data), 0)
            needed += max(binary(&self.header_values, place, &data), 0)
        if needed > self.scratch_size:
            p = <uint8_t*>realloc(self.scratch, needed)
            if p == NULL:
                raise MemoryError
            self.scratch = p
            self.scratch_size = needed
        p = write_varint(self.scratch, zigzag(end - start))
        for place in range(start, end):
            size = max(binary(&self.header_names, place, &data), 0)
            p = write_varint(p, zigzag(size))
            memcpy(p, data, size)
            p += size
            size = binary(&self.header_values, place, &data)
            p = write_varint(p, zigzag(size))
            if size > 0:
                memcpy(p, data, size)
                p += size
        encoded[0] = <const char*>self.scratch
        return p - self.scratch
