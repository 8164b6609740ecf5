# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled batch builder and Kafka's murmur2; `pure` explains the format.

One record is appended by one pass of C into a buffer that grows with use. A batch without compression is built in
place: its header is written in front of the records and what comes out is a view of the buffer, no copy.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_CheckBuffer
from cpython.buffer cimport PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from kclient.records._handover cimport step_aside
from kclient.records._wire cimport (
    int32_t, int64_t, load32, store16, store32, store64, uint8_t, uint32_t, uint64_t, varint_size, write_varint, zigzag,
)

from crc32c import crc32c

from kclient.records import codecs
from kclient.records.batch import (
    ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL, bytes_like_error, header_error,
)

cdef enum:
    HEADER_SIZE = 61
    CRC_END = 21
    FIRST_CAPACITY = 4096
    HANDOVER_BYTES = 16384
    LARGEST_BATCH = 0x7FFFFFFF

# Large buffers are used again: fresh memory has to be mapped page by page, which costs more than filling it.
cdef enum:
    POOLED_FROM = 65536
    POOL_BYTES = 33554432
    POOL_SLOTS = 512

cdef uint8_t* pool[POOL_SLOTS]
cdef Py_ssize_t pool_capacities[POOL_SLOTS]
cdef int pool_count = 0
cdef Py_ssize_t pool_bytes = 0


cdef void give_back(uint8_t* buffer, Py_ssize_t capacity) noexcept:
    global pool_count, pool_bytes
    if buffer == NULL:
        return
    if capacity < POOLED_FROM or pool_count == POOL_SLOTS or pool_bytes + capacity > POOL_BYTES:
        free(buffer)
        return
    pool[pool_count] = buffer
    pool_capacities[pool_count] = capacity
    pool_count += 1
    pool_bytes += capacity


cdef uint8_t* take_pooled(Py_ssize_t needed, Py_ssize_t* capacity) noexcept:
    global pool_count, pool_bytes
    if pool_count == 0 or pool_capacities[pool_count - 1] < needed:
        return NULL
    pool_count -= 1
    capacity[0] = pool_capacities[pool_count]
    pool_bytes -= capacity[0]
    return pool[pool_count]


cdef int CONTROL = ATTRIBUTE_CONTROL
cdef int LOG_APPEND_TIME = ATTRIBUTE_LOG_APPEND_TIME
cdef int TRANSACTIONAL = ATTRIBUTE_TRANSACTIONAL


cdef uint32_t murmur2_c(const char* data, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t* p = <const uint8_t*>data
    cdef uint32_t mixer = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t k
    cdef Py_ssize_t blocks = size // 4
    cdef Py_ssize_t rest = size % 4
    while blocks > 0:
        k = p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)
        k *= mixer
        k ^= k >> 24
        h = (h * mixer) ^ (k * mixer)
        p += 4
        blocks -= 1
    if rest == 3:
        h ^= <uint32_t>p[2] << 16
    if rest >= 2:
        h ^= <uint32_t>p[1] << 8
    if rest >= 1:
        h = (h ^ p[0]) * mixer
    h = (h ^ (h >> 13)) * mixer
    return h ^ (h >> 15)


