# cython: language_level=3
"""TLS of one connection in memory, all received records at once and without the GIL: the compiled twin of `tls_stream`.

Contexts, certificates, the handshake and its verification are Python's `ssl`. The bytes after the handshake go through
the same OpenSSL, whose functions are found through the module `_ssl`. Python does not tell which `SSL` of OpenSSL belongs
to its object, but OpenSSL reports each new one to those that ask (`CRYPTO_get_ex_new_index`). So only public functions
are used, and no layout of Python's objects. The report is believed if there was exactly one while Python made its
object, in this thread, and if the new `SSL` reads from the very memory that was given to Python.

Not implemented: a Python without such an OpenSSL (one that hides its symbols, LibreSSL, or OpenSSL before 3). There
`attach` returns None, and `implementation` uses the pure twin.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

import _ssl
import ssl
from contextlib import suppress

cdef extern from *:
    """
    #include <dlfcn.h>

    /* The SSL that OpenSSL has made in this thread since the count was reset, and how many. */
    static __thread void *kclient_made = 0;
    static __thread long kclient_count = 0;

    static void kclient_on_new_ssl(void *ssl, void *p, void *data, int index, long number, void *argument) {
        (void)p; (void)data; (void)index; (void)number; (void)argument;
        kclient_made = ssl;
        kclient_count++;
    }
    static void kclient_watch(void) { kclient_count = 0; }
    static void *kclient_only_one(void) { return kclient_count == 1 ? kclient_made : 0; }
    """
    void* dlopen(const char* path, int mode) noexcept nogil
    void* dlsym(void* library, const char* name) noexcept nogil
    int RTLD_LAZY, RTLD_LOCAL
    void kclient_on_new_ssl(void*, void*, void*, int, long, void*) noexcept nogil
    void kclient_watch() noexcept nogil
    void* kclient_only_one() noexcept nogil

# OpenSSL's constants, which its documentation fixes.
cdef enum:
    CRYPTO_EX_INDEX_SSL = 0
    BIO_TYPE_MEM = 0x0401
    BIO_TYPE_SOURCE_SINK = 0x0400
    BIO_FLAGS_READ = 0x01
    BIO_FLAGS_RWS = 0x07
    BIO_FLAGS_SHOULD_RETRY = 0x08
    BIO_CTRL_FLUSH = 11
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_ZERO_RETURN = 6

cdef enum:
    SMALLEST_ROOM = 4096  # of the memory for encrypted bytes
    KEEP_GIL_BELOW = 32768  # bytes; taking the GIL again can cost more than encrypting or decrypting them
    PARTS = 16  # of a write, without memory of their own


cdef struct OpenSsl:
    unsigned int (*major)() noexcept nogil
    int (*new_index)(int, long, void*, void*, void*, void*) noexcept nogil
    int (*bio_new_type)() noexcept nogil
    void* (*method_new)(int, const char*) noexcept nogil
    int (*method_set_read)(void*, void*) noexcept nogil
    int (*method_set_write)(void*, void*) noexcept nogil
    int (*method_set_ctrl)(void*, void*) noexcept nogil
    void* (*bio_new)(void*) noexcept nogil
    int (*bio_up_ref)(void*) noexcept nogil
    int (*bio_free)(void*) noexcept nogil
    void (*bio_set_data)(void*, void*) noexcept nogil
    void* (*bio_get_data)(void*) noexcept nogil
    void (*bio_set_init)(void*, int) noexcept nogil
    void (*bio_set_flags)(void*, int) noexcept nogil
    void (*bio_clear_flags)(void*, int) noexcept nogil
    int (*bio_method_type)(void*) noexcept nogil
    size_t (*bio_pending)(void*) noexcept nogil
    void (*clear_error)() noexcept nogil
    unsigned long (*last_error)() noexcept nogil
    const char* (*reason)(unsigned long) noexcept nogil
    int (*ssl_up_ref)(void*) noexcept nogil
    void (*ssl_free)(void*) noexcept nogil
    void* (*get_rbio)(void*) noexcept nogil
    void* (*get_wbio)(void*) noexcept nogil
    void (*set_bio)(void*, void*, void*) noexcept nogil
    int (*read_ex)(void*, void*, size_t, size_t*) noexcept nogil
    int (*write_ex)(void*, const void*, size_t, size_t*) noexcept nogil
    int (*get_error)(void*, int) noexcept nogil
    int (*pending)(void*) noexcept nogil

# In the order of the fields.
cdef tuple NAMES = (
    b"OPENSSL_version_major", b"CRYPTO_get_ex_new_index", b"BIO_get_new_index", b"BIO_meth_new", b"BIO_meth_set_read",
    b"BIO_meth_set_write", b"BIO_meth_set_ctrl", b"BIO_new", b"BIO_up_ref", b"BIO_free", b"BIO_set_data",
    b"BIO_get_data", b"BIO_set_init", b"BIO_set_flags", b"BIO_clear_flags", b"BIO_method_type", b"BIO_ctrl_pending",
    b"ERR_clear_error", b"ERR_peek_last_error", b"ERR_reason_error_string", b"SSL_up_ref", b"SSL_free",
    b"SSL_get_rbio", b"SSL_get_wbio", b"SSL_set_bio", b"SSL_read_ex", b"SSL_write_ex", b"SSL_get_error", b"SSL_pending",
)  # fmt: skip

cdef OpenSsl openssl
cdef void* bio_method = NULL


# --- memory, as OpenSSL's input and output ---------------------------------------------------------------------------


cdef int bio_read(void* bio, char* target, int size) noexcept nogil:
    cdef Tls* tls = <Tls*>openssl.bio_get_data(bio)
    openssl.bio_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY)
    if tls == NULL or size <= 0:
        return -1
    if tls.source_left == 0:
        openssl.bio_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
        return -1
    if <size_t>size > tls.source_left:
        size = <int>tls.source_left
    memcpy(target, tls.source, size)
    tls.source += size
    tls.source_left -= size
    return size


cdef int bio_write(void* bio, const char* data, int size) noexcept nogil:
    cdef Tls* tls = <Tls*>openssl.bio_get_data(bio)
    openssl.bio_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY)
    if tls == NULL or size <= 0 or not reserve(tls, <size_t>size):
        return -1
    memcpy(tls.encrypted + tls.end, data, size)
    tls.end += size
    return size


cdef long bio_ctrl(void* bio, int command, long number, void* argument) noexcept nogil:
    return command == BIO_CTRL_FLUSH


cdef bint reserve(Tls* tls, size_t size) noexcept nogil:
    """Make room for so many more encrypted bytes."""
    cdef size_t room = tls.room
    cdef char* grown
    if tls.start == tls.end:
        tls.start = tls.end = 0
    if tls.end + size <= room:
        return True
    if room < SMALLEST_ROOM:
        room = SMALLEST_ROOM
    while room < tls.end + size:
        room *= 2
    grown = <char*>realloc(tls.encrypted, room)
    if grown == NULL:
        return False
    tls.encrypted, tls.room = grown, room
    return True


# --- reading and writing ---------------------------------------------------------------------------------------------


cdef size_t tls_read(Tls* tls, char* target, size_t size) noexcept nogil:
    cdef size_t filled = 0
    cdef size_t count = 0
    while filled < size and tls.state == TLS_OPEN:
        openssl.clear_error()
        if openssl.read_ex(tls.ssl, target + filled, size - filled, &count) == 1:
            filled += count
        else:
            may_continue(tls)
            break
    return filled


cdef bint may_continue(Tls* tls) noexcept nogil:
    """Note why OpenSSL could not read or write; return whether it only needs more bytes of the peer."""
    cdef int code = openssl.get_error(tls.ssl, 0)
    if code == SSL_ERROR_WANT_READ:
        return True
    if code == SSL_ERROR_ZERO_RETURN:
        tls.state = TLS_ENDED
    else:
        tls.state = TLS_FAILED
        tls.error = openssl.last_error()
        openssl.clear_error()
    return False


cdef bint tls_has_input(Tls* tls) noexcept nogil:
    return tls.state == TLS_OPEN and (tls.source_left > 0 or openssl.pending(tls.ssl) > 0)


cdef void encrypt(Tls* tls, const char* data, size_t size) noexcept nogil:
    cdef size_t count = 0
    while size and tls.state == TLS_OPEN:
        openssl.clear_error()
        if openssl.write_ex(tls.ssl, data, size, &count) == 1:
            data += count
            size -= count
        elif may_continue(tls):
            # The peer wants to negotiate again, as only TLS 1.2 can, and Kafka does not allow.
            tls.state = TLS_FAILED


cdef void tls_write(
    Tls* tls, const Py_buffer* parts, Py_ssize_t count, Py_ssize_t* next_part, size_t* offset, size_t limit
) noexcept nogil:
    # Each call of OpenSSL makes at least one record, so small parts, and the ends of large ones, are joined.
    cdef char joined[RECORD_BYTES]
    cdef size_t held = 0
    cdef size_t total = 0
    cdef size_t size
    cdef const char* data
    while next_part[0] < count and total < limit and tls.state == TLS_OPEN:
        data = <const char*>parts[next_part[0]].buf + offset[0]
        size = parts[next_part[0]].len - offset[0]
        if held == 0 and size >= RECORD_BYTES:
            if size > limit - total + RECORD_BYTES:
                size = limit - total + RECORD_BYTES
            size -= size % RECORD_BYTES
            encrypt(tls, data, size)
        else:
            if size > RECORD_BYTES - held:
                size = RECORD_BYTES - held
            memcpy(joined + held, data, size)
            held += size
            if held == RECORD_BYTES:
                encrypt(tls, joined, held)
                held = 0
        total += size
        offset[0] += size
        if offset[0] == <size_t>parts[next_part[0]].len:
            offset[0] = 0
            next_part[0] += 1
    encrypt(tls, joined, held)


cdef class Encrypted:
    """Encrypted bytes in memory of their own, freed with the last reference."""

    cdef char* data
    cdef size_t start
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data + self.start, self.size, 1, flags)

    def __dealloc__(self):
        free(self.data)


cdef class TlsStream:
    """The TLS of one connection. The pure twin documents each method.

    Raises:
        NotImplementedError: this Python does not show its OpenSSL.
    """

    def __cinit__(self):
        memset(&self.core, 0, sizeof(Tls))

    def __init__(self, context, *, bint server_side=False, server_hostname=None):
        if not find_openssl():
            raise NotImplementedError("the functions of Python's OpenSSL cannot be found")
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        received.write(b"?")
        kclient_watch()
        tls = context.wrap_bio(received, sent, server_side=server_side, server_hostname=server_hostname)
        if not self.attach(kclient_only_one(), received):
            raise NotImplementedError("the SSL of Python's object cannot be found")
        self.tls = tls

    def __dealloc__(self):
        if self.core.bio != NULL:
            # OpenSSL may keep the BIO for longer than this object lives.
            openssl.bio_set_data(self.core.bio, NULL)
            openssl.bio_free(self.core.bio)
            openssl.ssl_free(self.core.ssl)
        free(self.core.encrypted)

    cdef bint attach(self, void* found, object received) except -1:
        """Give an SSL the memory of this object, if it reads from `received`, which has one byte."""
        cdef void* memory
        cdef void* bio
        if found == NULL:
            return False
        memory = openssl.get_rbio(found)
        if memory == NULL or openssl.bio_method_type(memory) != BIO_TYPE_MEM or openssl.bio_pending(memory) != 1:
            return False
        received.read()
        if openssl.bio_pending(memory) != 0:
            return False
        bio = openssl.bio_new(bio_method)
        if bio == NULL:
            raise MemoryError
        openssl.bio_set_data(bio, &self.core)
        openssl.bio_set_init(bio, 1)
        # OpenSSL gets one reference to the BIO, and this object has one to each.
        openssl.bio_up_ref(bio)
        openssl.ssl_up_ref(found)
        openssl.set_bio(found, bio, bio)
        self.core.bio, self.core.ssl = bio, found
        return True

    def receive(self, data):
        if self.core.source_left:
            data = self.core.source[: self.core.source_left] + bytes(data)
        self.held = bytes(data)
        self.core.source = PyBytes_AS_STRING(self.held)
        self.core.source_left = PyBytes_GET_SIZE(self.held)

    def do_handshake(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, buffer):
        cdef Py_buffer view
        cdef size_t count
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        if self.core.source_left < KEEP_GIL_BELOW:
            count = tls_read(&self.core, <char*>view.buf, view.len)
        else:
            with nogil:
                count = tls_read(&self.core, <char*>view.buf, view.len)
        PyBuffer_Release(&view)
        if self.core.source_left == 0:
            self.held = None
        if count == 0 and self.core.state != TLS_OPEN:
            raise self.failure()
        return count

    def write(self, parts):
        cdef Py_buffer some[PARTS]
        cdef Py_buffer* views = some
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t next_part = 0
        cdef size_t offset = 0
        cdef size_t total = 0
        cdef bint has_memory
        if len(parts) > PARTS:
            views = <Py_buffer*>malloc(len(parts) * sizeof(Py_buffer))
            if views == NULL:
                raise MemoryError
        try:
            for part in parts:
                PyObject_GetBuffer(part, &views[count], PyBUF_SIMPLE)
                total += views[count].len
                count += 1
            if total < KEEP_GIL_BELOW:
                tls_write(&self.core, views, count, &next_part, &offset, total)
            else:
                with nogil:
                    # With what TLS adds to each record.
                    has_memory = reserve(&self.core, total + (total >> 8) + SMALLEST_ROOM)
                    if has_memory:
                        tls_write(&self.core, views, count, &next_part, &offset, total)
                if not has_memory:
                    raise MemoryError
        finally:
            while count:
                count -= 1
                PyBuffer_Release(&views[count])
            if views != some:
                free(views)
        if self.core.state != TLS_OPEN:
            raise self.failure()

    def take(self):
        cdef Tls* core = &self.core
        cdef Encrypted encrypted
        cdef size_t size = core.end - core.start
        if size == 0:
            return b""
        if core.room <= RECORD_BYTES:
            data = core.encrypted[core.start : core.end]
            core.start = core.end = 0
            return data
        encrypted = Encrypted.__new__(Encrypted)
        encrypted.data, encrypted.start, encrypted.size = core.encrypted, core.start, size
        core.encrypted = NULL
        core.room = core.start = core.end = 0
        return memoryview(encrypted)

    def shut_down(self):
        with suppress(ssl.SSLError):
            self.tls.unwrap()

    cdef object failure(self):
        """Return the error of a connection that is no longer open."""
        cdef const char* text
        if self.core.state == TLS_ENDED:
            return ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "the peer has ended the connection")
        text = openssl.reason(self.core.error) if self.core.error else NULL
        reason = "UNKNOWN" if text == NULL else text.decode("ascii", "replace").upper().replace(" ", "_")
        error = ssl.SSLError(ssl.SSL_ERROR_SSL, f"[SSL: {reason}]")
        error.library, error.reason = "SSL", reason
        return error


# --- Python's OpenSSL ------------------------------------------------------------------------------------------------

cdef object is_found = None


cdef bint find_openssl() except -1:
    """Find the functions of Python's OpenSSL once; return whether that worked."""
    global is_found
    if is_found is None:
        is_found = resolve() and prepare()
    return is_found


