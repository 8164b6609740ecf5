"""How a listener accepts connections: on which addresses, and when."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, closing
from typing import Any

import pytest

from refbroker.server import listening
from refbroker.server.listening import Accepted, SocketListener, SocketListeners
from tests.support.patience import ANSWER
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio


async def peers(*hosts: str) -> list[str]:
    """Connect to a listener without a host by each of these addresses; return the addresses that it sees."""
    found: list[str] = []

    class Closing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found.append(transport.get_extra_info("peername")[0])
            transport.close()

    with closing(SocketListeners().bind("", 0, {})) as listener:
        listener.start(lambda accepted: accepted.serve(Closing()), 5)
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


async def test_a_listener_tries_again_after_the_system_ran_out_of_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.0)
    accepted: list[Accepted] = []
    with closing(SocketListeners().bind("127.0.0.1", 0, {})) as listener:
        assert isinstance(listener, SocketListener)
        full = FullSocket(listener._socket)
        listener._socket = full  # type: ignore[assignment]
        listener.start(accepted.append, 5)
        with socket.create_connection(("127.0.0.1", listener.port)):
            await until(lambda: accepted)
        accepted[0].close()
    assert full.failures == 0
    (record,) = caplog.records
    assert "no connection can be accepted on port" in record.getMessage()


class FullSocket:
    """A listening socket that cannot accept a connection the first time."""

    def __init__(self, listening: socket.socket | None) -> None:
        assert listening is not None
        self._socket = listening
        self.failures = 1

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


async def test_a_listener_that_pauses_accepts_nothing_until_it_resumes() -> None:
    accepted: list[Accepted] = []

    def accept_one(connection: Accepted) -> None:
        accepted.append(connection)
        listener.pause()

    with closing(SocketListeners().bind("127.0.0.1", 0, {})) as listener, ExitStack() as stack:
        listener.start(accept_one, 5)
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        for count in (1, 2, 3):
            await until(lambda count=count: len(accepted) >= count)  # type: ignore[misc]
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(accepted) == count
            listener.resume()
        for connection in accepted:
            connection.close()
