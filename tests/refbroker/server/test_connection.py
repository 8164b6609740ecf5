"""The buffer of a connection, without a socket."""

from __future__ import annotations

import asyncio
import struct
from unittest.mock import Mock

from refbroker.server.connection import Connection

RECORD = 16_384
"""What one record of TLS carries."""


async def test_the_buffer_grows_few_times_for_a_large_request_that_arrives_in_small_parts() -> None:
    size = 16 << 20
    server = Mock(loop=asyncio.get_running_loop())
    server.config.socket_request_max_bytes = 1 << 30
    connection = Connection(server, "SSL")
    lengths = set()
    received = 0
    while received < size:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), RECORD, size - received)
        if not received:
            buffer[:4] = struct.pack(">i", size)
        lengths.add(len(connection._buffer))
        received += count
        connection.buffer_updated(count)
    assert len(lengths) <= 12, sorted(lengths)
