# Reading and writing what record batches are made of, in C: big-endian integers, zig-zag varints, one record.
#
# Only inline functions, so there is no module behind this file. Nothing here reads outside [p, limit): a reader
# returns the position after what it read, or NULL when the bytes are malformed or end too early.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

# A record inside its batch. Sizes are -1 for null; `headers` is where the first header starts and `end` where the
# record ends.
cdef struct RecordView:
    int64_t timestamp_delta
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    const uint8_t* end
    int32_t offset_delta
    int32_t key_size
    int32_t value_size
    int32_t header_count

# One header of a record; `value_size` is -1 for null.
cdef struct HeaderView:
    const uint8_t* key
    const uint8_t* value
    int32_t key_size
    int32_t value_size


cdef inline uint32_t load32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>load32(p) << 32) | load32(p + 4)


cdef inline int16_t load16(const uint8_t* p) noexcept nogil:
    return <int16_t>((<int>p[0] << 8) | p[1])


cdef inline void store16(uint8_t* p, int16_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 8)
    p[1] = <uint8_t>value


cdef inline void store32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value


cdef inline void store64(uint8_t* p, uint64_t value) noexcept nogil:
    store32(p, <uint32_t>(value >> 32))
    store32(p + 4, <uint32_t>value)


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (<uint64_t>0 - (<uint64_t>value >> 63))


cdef inline int varint_size(uint64_t raw) noexcept nogil:
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* p, uint64_t raw) noexcept nogil:
    while raw >= 0x80:
        p[0] = <uint8_t>(raw | 0x80)
        raw >>= 7
        p += 1
    p[0] = <uint8_t>raw
    return p + 1


cdef inline const uint8_t* read_raw(const uint8_t* p, const uint8_t* limit, int longest, uint64_t* raw) noexcept nogil:
    cdef int shift = 0
    raw[0] = 0
    while p < limit and shift < 7 * longest:
        raw[0] |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_varint(const uint8_t* p, const uint8_t* limit, int32_t* value) noexcept nogil:
    cdef uint64_t raw
    cdef uint32_t low
    if p < limit and p[0] < 0x80:
        value[0] = <int32_t>(p[0] >> 1) ^ -<int32_t>(p[0] & 1)
        return p + 1
    p = read_raw(p, limit, 5, &raw)
    low = <uint32_t>raw
    value[0] = <int32_t>((low >> 1) ^ (<uint32_t>0 - (low & 1)))
    return p


cdef inline const uint8_t* read_varlong(const uint8_t* p, const uint8_t* limit, int64_t* value) noexcept nogil:
    cdef uint64_t raw
    if p < limit and p[0] < 0x80:
        value[0] = <int32_t>(p[0] >> 1) ^ -<int32_t>(p[0] & 1)
        return p + 1
    p = read_raw(p, limit, 10, &raw)
    value[0] = <int64_t>((raw >> 1) ^ (<uint64_t>0 - (raw & 1)))
    return p


cdef inline const uint8_t* read_header(const uint8_t* p, const uint8_t* limit, HeaderView* header) noexcept nogil:
    p = read_varint(p, limit, &header.key_size)
    if p == NULL or header.key_size < 0 or header.key_size > limit - p:
        return NULL
    header.key = p
    p = read_varint(p + header.key_size, limit, &header.value_size)
    if p == NULL or header.value_size > limit - p:
        return NULL
    header.value = p
    if header.value_size < 0:
        header.value_size = -1
        return p
    return p + header.value_size


# The record at p, its headers located but not looked into (check_headers does that).
cdef inline bint read_record(const uint8_t* p, const uint8_t* limit, RecordView* record) noexcept nogil:
    cdef int32_t size
    p = read_varint(p, limit, &size)
    if p == NULL or size < 1 or size > limit - p:
        return False
    limit = p + size
    record.end = limit
    p = read_varlong(p + 1, limit, &record.timestamp_delta)
    if p == NULL:
        return False
    p = read_varint(p, limit, &record.offset_delta)
    if p == NULL:
        return False
    p = read_varint(p, limit, &record.key_size)
    if p == NULL or record.key_size > limit - p:
        return False
    record.key = p
    if record.key_size > 0:
        p += record.key_size
    p = read_varint(p, limit, &record.value_size)
    if p == NULL or record.value_size > limit - p:
        return False
    record.value = p
    if record.value_size > 0:
        p += record.value_size
    p = read_varint(p, limit, &record.header_count)
    if p == NULL or record.header_count < 0 or record.header_count > limit - p:
        return False
    record.headers = p
    return record.header_count > 0 or p == limit


cdef inline bint check_headers(const RecordView* record) noexcept nogil:
    cdef HeaderView header
    cdef const uint8_t* p = record.headers
    cdef int32_t index
    for index in range(record.header_count):
        p = read_header(p, record.end, &header)
        if p == NULL:
            return False
    return p == record.end
