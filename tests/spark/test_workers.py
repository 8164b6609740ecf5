"""What Spark's Python workers are spared (`kclient.spark.workers`), without Spark."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kclient.spark import workers
from kclient.spark.workers import AcknowledgesArrival, acknowledge, freeze_modules


class Thing(AcknowledgesArrival):
    def __init__(self) -> None:
        self.one = 1


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
    with there, here:
        yield here, there


@pytest.fixture
def _worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "is_worker", lambda: True)
    monkeypatch.setattr(workers, "_connections", None)
    monkeypatch.setattr(workers, "_modules", 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be made to acknowledge")
@pytest.mark.usefixtures("_worker")
def test_each_arrival_sets_the_option_that_acknowledges_at_once(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = pair
    options: list[tuple[int, ...]] = []
    setsockopt = socket.socket.setsockopt

    def recorded(connection: socket.socket, level: int, option: int, value: int) -> None:
        setsockopt(connection, level, option, value)
        options.append((connection.fileno(), level, option, value))

    monkeypatch.setattr(socket.socket, "setsockopt", recorded)
    arriving = pickle.dumps(Thing())
    # Linux clears the option by itself, so each arrival sets it again.
    for number in range(1, 4):
        pickle.loads(arriving)
        assert options.count((here.fileno(), socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)) == number


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be made to acknowledge")
@pytest.mark.usefixtures("_worker")
def test_other_files_are_left_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    read, write = os.pipe()
    acknowledge()
    assert workers._connections is not None
    assert {here.fileno(), there.fileno()} <= set(workers._connections)
    assert not {read, write} & set(workers._connections)
    os.write(write, b"open")
    assert os.read(read, 4) == b"open"
    os.close(read)
    os.close(write)


def test_a_process_that_is_no_worker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_connections", None)
    monkeypatch.setattr(workers, "_modules", 0)
    frozen = gc.get_freeze_count()
    freeze_modules()
    assert gc.get_freeze_count() == frozen
    assert pickle.loads(pickle.dumps(Thing())).one == 1
    assert not workers._connections


def test_a_worker_freezes_what_it_has_after_each_import(tmp_path: os.PathLike[str]) -> None:
    folder = os.path.join(tmp_path, "pyspark")
    os.mkdir(folder)
    # Without this PySpark itself would go first, where it is installed.
    with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8"):
        pass
    with open(os.path.join(folder, "daemon.py"), "w", encoding="utf-8") as program:
        program.write(
            "import gc\n"
            "from kclient.spark.workers import freeze_modules\n"
            "freeze_modules()\n"
            "print(gc.get_freeze_count())\n"
            "kept = [[] for _ in range(1000)]\n"
            "freeze_modules()\n"
            "print(gc.get_freeze_count())\n"
            "import colorsys\n"
            "freeze_modules()\n"
            "print(gc.get_freeze_count())\n"
        )
    path = os.pathsep.join([os.fspath(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.daemon"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    first, same, more = map(int, done.stdout.split())
    assert first > 1000
    assert same == first
    assert more > first + 1000