cdef bint resolve() except -1:
    cdef void* library
    cdef void* found
    cdef Py_ssize_t index
    path = getattr(_ssl, "__file__", None)
    # Without a file, the module is part of the interpreter, which may show its OpenSSL, or another one: `attach` sees.
    encoded = None if path is None else path.encode()
    library = dlopen(NULL if encoded is None else <const char*>encoded, RTLD_LAZY | RTLD_LOCAL)
    if library == NULL:
        return False
    for index, name in enumerate(NAMES):
        found = dlsym(library, <const char*>name)
        if found == NULL:
            return False
        (<void**>&openssl)[index] = found
    return openssl.major() >= 3


cdef bint prepare() except -1:
    global bio_method
    cdef void* callback = <void*>kclient_on_new_ssl
    if openssl.new_index(CRYPTO_EX_INDEX_SSL, 0, NULL, callback, NULL, NULL) < 0:
        return False
    bio_method = openssl.method_new(openssl.bio_new_type() | BIO_TYPE_SOURCE_SINK, b"kclient")
    if bio_method == NULL:
        return False
    openssl.method_set_read(bio_method, <void*>bio_read)
    openssl.method_set_write(bio_method, <void*>bio_write)
    openssl.method_set_ctrl(bio_method, <void*>bio_ctrl)
    return True
