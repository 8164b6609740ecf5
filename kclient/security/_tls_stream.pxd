# TLS without the GIL, for `_tls_stream` itself and for the compiled sockets; see _tls_stream.pyx.

cdef enum:
    TLS_OPEN = 0
    TLS_ENDED = 1  # the peer has ended the connection properly
    TLS_FAILED = 2

cdef enum:
    RECORD_BYTES = 16384  # the most that a record of TLS contains


cdef struct Tls:
    void* ssl
    void* bio
    int state
    unsigned long error  # OpenSSL's code, once it has failed
    # The received bytes that OpenSSL has not taken yet.
    const char* source
    size_t source_left
    # The encrypted bytes that were not sent yet.
    char* encrypted
    size_t room, start, end


cdef class TlsStream:
    cdef Tls core
    cdef object held
    cdef readonly object tls

    cdef bint attach(self, void* found, object received) except -1
    cdef object failure(self)


# Decrypts into memory until it is full or no input is left; returns the number of bytes. Sets `state` at the end.
cdef size_t tls_read(Tls* tls, char* target, size_t size) noexcept nogil

# Encrypts parts from a position on, which it moves, until `limit` bytes or more were encrypted. Sets `state` on failure.
cdef void tls_write(
    Tls* tls, const Py_buffer* parts, Py_ssize_t count, Py_ssize_t* next_part, size_t* offset, size_t limit
) noexcept nogil

# Returns whether received bytes are left, encrypted or decrypted.
cdef bint tls_has_input(Tls* tls) noexcept nogil
