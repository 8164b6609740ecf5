"""A real Apache ZooKeeper on loopback, fetched once through Maven."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kafka.cluster import free_ports
from tests.support.kafka.jars import TOOL_FLAGS, ToolchainMissing, fetched
from tests.support.patience import PROCESS
from tests.support.waiting import wait_until

POM = Path(__file__).with_name("pom.xml")
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MS = 500
"""Sessions last from 2 to 20 of these."""


@functools.cache
def _jars() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return fetched(POM, cache / "zookeeper-3.9.3" / "lib")


@functools.cache
def unavailable_reason() -> str | None:
    """Why ZooKeeper cannot run here, or None when it can; fetches the jars when they are missing."""
    try:
        _jars()
    except ToolchainMissing as error:
        return str(error)
    return None


class ZooKeeperServer:
    """A server as a context manager; its data stays over a restart."""

    def __init__(self, directory: Path) -> None:
        (self._port,) = free_ports(1)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        file = self._directory / "zookeeper.cfg"
        file.write_text(
            f"tickTime={TICK_MS}\ndataDir={self._directory / 'data'}\nclientPort={self._port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        )
        with (self._directory / "out.log").open("ab") as output:
            command = ["java", *TOOL_FLAGS, "-cp", f"{_jars()}/*", MAIN, str(file)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        wait_until(self._answers, PROCESS)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self._directory / "out.log").read_text(errors="replace")[-2000:])
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=PROCESS) as connection:
                connection.sendall(b"srvr")
                return b"Mode: standalone" in connection.recv(4096)
        except OSError:
            return False

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PROCESS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
