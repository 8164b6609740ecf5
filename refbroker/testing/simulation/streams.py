"""A connection of the simulated network as asyncio sees it: a transport with flow control for a protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from refbroker.testing.simulation.network import Endpoint

READ_SIZE = 262_144
"""Bytes that a plain protocol is given at once, at most."""


class StreamTransport(asyncio.Transport):
    """The transport of one end of a connection.

    Parameters:
        loop: the event loop of this end.
        endpoint: connected already.
        protocol: plain or buffered.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": endpoint.peer, "sockname": endpoint.address})
        self._loop = loop
        self._endpoint = endpoint
        self._protocol: Any = protocol
        self._unsent = bytearray()
        self._high = 65536
        self._low = 16384
        self._writing_paused = False
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._pump_is_due = False
        loop.call_soon(protocol.connection_made, self)
        endpoint.on_change = self._wake
        self._wake()

    # Reading

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._wake()

    # Writing

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        self._unsent += data
        self._flush()
        self._check_pause()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65536 if high is None else high
        self._low = self._high // 4 if low is None else low

    # The end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self._lose(None)

    def abort(self) -> None:
        self._is_closing = True
        self._unsent.clear()
        self._endpoint.abort()
        self._lose(None)

    # What happens

    def _wake(self) -> None:
        """Look at the connection in the next iteration of the loop, as a selector would make it do."""
        if not self._pump_is_due and not self._is_lost and not self._loop.is_closed():
            self._pump_is_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_is_due = False
        if self._is_lost:
            return
        if self._unsent:
            self._flush()
            if not self._unsent and self._is_closing:
                self._lose(None)
                return
            self._check_pause()
        if self._is_reading and not self._is_closing and self._endpoint.is_readable:
            self._read()

    def _read(self) -> None:
        protocol = self._protocol
        try:
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer: Any = protocol.get_buffer(-1)
                data = self._endpoint.receive(len(buffer))
                buffer[: len(data)] = data
            else:
                data = self._endpoint.receive(READ_SIZE)
        except OSError as error:
            self._fail(error)
            return
        if not data:
            if not protocol.eof_received():
                self.close()
            return
        if isinstance(protocol, asyncio.BufferedProtocol):
            protocol.buffer_updated(len(data))
        else:
            protocol.data_received(data)
        if self._endpoint.is_readable and self._is_reading:
            self._wake()

    def _flush(self) -> None:
        try:
            while self._unsent:
                with memoryview(self._unsent) as unsent:
                    sent = self._endpoint.send(unsent)
                del self._unsent[:sent]
                if self._unsent and self._endpoint.is_writable:
                    self._wake()
                    return
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)

    def _check_pause(self) -> None:
        size = len(self._unsent)
        if size > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif size <= self._low and self._writing_paused:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _fail(self, error: OSError) -> None:
        self._is_closing = True
        self._unsent.clear()
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._endpoint.close()
            self._loop.call_soon(self._protocol.connection_lost, error)
