# The C surface of the batch builder; see _builder.pyx.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef uint32_t murmur2_c(const char* data, Py_ssize_t size) noexcept nogil

cdef class BatchBuilder:
    cdef uint8_t* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef Py_ssize_t handover_at
    cdef readonly Py_ssize_t max_bytes
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly str compression_type
    cdef readonly object compression_level
    cdef int exports
    cdef bint sealed
    cdef bytes packed

    # Both return the record's index in the batch, or -1 if it does not fit, and raise with -2. Neither releases the
    # GIL. `headers` may be None, an empty tuple, or a sequence of (str, bytes-like | None).
    cdef int append_record(self, int64_t timestamp, object key, object value, object headers) except -2
    cdef int append_c(
        self, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value, Py_ssize_t value_size,
        object headers,
    ) except -2

    cdef int put(
        self, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value, Py_ssize_t value_size,
        const char* headers, Py_ssize_t headers_size,
    ) except -2
    cdef int grow(self, Py_ssize_t needed) except -1
    cdef int write_header(
        self, uint8_t* target, Py_ssize_t total, int64_t base_offset, int64_t producer_id, int producer_epoch,
        int32_t base_sequence, int32_t leader_epoch, int attributes, int64_t max_timestamp,
    ) except -1
