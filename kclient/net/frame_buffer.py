"""The bytes of one frame after the other, as they are read from a connection: a size, then as many bytes.

A frame is read into memory of its own, which is allocated once its size is known to be allowed. Elsewhere: reading
(`io`, `tls`); the compiled sockets have a buffer of their own.
"""

from __future__ import annotations

import struct

from kclient.net.events import BadFrame

_SIZE = struct.Struct(">i")


class FrameBuffer:
    """The frame that is being read."""

    def __init__(self) -> None:
        self._head = bytearray(_SIZE.size)
        self._body: bytearray | None = None
        self._target = memoryview(self._head)
        self._filled = 0

    @property
    def rest(self) -> memoryview:
        """Where to read the next bytes; never empty."""
        return self._target[self._filled :]

    @property
    def start(self) -> bytes:
        """The first bytes of an incomplete frame; empty between frames."""
        return bytes(self._head if self._body is not None else self._head[: self._filled])

    def add(self, count: int, limit: int) -> bytearray | BadFrame | None:
        """Record that this many bytes were read into `rest`.

        Parameters:
            limit: the largest size of a frame.

        Returns:
            A complete frame without its size, BadFrame for an impossible size, or None while bytes are missing.
        """
        self._filled += count
        if self._filled < len(self._target):
            return None
        if self._body is None:
            (size,) = _SIZE.unpack(self._head)
            if not 0 <= size <= limit:
                return BadFrame(size, bytes(self._head))
            try:
                self._body = bytearray(size)
            except MemoryError:
                return BadFrame(size, bytes(self._head))
            self._target, self._filled = memoryview(self._body), 0
            if size:
                return None
        body, self._body = self._body, None
        self._target, self._filled = memoryview(self._head), 0
        return body
