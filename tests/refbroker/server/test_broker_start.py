"""What is left of a broker that could not begin to serve: nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from refbroker.broker import Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files
from refbroker.server.listening import Accepted, SocketListener, SocketListeners


class FailingListener(SocketListener):
    """A listener that accepts connections, and then fails."""

    def start(self, accept: Callable[[Accepted], None], backlog: int) -> None:
        super().start(accept, backlog)
        raise OSError("no memory for the backlog")


class FailingListeners:
    """TCP with listeners that do not start.

    Attributes:
        port: the port that was taken.
    """

    port = 0

    def bind(self, host: str, port: int, settings: Mapping[str, str]) -> FailingListener:
        listener = SocketListeners().bind(host, port, settings)
        assert isinstance(listener, SocketListener)
        assert listener._socket is not None
        failing = FailingListener(listener._socket)
        self.port = failing.port
        return failing


def config(directory: Path, port: int) -> BrokerConfig:
    return BrokerConfig({"log.dirs": str(directory), "listeners": f"PLAINTEXT://127.0.0.1:{port}"})


async def test_a_start_that_fails_gives_back_port_and_directories(tmp_path: Path) -> None:
    listeners = FailingListeners()
    with pytest.raises(OSError, match="no memory for the backlog"):
        await Broker.start(config(tmp_path, 0), files=Files(durable=False), listeners=listeners)
    async with await Broker.start(config(tmp_path, listeners.port), files=Files(durable=False)) as broker:
        assert broker.port == listeners.port
