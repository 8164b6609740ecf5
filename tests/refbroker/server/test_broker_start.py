"""What is left of a broker that could not begin to serve: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from refbroker.broker import Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files
from refbroker.server.listening import SocketListener, SocketListeners


class StuckListener(SocketListener):
    """A listener that accepts connections, and then fails or waits."""

    failure: OSError | None = None

    async def start(self, make_protocol: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        await super().start(make_protocol, backlog)
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()


class StuckListeners:
    """TCP with listeners that do not start.

    Attributes:
        bound: the port that was taken.
    """

    def __init__(self, failure: OSError | None) -> None:
        self.bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._failure = failure

    def bind(self, host: str, port: int, settings: Mapping[str, str]) -> StuckListener:
        listener = SocketListeners().bind(host, port, settings)
        assert isinstance(listener, SocketListener)
        assert listener._socket is not None
        stuck = StuckListener(listener._socket)
        stuck.failure = self._failure
        self.bound.set_result(stuck.port)
        return stuck


def config(directory: Path, port: int) -> BrokerConfig:
    return BrokerConfig({"log.dirs": str(directory), "listeners": f"PLAINTEXT://127.0.0.1:{port}"})


@pytest.mark.asyncio
@pytest.mark.parametrize("failure", [OSError("no memory for the backlog"), None], ids=["fails", "is cancelled"])
async def test_a_start_that_ends_early_gives_back_port_and_directories(tmp_path: Path, failure: OSError | None) -> None:
    listeners = StuckListeners(failure)
    starting = asyncio.create_task(Broker.start(config(tmp_path, 0), files=Files(durable=False), listeners=listeners))
    port = await listeners.bound
    for _ in range(3):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises((OSError, asyncio.CancelledError)):
        await starting
    async with await Broker.start(config(tmp_path, port), files=Files(durable=False)) as broker:
        assert broker.port == port
