# The socket of one connection, and what is done with it without the GIL: reading whole frames, and writing requests.
#
# With TLS (`Link.tls`), bytes are decrypted into the memory of the frame, and encrypted shortly before they are sent.
# Elsewhere: the objects of Python around it (`_io`), TLS (`kclient.security._tls_stream`).

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memmove, memset

from kclient.security._tls_stream cimport TLS_ENDED, TLS_FAILED, TLS_OPEN, Tls, tls_has_input, tls_read, tls_write

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <poll.h>
    #include <time.h>
    #include <unistd.h>
    #ifndef MSG_NOSIGNAL
      #define MSG_NOSIGNAL 0
    #endif

    /* Waits for so many nanoseconds; below 0 without a limit. */
    static int kclient_poll(struct pollfd *fds, int count, long long timeout) {
    #ifdef __linux__
        struct timespec wait;
        if (timeout < 0) return ppoll(fds, count, NULL, NULL);
        wait.tv_sec = timeout / 1000000000LL;
        wait.tv_nsec = timeout % 1000000000LL;
        return ppoll(fds, count, &wait, NULL);
    #else
        long long milliseconds = (timeout + 999999) / 1000000;
        if (timeout < 0) return poll(fds, count, -1);
        return poll(fds, count, milliseconds > 1000000000 ? 1000000000 : (int)milliseconds);
    #endif
    }
    """
    struct pollfd:
        int fd
        short events
        short revents
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    enum:
        POLLIN
        POLLOUT
        POLLERR
        POLLHUP
        MSG_NOSIGNAL
        SOL_SOCKET
        SO_ERROR
    int kclient_poll(pollfd* fds, int count, long long timeout) noexcept nogil
    ssize_t recv(int fd, void* buffer, size_t size, int flags) noexcept nogil
    ssize_t send(int fd, const void* buffer, size_t size, int flags) noexcept nogil
    ssize_t sendmsg(int fd, const msghdr* message, int flags) noexcept nogil
    ssize_t read(int fd, void* buffer, size_t size) noexcept nogil
    ssize_t write(int fd, const void* buffer, size_t size) noexcept nogil
    int getsockopt(int fd, int level, int name, void* value, unsigned int* size) noexcept nogil

cdef enum:
    STAGED_BYTES = 32768  # frames up to here are copied out of one buffer per connection, larger ones read in place
    RAW_BYTES = 262144  # read at a time from a channel that does not split them into frames, or with TLS
    PARTS_AT_ONCE = 64
    ENCRYPTED_AT_ONCE = 131072  # bytes; the system sends them while the next ones are encrypted

# The events of a connection that were not reported yet, as bits.
cdef enum:
    HAS_CONNECTED = 1
    HAS_FRAME = 2
    HAS_SENT = 4
    HAS_FAILED = 8
    HAS_ENDED = 16
    HAS_BAD_FRAME = 32
    HAS_WRITTEN = 64
    IS_FINISHED = 56  # HAS_FAILED, HAS_ENDED, HAS_BAD_FRAME


cdef struct Link:
    int fd
    int connecting, events, error
    int raw
    long long limit
    char* staged
    size_t room
    size_t start, end
    char* body
    size_t body_size, body_filled
    Py_buffer* parts
    Py_ssize_t part_count, part_room, part_next
    size_t part_offset
    int notify
    # With TLS: its state, memory for encrypted bytes, and whether bytes of it were not examined yet.
    Tls* tls
    char* received
    int unread


cdef inline long long frame_size(const char* at) noexcept nogil:
    cdef const uint8_t* b = <const uint8_t*>at
    cdef long long size = (<long long>b[0] << 24) | (b[1] << 16) | (b[2] << 8) | b[3]
    return size - 0x100000000LL if size >= 0x80000000LL else size


cdef inline void examine(Link* link) noexcept nogil:
    """Examine the staged bytes: a whole frame, the start of a large one, or an invalid size."""
    cdef size_t there = link.end - link.start
    cdef long long size
    if link.raw:
        if there:
            link.events |= HAS_FRAME
        return
    if there < 4:
        if link.start and link.start == link.end:
            link.start = link.end = 0
        elif STAGED_BYTES - link.start < 4:
            memmove(link.staged, link.staged + link.start, there)
            link.start = 0
            link.end = there
        return
    size = frame_size(link.staged + link.start)
    if size < 0 or size > link.limit:
        link.events |= HAS_BAD_FRAME
    elif there >= <size_t>size + 4:
        link.events |= HAS_FRAME
    elif <size_t>size + 4 > STAGED_BYTES:
        link.body = <char*>malloc(<size_t>size)
        if link.body == NULL:
            link.events |= HAS_BAD_FRAME
            return
        link.body_size = <size_t>size
        link.body_filled = there - 4
        memcpy(link.body, link.staged + link.start + 4, there - 4)
        link.start = link.end = 0
    elif link.start + <size_t>size + 4 > STAGED_BYTES:
        memmove(link.staged, link.staged + link.start, there)
        link.start = 0
        link.end = there


cdef inline bint has_unsent(const Link* link) noexcept nogil:
    """Return whether bytes wait to be sent."""
    return link.part_next < link.part_count or (link.tls != NULL and link.tls.start < link.tls.end)


cdef inline void note_written(Link* link) noexcept nogil:
    link.events |= HAS_WRITTEN
    if link.notify:
        link.notify = 0
        link.events |= HAS_SENT


cdef inline void read_secured(Link* link) noexcept nogil:
    """Read and decrypt until a frame is complete or no bytes are left."""
    cdef Tls* tls = link.tls
    cdef size_t count
    cdef ssize_t received
    cdef bint is_last = False
    link.unread = 0
    while True:
        while True:
            if link.body != NULL:
                count = tls_read(tls, link.body + link.body_filled, link.body_size - link.body_filled)
                link.body_filled += count
                if link.body_filled == link.body_size:
                    link.events |= HAS_FRAME
            else:
                count = tls_read(tls, link.staged + link.end, link.room - link.end)
                link.end += count
                if count:
                    examine(link)
            if count == 0 or link.events & (HAS_FRAME | HAS_BAD_FRAME):
                break
        if link.events & (HAS_FRAME | HAS_BAD_FRAME):
            link.unread = tls_has_input(tls) or tls.state != TLS_OPEN
            return
        if tls.state != TLS_OPEN:
            link.events |= HAS_ENDED if tls.state == TLS_ENDED else HAS_FAILED
            return
        if is_last:
            return
        received = recv(link.fd, link.received, RAW_BYTES, 0)
        if received < 0:
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                link.error = errno
                link.events |= HAS_FAILED
            return
        if received == 0:
            link.events |= HAS_ENDED
            return
        tls.source, tls.source_left = link.received, received
        is_last = received < RAW_BYTES and link.body == NULL


cdef inline void read_some(Link* link) noexcept nogil:
    """Read until a frame is complete or no bytes are left."""
    cdef size_t wanted
    cdef ssize_t count
    cdef char* target
    if link.tls != NULL:
        read_secured(link)
        return
    while True:
        if link.body != NULL:
            target = link.body + link.body_filled
            wanted = link.body_size - link.body_filled
        else:
            target = link.staged + link.end
            wanted = link.room - link.end
            if wanted == 0:  # raw bytes that were not handed out yet
                return
        count = recv(link.fd, target, wanted, 0)
        if count < 0:
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                link.error = errno
                link.events |= HAS_FAILED
            return
        if count == 0:
            link.events |= HAS_ENDED
            return
        if link.body != NULL:
            link.body_filled += count
            if link.body_filled == link.body_size:
                link.events |= HAS_FRAME
                return
        else:
            link.end += count
            examine(link)
            if link.events & (HAS_FRAME | HAS_BAD_FRAME) and not link.raw:
                return
        if <size_t>count < wanted and link.body == NULL:
            return


cdef inline void fail(Link* link, int error) noexcept nogil:
    """Note an error while writing."""
    # With TLS, a peer that refuses this one says why before it closes the connection.
    if (link.raw or link.tls != NULL) and not link.events & IS_FINISHED:
        read_some(link)
    link.error = error
    link.events |= HAS_FAILED


cdef inline void write_secured(Link* link) noexcept nogil:
    """Encrypt and write until everything is sent or the system accepts no more."""
    cdef Tls* tls = link.tls
    cdef ssize_t sent
    while True:
        while tls.start < tls.end:
            sent = send(link.fd, tls.encrypted + tls.start, tls.end - tls.start, MSG_NOSIGNAL)
            if sent >= 0:
                tls.start += sent
            elif errno == EAGAIN:
                return
            elif errno != EINTR:
                fail(link, errno)
                return
        if link.part_next == link.part_count:
            break
        if tls.state != TLS_OPEN:
            return  # reading reports it
        tls_write(tls, link.parts, link.part_count, &link.part_next, &link.part_offset, ENCRYPTED_AT_ONCE)
        if tls.state == TLS_FAILED:
            link.events |= HAS_FAILED
            return
    note_written(link)


cdef inline void write_some(Link* link) noexcept nogil:
    """Write until everything is sent or the system accepts no more."""
    cdef iovec vectors[PARTS_AT_ONCE]
    cdef msghdr message
    cdef Py_ssize_t index, used
    cdef size_t left
    cdef ssize_t sent
    cdef Py_buffer* part
    if link.tls != NULL:
        write_secured(link)
        return
    while link.part_next < link.part_count:
        used = 0
        index = link.part_next
        while index < link.part_count and used < PARTS_AT_ONCE:
            part = &link.parts[index]
            vectors[used].iov_base = part.buf
            vectors[used].iov_len = part.len
            if used == 0:
                vectors[0].iov_base = <char*>part.buf + link.part_offset
                vectors[0].iov_len = part.len - link.part_offset
            used += 1
            index += 1
        memset(&message, 0, sizeof(message))
        message.msg_iov = vectors
        message.msg_iovlen = used
        sent = sendmsg(link.fd, &message, MSG_NOSIGNAL)
        if sent < 0:
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                fail(link, errno)
            return
        left = <size_t>sent
        while left:
            part = &link.parts[link.part_next]
            if left < <size_t>part.len - link.part_offset:
                link.part_offset += left
                break
            left -= part.len - link.part_offset
            link.part_offset = 0
            link.part_next += 1
    note_written(link)


cdef inline void finish_connecting(Link* link) noexcept nogil:
    cdef int code = 0
    cdef unsigned int size = sizeof(code)
    if getsockopt(link.fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0:
        code = errno
    link.connecting = 0
    if code:
        link.error = code
        link.events |= HAS_FAILED
    else:
        link.events |= HAS_CONNECTED
