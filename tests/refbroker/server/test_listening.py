"""The addresses on which a listener accepts connections."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from refbroker.server.listening import SocketListeners
from tests.support.patience import ANSWER

pytestmark = pytest.mark.asyncio


async def peers(*hosts: str) -> list[str]:
    """Connect to a listener without a host by each of these addresses; return the addresses that it sees."""
    found: list[str] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found.append(transport.get_extra_info("peername")[0])
            transport.close()

    with closing(SocketListeners().bind("", 0, {})) as listener:
        await listener.start(Accepted, 5)
        for host in hosts:
            async with asyncio.timeout(ANSWER):
                reader, writer = await asyncio.open_connection(host, listener.port)
                assert await reader.read() == b""
                writer.close()
    return found


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
async def test_a_listener_without_a_host_accepts_both_versions_of_ip() -> None:
    assert await peers("127.0.0.1", "::1") == ["::ffff:127.0.0.1", "::1"]


async def test_a_listener_without_a_host_accepts_ipv4_where_there_is_no_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    assert await peers("127.0.0.1") == ["127.0.0.1"]