def murmur2(data) -> int:
    """Kafka's murmur2 of bytes-like `data`, as a signed 32-bit number."""
    cdef Py_buffer view
    cdef int32_t result
    if PyBytes_CheckExact(data):
        return <int32_t>murmur2_c(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    result = <int32_t>murmur2_c(<const char*>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


cdef bytes encode_headers(object headers):
    """Count and headers as they stand in a record, without the null-key and type mistakes a caller may make."""
    cdef bytearray out = bytearray()
    cdef uint8_t scratch[10]
    cdef list items = list(headers)
    cdef bytes name, data
    out += scratch[: write_varint(scratch, zigzag(len(items))) - scratch]
    for item in items:
        try:
            key, value = item
        except (TypeError, ValueError):
            raise header_error(item) from None
        if isinstance(key, str):
            name = (<str>key).encode()
        else:
            raise header_error(item)
        out += scratch[: write_varint(scratch, zigzag(len(name))) - scratch]
        out += name
        if value is None:
            out += scratch[: write_varint(scratch, zigzag(-1)) - scratch]
            continue
        if not PyObject_CheckBuffer(value):
            raise header_error(item)
        data = bytes(value)
        out += scratch[: write_varint(scratch, zigzag(len(data))) - scratch]
        out += data
    return bytes(out)


cdef class BatchBuilder:
    """Collects records and builds one v2 batch of them; see `kclient.records.pure.BatchBuilder`."""

    def __cinit__(
        self, str compression_type="none", compression_level=None, *, Py_ssize_t max_bytes=1_000_000
    ):
        codecs.check(compression_type, compression_level)
        self.compression_type = compression_type
        self.compression_level = compression_level
        self.max_bytes = max_bytes
        self.capacity = FIRST_CAPACITY
        self.buffer = <uint8_t*>malloc(self.capacity)
        if self.buffer == NULL:
            raise MemoryError
        self.size = HEADER_SIZE
        self.handover_at = HANDOVER_BYTES
        self.base_timestamp = -1
        self.max_timestamp = -1

    def __dealloc__(self):
        give_back(self.buffer, self.capacity)

    @property
    def size_in_bytes(self) -> int:
        return self.size

    def append(self, int64_t timestamp, key, value, headers=()) -> int:
        cdef int index = self.append_record(timestamp, key, value, headers)
        if self.size >= self.handover_at:
            self.handover_at = self.size + HANDOVER_BYTES
            step_aside()
        return index

    cdef int append_record(self, int64_t timestamp, object key, object value, object headers) except -2:
        cdef Py_buffer key_view, value_view
        cdef const char* key_data = NULL
        cdef const char* value_data = NULL
        cdef Py_ssize_t key_size = -1, value_size = -1
        cdef bint release_key = False, release_value = False
        try:
            if PyBytes_CheckExact(value):
                value_data = PyBytes_AS_STRING(value)
                value_size = PyBytes_GET_SIZE(value)
            elif value is not None:
                if not PyObject_CheckBuffer(value):
                    raise bytes_like_error("value", value)
                PyObject_GetBuffer(value, &value_view, PyBUF_SIMPLE)
                release_value = True
                value_data = <const char*>value_view.buf
                value_size = value_view.len
            if PyBytes_CheckExact(key):
                key_data = PyBytes_AS_STRING(key)
                key_size = PyBytes_GET_SIZE(key)
            elif key is not None:
                if not PyObject_CheckBuffer(key):
                    raise bytes_like_error("key", key)
                PyObject_GetBuffer(key, &key_view, PyBUF_SIMPLE)
                release_key = True
                key_data = <const char*>key_view.buf
                key_size = key_view.len
            return self.append_c(timestamp, key_data, key_size, value_data, value_size, headers)
        finally:
            if release_key:
                PyBuffer_Release(&key_view)
            if release_value:
                PyBuffer_Release(&value_view)

    cdef int append_c(
        self, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value, Py_ssize_t value_size,
        object headers,
    ) except -2:
        cdef bytes encoded
        if headers is None or (PyTuple_CheckExact(headers) and PyTuple_GET_SIZE(headers) == 0):
            return self.put(timestamp, key, key_size, value, value_size, b"\x00", 1)
        encoded = encode_headers(headers)
        return self.put(
            timestamp, key, key_size, value, value_size, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded)
        )

    cdef int put(
        self, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value, Py_ssize_t value_size,
        const char* headers, Py_ssize_t headers_size,
    ) except -2:
        cdef uint64_t timestamp_delta, offset_delta, key_raw, value_raw
        cdef Py_ssize_t body, needed
        cdef uint8_t* p
        if self.sealed:
            raise ValueError("the batch is built; it takes no more records")
        if timestamp < -1:
            raise ValueError(f"a timestamp is milliseconds since the epoch, or -1 for none, not {timestamp}")
        timestamp_delta = 0
        if self.count > 0:
            timestamp_delta = zigzag(timestamp - self.base_timestamp)
        offset_delta = zigzag(self.count)
        key_raw = zigzag(key_size)
        value_raw = zigzag(value_size)
        body = (
            1 + varint_size(timestamp_delta) + varint_size(offset_delta) + varint_size(key_raw)
            + varint_size(value_raw) + headers_size
        )
        if key_size > 0:
            body += key_size
        if value_size > 0:
            body += value_size
        needed = varint_size(zigzag(body)) + body
        if self.count > 0 and self.size + needed > self.max_bytes:
            return -1
        if needed > LARGEST_BATCH - self.size:
            if self.count > 0:
                return -1
            raise ValueError(f"a record of {needed} bytes does not fit into a batch, which holds at most 2 GiB")
        if self.size + needed > self.capacity:
            self.grow(needed)

        p = write_varint(self.buffer + self.size, zigzag(body))
        p[0] = 0
        p = write_varint(p + 1, timestamp_delta)
        p = write_varint(p, offset_delta)
        p = write_varint(p, key_raw)
        if key_size > 0:
            memcpy(p, key, key_size)
            p += key_size
        p = write_varint(p, value_raw)
        if value_size > 0:
            memcpy(p, value, value_size)
            p += value_size
        if headers_size == 1:
            p[0] = <uint8_t>headers[0]
        else:
            memcpy(p, headers, headers_size)
        self.size += needed
        if self.count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return self.count - 1

    cdef int grow(self, Py_ssize_t needed) except -1:
        cdef Py_ssize_t capacity = self.capacity
        cdef uint8_t* bigger
        while capacity < self.size + needed:
            capacity *= 2
        # The last step goes to the cap itself: a full batch wastes nothing.
        if capacity > self.max_bytes and self.max_bytes >= self.size + needed:
            capacity = self.max_bytes
        if capacity >= POOLED_FROM:
            bigger = take_pooled(capacity, &capacity)
            if bigger != NULL:
                memcpy(bigger, self.buffer, self.size)
                give_back(self.buffer, self.capacity)
                self.buffer = bigger
                self.capacity = capacity
                return 0
        bigger = <uint8_t*>realloc(self.buffer, capacity)
        if bigger == NULL:
            raise MemoryError
        self.buffer = bigger
        self.capacity = capacity
        return 0

    def build(
        self, *, int64_t base_offset=0, int64_t producer_id=-1, int producer_epoch=-1, int32_t base_sequence=-1,
        int32_t partition_leader_epoch=-1, bint is_transactional=False, bint is_control=False, int timestamp_type=0,
        max_timestamp=None,
    ):
        cdef int attributes = <int>codecs.TYPE_IDS[self.compression_type]
        cdef int64_t newest = self.max_timestamp if max_timestamp is None else max_timestamp
        cdef bytes result, section
        cdef Py_ssize_t total
        if self.count == 0:
            raise ValueError("a batch needs at least one record")
        if is_transactional:
            attributes |= TRANSACTIONAL
        if is_control:
            attributes |= CONTROL
        if timestamp_type:
            attributes |= LOG_APPEND_TIME
        self.sealed = True
        if attributes & 7 and self.packed is None:
            records = memoryview(self)[HEADER_SIZE:]
            section = codecs.compress(self.compression_type, records, self.compression_level)
            records.release()
            self.packed = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + len(section))
            memcpy(PyBytes_AS_STRING(self.packed) + HEADER_SIZE, PyBytes_AS_STRING(section), len(section))
            result = self.packed
            if self.exports == 0:
                give_back(self.buffer, self.capacity)
                self.buffer = NULL
        elif self.packed is not None:
            # Somebody may still hold what was built before, so the records move to a buffer of their own.
            result = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.packed), PyBytes_GET_SIZE(self.packed))
        elif self.exports > 0:
            result = PyBytes_FromStringAndSize(<char*>self.buffer, self.size)
        else:
            self.write_header(
                self.buffer, self.size, base_offset, producer_id, producer_epoch, base_sequence,
                partition_leader_epoch, attributes, newest,
            )
            built = memoryview(self)
            store32(self.buffer + 17, <uint32_t>crc32c(built[CRC_END:]))
            return built
        total = PyBytes_GET_SIZE(result)
        self.write_header(
            <uint8_t*>PyBytes_AS_STRING(result), total, base_offset, producer_id, producer_epoch, base_sequence,
            partition_leader_epoch, attributes, newest,
        )
        store32(<uint8_t*>PyBytes_AS_STRING(result) + 17, <uint32_t>crc32c(memoryview(result)[CRC_END:]))
        return result

    cdef int write_header(
        self, uint8_t* target, Py_ssize_t total, int64_t base_offset, int64_t producer_id, int producer_epoch,
        int32_t base_sequence, int32_t leader_epoch, int attributes, int64_t max_timestamp,
    ) except -1:
        if total > LARGEST_BATCH:
            raise ValueError(f"a batch holds at most 2 GiB, not {total} bytes")
        store64(target, <uint64_t>base_offset)
        store32(target + 8, <uint32_t>(total - 12))
        store32(target + 12, <uint32_t>leader_epoch)
        target[16] = 2
        store16(target + 21, <short>attributes)
        store32(target + 23, <uint32_t>(self.count - 1))
        store64(target + 27, <uint64_t>self.base_timestamp)
        store64(target + 35, <uint64_t>max_timestamp)
        store64(target + 43, <uint64_t>producer_id)
        store16(target + 51, <short>producer_epoch)
        store32(target + 53, <uint32_t>base_sequence)
        store32(target + 57, <uint32_t>self.count)
        return 0

    def __getbuffer__(self, Py_buffer* view, int flags):
        if not self.sealed or self.buffer == NULL:
            raise BufferError("the batch is not built")
        if flags & PyBUF_WRITABLE:
            raise BufferError("a built batch is read-only")
        PyBuffer_FillInfo(view, self, self.buffer, self.size, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1
