# cython: language_level=3
"""Sockets that wait, read whole frames and write whole requests: the compiled twin of `io`.

The network thread gives the GIL away once per turn: `Poller.wait` waits, reads and writes without it until a whole
frame is there (or another event that Python must handle), raises the hand-over flag and comes back. Small writes
keep the GIL, since taking it again can cost far more than they do; large ones give it away.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from kclient.net._link cimport (
    HAS_BAD_FRAME, HAS_CONNECTED, HAS_FAILED, HAS_FRAME, HAS_SENT, HAS_WRITTEN, IS_FINISHED, POLLERR, POLLHUP, POLLIN,
    POLLOUT, RAW_BYTES, STAGED_BYTES, Link, examine, finish_connecting, frame_size, has_unsent, kclient_poll, pollfd, read,
    read_some, write, write_some,
)
from kclient.records._handover cimport kclient_now_ns, lower_flag, raise_flag

from kclient.security._tls_stream cimport TLS_FAILED, TlsStream

import os
import socket

from kclient.net.events import BadFrame, PeerClosed

# The kinds of events, as in events.py.
cdef enum:
    CONNECTED = 0
    FRAME = 1
    SENT = 2
    CLOSED = 3
    BYTES = 6

cdef enum:
    KEEP_GIL_BELOW = 65536  # bytes of a write


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
    cdef TlsStream stream
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
        free(self.link.received)

    @property
    def frame_limit(self):
        return self.link.limit

    @frame_limit.setter
    def frame_limit(self, long long value):
        self.link.limit = value

    def send(self, parts, bint notify=False):
        cdef Link* link = &self.link
        cdef Py_ssize_t size = 0
        cdef bint busy = has_unsent(link)
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
        if has_unsent(link):
            link.notify |= notify
            return False
        self.release_parts()
        return not link.events & IS_FINISHED

    def secure(self, stream):
        cdef Link* link = &self.link
        cdef char* staged
        if not isinstance(stream, TlsStream) or self.closed or link.events & IS_FINISHED:
            return False
        if has_unsent(link) or link.start != link.end:
            return False
        staged = <char*>malloc(STAGED_BYTES)
        if staged == NULL:
            raise MemoryError
        self.stream = stream
        link.tls = &self.stream.core
        link.received, link.staged = link.staged, staged
        link.room = STAGED_BYTES
        link.raw = 0
        # What follows the handshake may have been received with it.
        link.unread = 1
        write_some(link)
        return True

    def close(self):
        if not self.closed:
            if self.stream is not None and not self.link.events & IS_FINISHED and not has_unsent(&self.link):
                self.stream.shut_down()
                write_some(&self.link)
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
        if self.stream is not None and self.stream.core.state == TLS_FAILED:
            return self.stream.failure()
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
                if link.unread:
                    advance(link, POLLIN)
                    if link.events & ~HAS_WRITTEN:
                        reportable = 1
                # A frame that was not reported yet is not read over, and other connections get their turn.
                events = 0 if link.connecting or link.events & HAS_FRAME else POLLIN
                if link.connecting or has_unsent(link):
                    events |= POLLOUT
                self.fds[index + 1].fd = link.fd
                self.fds[index + 1].events = events
            if reportable:
                left = 0
            elif deadline >= 0:
                left = deadline - kclient_now_ns()
                if left < 0:
                    left = 0
            ready = kclient_poll(self.fds, self.count + 1, left)
            if ready < 0:
                if errno == EINTR:
                    continue
                return -errno
            if ready == 0:
                return reportable
            if self.fds[0].revents:
                while read(self.drain_fd, drained, 64) == 64:
                    pass
                reportable = 1
            for index in range(self.count):
                link = self.links[index]
                events = self.fds[index + 1].revents
                if events == 0:
                    continue
                advance(link, events)
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


cdef void advance(Link* link, short ready) noexcept nogil:
    """Do what is possible for one connection."""
    if link.connecting:
        finish_connecting(link)
        return
    if ready & POLLOUT:
        write_some(link)
    if ready & (POLLIN | POLLHUP | POLLERR) and not link.events & (IS_FINISHED | HAS_FRAME):
        read_some(link)
        if link.tls != NULL and link.tls.start < link.tls.end:
            # Reading answers some messages of TLS itself, and tells the peer what is wrong.
            write_some(link)
