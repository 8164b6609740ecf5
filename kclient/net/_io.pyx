# cython: language_level=3
"""Sockets that wait, read whole frames and write whole requests: the compiled twin of `io`.

The network thread gives the GIL away once per turn: `Poller.wait` waits, reads and writes without it until a whole
frame is there (or another event that Python must handle), raises the hand-over flag and comes back. Small writes
keep the GIL, since taking it again can cost far more than they do; large ones give it away.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from kclient.records._handover cimport kclient_now_ns, lower_flag, raise_flag

import os
import socket

from kclient.net.events import BadFrame, PeerClosed

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
    ssize_t sendmsg(int fd, const msghdr* message, int flags) noexcept nogil
    ssize_t read(int fd, void* buffer, size_t size) noexcept nogil
    ssize_t write(int fd, const void* buffer, size_t size) noexcept nogil
    int getsockopt(int fd, int level, int name, void* value, unsigned int* size) noexcept nogil

# The kinds of events, as in events.py.
cdef enum:
    CONNECTED = 0
    FRAME = 1
    SENT = 2
    CLOSED = 3
    BYTES = 6

cdef enum:
    STAGED_BYTES = 32768  # frames up to here are copied out of one buffer per connection, larger ones read in place
    RAW_BYTES = 262144  # read at a time from a channel that does not split them into frames
    PARTS_AT_ONCE = 64
    KEEP_GIL_BELOW = 65536  # bytes of a write

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


cdef long long frame_size(const char* at) noexcept nogil:
    cdef const uint8_t* b = <const uint8_t*>at
    cdef long long size = (<long long>b[0] << 24) | (b[1] << 16) | (b[2] << 8) | b[3]
    return size - 0x100000000LL if size >= 0x80000000LL else size


cdef void examine(Link* link) noexcept nogil:
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


cdef void read_some(Link* link) noexcept nogil:
    """Read until a frame is complete or no bytes are left."""
    cdef size_t wanted
    cdef ssize_t count
    cdef char* target
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


cdef void write_some(Link* link) noexcept nogil:
    """Write until everything is sent or the system accepts no more."""
    cdef iovec vectors[PARTS_AT_ONCE]
    cdef msghdr message
    cdef Py_ssize_t index, used
    cdef size_t left
    cdef ssize_t sent
    cdef Py_buffer* part
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
                link.error = errno
                link.events |= HAS_FAILED
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
    link.events |= HAS_WRITTEN
    if link.notify:
        link.notify = 0
        link.events |= HAS_SENT


cdef class Frame:
    """The bytes of one large frame, in memory of their own, freed with the last reference."""

    cdef char* data
    cdef Py_ssize_t size

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __dealloc__(self):
        free(self.data)


cdef class Channel:
    """One connection: frames in, parts of frames out. The pure twin documents each method."""

    cdef readonly object handler
    cdef readonly bint closed
    cdef Poller poller
    cdef object sock
    cdef Link link

    def __cinit__(self, Poller poller, object sock, object handler, bint raw):
        memset(&self.link, 0, sizeof(Link))
        self.poller = poller
        self.sock = sock
        self.handler = handler
        self.link.fd = sock.fileno()
        self.link.connecting = 1
        self.link.limit = 0x7FFFFFFF
        self.link.raw = raw
        self.link.room = RAW_BYTES if raw else STAGED_BYTES
        self.link.staged = <char*>malloc(self.link.room)
        if self.link.staged == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.release_parts()
        free(self.link.parts)
        free(self.link.staged)
        free(self.link.body)

    @property
    def frame_limit(self):
        return self.link.limit

    @frame_limit.setter
    def frame_limit(self, long long value):
        self.link.limit = value

    def send(self, parts, bint notify=False):
        cdef Link* link = &self.link
        cdef Py_ssize_t size = 0
        cdef bint busy = link.part_next < link.part_count
        if self.closed or link.events & IS_FINISHED:
            return False
        if not busy and link.part_count:
            self.release_parts()
        for part in parts:
            size += self.add_part(part)
        if not busy:
            if size < KEEP_GIL_BELOW:
                write_some(link)
            else:
                with nogil:
                    write_some(link)
                    raise_flag()
                lower_flag()
            link.events &= ~HAS_SENT
        if link.part_next < link.part_count:
            link.notify |= notify
            return False
        self.release_parts()
        return not link.events & IS_FINISHED

    def close(self):
        if not self.closed:
            self.closed = True
            self.poller.forget(self)
            self.sock.close()
            self.release_parts()

    cdef Py_ssize_t add_part(self, object part) except -1:
        cdef Link* link = &self.link
        cdef Py_buffer* grown
        cdef Py_buffer* view
        if link.part_count == link.part_room:
            grown = <Py_buffer*>realloc(link.parts, (link.part_room + 16) * 2 * sizeof(Py_buffer))
            if grown == NULL:
                raise MemoryError
            link.parts = grown
            link.part_room = (link.part_room + 16) * 2
        view = &link.parts[link.part_count]
        PyObject_GetBuffer(part, view, PyBUF_SIMPLE)
        if view.len == 0:
            PyBuffer_Release(view)
            return 0
        link.part_count += 1
        return view.len

    cdef void release_parts(self):
        cdef Link* link = &self.link
        cdef Py_ssize_t index
        for index in range(link.part_count):
            PyBuffer_Release(&link.parts[index])
        link.part_count = link.part_next = 0
        link.part_offset = 0
        link.events &= ~HAS_WRITTEN

    cdef object take_frame(self):
        """Return the next whole frame, or raw bytes; or None."""
        cdef Link* link = &self.link
        cdef Frame frame
        cdef object small
        cdef size_t size
        link.events &= ~HAS_FRAME
        if link.body != NULL:
            if link.body_filled < link.body_size:
                return None
            frame = Frame.__new__(Frame)
            frame.data = link.body
            frame.size = link.body_size
            link.body = NULL
            return memoryview(frame)
        if link.raw:
            if link.start == link.end:
                return None
            small = PyBytes_FromStringAndSize(link.staged, link.end)
            link.start = link.end = 0
            return small
        examine(link)
        if not link.events & HAS_FRAME:
            return None
        size = frame_size(link.staged + link.start)
        small = PyBytes_FromStringAndSize(link.staged + link.start + 4, size)
        link.start += 4 + size
        return small

    cdef object report(self, list events):
        """Append the events of this connection."""
        cdef Link* link = &self.link
        cdef object handler = self.handler
        if link.events & HAS_WRITTEN and link.part_next == link.part_count:
            self.release_parts()
        if link.events & HAS_CONNECTED:
            link.events &= ~HAS_CONNECTED
            events.append((handler, CONNECTED, None))
        if link.events & HAS_SENT:
            link.events &= ~HAS_SENT
            events.append((handler, SENT, None))
        if link.events & HAS_FRAME:
            while True:
                frame = self.take_frame()
                if frame is None:
                    break
                events.append((handler, BYTES if link.raw else FRAME, frame))
        if link.events & IS_FINISHED:
            events.append((handler, CLOSED, self.reason()))
            self.poller.forget(self)

    cdef object reason(self):
        cdef Link* link = &self.link
        cdef object head = PyBytes_FromStringAndSize(link.staged + link.start, min(<Py_ssize_t>(link.end - link.start), 64))
        if link.events & HAS_BAD_FRAME:
            return BadFrame(frame_size(link.staged + link.start), head)
        if link.events & HAS_FAILED:
            return OSError(link.error, os.strerror(link.error))
        if link.body != NULL:
            head = PyBytes_FromStringAndSize(link.body, min(<Py_ssize_t>link.body_filled, 64))
        return PeerClosed(head)


cdef class Poller:
    """Waits for channels, and for `wake` from other threads. The pure twin documents each method."""

    cdef readonly long long gil_waits
    cdef long long gil_wait_ns
    cdef long long gil_wait_max_ns
    cdef list channels
    cdef Link** links
    cdef pollfd* fds
    cdef int count
    cdef int room
    cdef object wake_reader
    cdef object wake_writer
    cdef int wake_fd
    cdef int drain_fd
    cdef bint has_pending_events

    def __cinit__(self):
        self.channels = []
        self.grow(16)
        self.wake_reader, self.wake_writer = socket.socketpair()
        self.wake_reader.setblocking(False)
        self.wake_writer.setblocking(False)
        self.drain_fd = self.wake_reader.fileno()
        self.wake_fd = self.wake_writer.fileno()

    def __dealloc__(self):
        free(self.links)
        free(self.fds)

    @property
    def gil_wait_seconds(self):
        return self.gil_wait_ns / 1e9

    @property
    def gil_wait_max(self):
        return self.gil_wait_max_ns / 1e9

    def register(self, sock, handler, bint raw=False):
        cdef Channel channel = Channel(self, sock, handler, raw)
        if self.count == self.room:
            self.grow(self.room * 2)
        self.links[self.count] = &channel.link
        self.count += 1
        self.channels.append(channel)
        return channel

    def wait(self, double timeout):
        cdef long long deadline = -1
        cdef long long asked, waited
        cdef int index, code
        cdef list events = []
        cdef Channel channel
        if timeout < 1e9:
            deadline = kclient_now_ns() + <long long>(timeout * 1e9)
        # Report an error of a write even if the socket has no event.
        for index in range(self.count):
            if self.links[index].events & IS_FINISHED:
                deadline = 0
        with nogil:
            code = self.turn(deadline)
            raise_flag()
            asked = kclient_now_ns()
        lower_flag()
        waited = kclient_now_ns() - asked
        self.gil_waits += 1
        self.gil_wait_ns += waited
        if waited > self.gil_wait_max_ns:
            self.gil_wait_max_ns = waited
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        index = 0
        while index < self.count:
            if self.links[index].events == 0:
                index += 1
                continue
            channel = self.channels[index]
            channel.report(events)
            # A closed channel was replaced by another one at this index.
            if index < self.count and self.links[index] == &channel.link:
                index += 1
        return events

    def wake(self):
        write(self.wake_fd, b"w", 1)

    def close(self):
        for channel in list(self.channels):
            channel.close()
        self.wake_fd = self.drain_fd = -1
        self.wake_reader.close()
        self.wake_writer.close()

    cdef int turn(self, long long deadline) noexcept nogil:
        """Wait, read and write until there is an event for Python: 1, or -errno; 0 if the time passed."""
        cdef int index, ready, reportable = 0
        cdef long long left = -1
        cdef Link* link
        cdef short events
        cdef char drained[64]
        while True:
            self.fds[0].fd = self.drain_fd
            self.fds[0].events = POLLIN
            for index in range(self.count):
                link = self.links[index]
                events = 0 if link.connecting else POLLIN
                if link.connecting or link.part_next < link.part_count:
                    events |= POLLOUT
                self.fds[index + 1].fd = link.fd
                self.fds[index + 1].events = events
            if deadline >= 0:
                left = deadline - kclient_now_ns()
                if left < 0:
                    left = 0
            ready = kclient_poll(self.fds, self.count + 1, left)
            if ready < 0:
                if errno == EINTR:
                    continue
                return -errno
            if ready == 0:
                return 0
            if self.fds[0].revents:
                while read(self.drain_fd, drained, 64) == 64:
                    pass
                reportable = 1
            for index in range(self.count):
                link = self.links[index]
                events = self.fds[index + 1].revents
                if events == 0:
                    continue
                if link.connecting:
                    finish_connecting(link)
                else:
                    if events & POLLOUT:
                        write_some(link)
                    if events & (POLLIN | POLLHUP | POLLERR) and not link.events & IS_FINISHED:
                        read_some(link)
                if link.events & ~HAS_WRITTEN:
                    reportable = 1
            if reportable:
                return 1
            if deadline >= 0 and kclient_now_ns() >= deadline:
                return 0

    cdef void forget(self, Channel channel):
        cdef int index
        for index in range(self.count):
            if self.links[index] == &channel.link:
                self.count -= 1
                self.links[index] = self.links[self.count]
                last = self.channels.pop()
                if last is not channel:
                    self.channels[index] = last
                return

    cdef int grow(self, int room) except -1:
        cdef Link** links = <Link**>realloc(self.links, room * sizeof(Link*))
        cdef pollfd* fds
        if links == NULL:
            raise MemoryError
        self.links = links
        fds = <pollfd*>realloc(self.fds, (room + 1) * sizeof(pollfd))
        if fds == NULL:
            raise MemoryError
        self.fds = fds
        self.room = room
        return 0


cdef void finish_connecting(Link* link) noexcept nogil:
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
