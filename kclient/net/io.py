"""Non-blocking sockets that read whole frames and write whole requests: the pure twin of `_io.pyx`.

A `Poller` watches `Channel`s (connected TCP sockets) and reports the events of `events`. The compiled twin does the
same without the GIL and passes the GIL to and from the application's threads (see `kclient.records._handover`). This
one is the reference, and is used where nothing could be compiled.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from kclient.net.events import BYTES, CLOSED, CONNECTED, FRAME, SENT, BadFrame, Event, Handler, PeerClosed
from kclient.net.frame_buffer import FrameBuffer

_PARTS_AT_ONCE = 64
_RAW_BYTES = 262_144
"""Bytes to read at a time from a channel that does not split them into frames."""


class Channel:
    """One connection: frames in, parts of frames out. Made by `Poller.register`.

    Attributes:
        frame_limit: the largest acceptable frame; a larger one ends the connection with BadFrame.
    """

    def __init__(self, poller: Poller, sock: socket.socket, handler: Handler, raw: bool = False) -> None:
        self.handler = handler
        self._raw = raw
        self.frame_limit = 0x7FFFFFFF
        self.closed = False
        self._poller = poller
        self._socket = sock
        self._connecting = True
        self._failed = False
        self._frames = FrameBuffer()
        self._unsent: deque[memoryview] = deque()
        self._notify = False
        self._interest = 0

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        """Send bytes-like objects in order; what the system does not accept at once is sent during `Poller.wait`.

        Parameters:
            notify: report SENT when everything was sent, unless that happens at once.

        Returns:
            Whether everything went to the system. After an error it did not, and CLOSED follows.
        """
        if self.closed or self._failed:
            return False
        self._unsent.extend(view for part in parts if (view := memoryview(part).cast("B")))
        if len(self._unsent) == len(parts) or not self._interest & selectors.EVENT_WRITE:
            try:
                self._write()
            except OSError as error:
                self._fail(error, self._poller._late_events)
                return False
        self._notify = bool(self._unsent) and (notify or self._notify)
        self._watch()
        return not self._unsent

    def close(self) -> None:
        """Close the socket; no event follows, except those that the last `wait` returned."""
        if not self.closed:
            self.closed = True
            self._set_interest(0)
            self._poller._channels.discard(self)
            self._socket.close()
            self._unsent.clear()

    def _write(self) -> None:
        while self._unsent:
            some = [self._unsent[index] for index in range(min(len(self._unsent), _PARTS_AT_ONCE))]
            try:
                sent = self._socket.sendmsg(some)
            except BlockingIOError:
                return
            while sent:
                part = self._unsent[0]
                if sent < len(part):
                    self._unsent[0] = part[sent:]
                    return
                sent -= len(part)
                self._unsent.popleft()

    def _read(self, events: list[Event]) -> None:
        """Read the available bytes, at most up to the end of a large frame."""
        if self._raw:
            self._read_raw(events)
            return
        while True:
            try:
                count = self._socket.recv_into(self._frames.rest)
            except BlockingIOError:
                return
            if count == 0:
                self._end(PeerClosed(self._frames.start), events)
                return
            found = self._frames.add(count, self.frame_limit)
            if isinstance(found, BadFrame):
                self._end(self._described(found), events)
                return
            if found is not None:
                events.append((self.handler, FRAME, found))
                return

    def _described(self, found: BadFrame) -> BadFrame:
        """Return the error with more of the bytes that the peer has sent, which may identify it."""
        try:
            more = self._socket.recv(60)
        except OSError:
            return found
        return BadFrame(found.size, found.head + more)

    def _read_raw(self, events: list[Event]) -> None:
        try:
            received = self._socket.recv(_RAW_BYTES)
        except BlockingIOError:
            return
        if received:
            events.append((self.handler, BYTES, received))
        else:
            self._end(PeerClosed(), events)

    def _fail(self, error: OSError, events: list[Event]) -> None:
        """End the connection because of an error while writing."""
        try:
            # A peer that refuses this one says why before it closes the connection.
            while self._raw and (received := self._socket.recv(_RAW_BYTES)):
                events.append((self.handler, BYTES, received))
        except OSError:
            pass
        self._end(error, events)

    def _ready(self, mask: int, events: list[Event]) -> None:
        try:
            if self._connecting:
                self._finish_connecting(events)
                return
            if mask & selectors.EVENT_WRITE:
                try:
                    self._write()
                except OSError as error:
                    self._fail(error, events)
                    return
                if not self._unsent and self._notify:
                    self._notify = False
                    events.append((self.handler, SENT, None))
            if mask & selectors.EVENT_READ:
                self._read(events)
            self._watch()
        except OSError as error:
            self._end(error, events)

    def _finish_connecting(self, events: list[Event]) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._end(_os_error(code), events)
            return
        self._connecting = False
        events.append((self.handler, CONNECTED, None))
        self._watch()

    def _end(self, reason: Exception, events: list[Event]) -> None:
        self._failed = True
        self._set_interest(0)
        events.append((self.handler, CLOSED, reason))

    def _watch(self) -> None:
        if not self._failed and not self.closed:
            writing = selectors.EVENT_WRITE if self._unsent or self._connecting else 0
            self._set_interest(writing if self._connecting else writing | selectors.EVENT_READ)

    def _set_interest(self, interest: int) -> None:
        if interest == self._interest:
            return
        selector = self._poller._selector
        if not self._interest:
            selector.register(self._socket, interest, self)
        elif not interest:
            selector.unregister(self._socket)
        else:
            selector.modify(self._socket, interest, self)
        self._interest = interest


class Poller:
    """A watcher of channels, which other threads can `wake`.

    Parameters:
        selector: what to wait with; by default the system's, which `wake` interrupts. That of a simulation never waits.
    """

    def __init__(self, selector: Any = None) -> None:
        self.gil_waits = 0
        """How often the network thread returned from a system call and waited for the GIL; 0 in this twin."""
        self.gil_wait_seconds = 0.0
        self.gil_wait_max = 0.0
        self._selector = selector or selectors.DefaultSelector()
        self._channels: set[Channel] = set()
        self._late_events: list[Event] = []
        self._waker: tuple[socket.socket, socket.socket] | None = None
        if selector is None:
            reader, writer = self._waker = socket.socketpair()
            reader.setblocking(False)
            writer.setblocking(False)
            self._selector.register(reader, selectors.EVENT_READ, None)

    def register(self, sock: socket.socket, handler: Handler, raw: bool = False) -> Channel:
        """Watch a non-blocking socket whose `connect` was called; CONNECTED or CLOSED follows.

        Parameters:
            raw: report BYTES as they arrive instead of frames.
        """
        channel = Channel(self, sock, handler, raw)
        self._channels.add(channel)
        channel._watch()
        return channel

    def wait(self, timeout: float) -> list[Event]:
        """Wait for events.

        Parameters:
            timeout: seconds; with infinity only events or `wake` end the wait.

        Returns:
            The events; none after `wake` or the timeout.
        """
        events = self._late_events
        self._late_events = []
        deadline = time.monotonic() + timeout
        while True:
            left = 0.0 if events else deadline - time.monotonic()
            ready = self._selector.select(None if left == float("inf") else max(0.0, left))
            woken = not ready
            for key, mask in ready:
                if key.data is None:
                    woken = True
                    self._drain(key.fileobj)
                else:
                    key.data._ready(mask, events)
            if events or woken:
                return events

    def wake(self) -> None:
        """Make `wait` return. Any thread."""
        if self._waker is not None:
            try:
                self._waker[1].send(b"\0")
            except OSError:
                return  # the pipe is full, which wakes in any case, or the poller is closed

    def close(self) -> None:
        """Close all channels. `wake` stays harmless."""
        for channel in list(self._channels):
            channel.close()
        self._selector.close()
        for sock in self._waker or ():
            sock.close()

    def _drain(self, reader: Any) -> None:
        try:
            while reader.recv(64):
                pass
        except BlockingIOError:
            return


def _os_error(code: int) -> OSError:
    import os

    return OSError(code, os.strerror(code))
