"""The hand-over of the GIL from the compiled hot paths to the network thread, and which twin is chosen."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from kclient import records
from kclient.records import pure
from tests.support.twins import compiled_twin

from .batches import TIMESTAMP

if (twin := compiled_twin()) is None:
    pytest.skip("the compiled twin is not built, or KCLIENT_PURE is set", allow_module_level=True)

compiled: ModuleType = twin
_handover = importlib.import_module("kclient.records._handover")


@pytest.fixture
def raised_flag() -> Iterator[None]:
    _handover.raise_and_lower(True)
    yield
    _handover.raise_and_lower(False)


def times() -> int:
    return int(_handover.statistics()["times_stepped_aside"])


def many_records() -> bytes:
    builder = compiled.BatchBuilder()
    for _ in range(1000):
        builder.append(TIMESTAMP, None, b"x" * 500)
    return bytes(builder.build())


def test_nobody_steps_aside_while_the_flag_is_down() -> None:
    before = times()
    list(compiled.RecordCursor(many_records(), "t", 0, 0).take())
    _handover.step_aside_now()
    assert times() == before


@pytest.mark.usefixtures("raised_flag")
def test_hot_paths_step_aside_once_in_a_while_and_continue() -> None:
    before = times()
    data = many_records()
    after_append = times()
    assert 1 <= after_append - before <= 50
    assert len(list(compiled.RecordCursor(data, "t", 0, 0).take())) == 1000
    assert 1 <= times() - after_append <= 10


def test_another_thread_gets_its_turn_when_it_asks() -> None:
    turns = 0
    stop = threading.Event()

    def network() -> None:
        nonlocal turns
        while not stop.is_set():
            _handover.raise_and_lower(True)
            _handover.raise_and_lower(False)
            turns += 1

    thread = threading.Thread(target=network)
    thread.start()
    chunk = compiled.RecordCursor(many_records(), "t", 0, 0).take()
    while turns < 100:
        for _ in chunk:
            pass
    stop.set()
    thread.join()
    assert _handover.statistics()["network_waits"] == 0


def chosen(**environment: str) -> str:
    command = "import kclient.records as r; print(r.IMPLEMENTATION, r.ConsumerRecord.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[0]


def test_the_environment_can_force_the_pure_twin() -> None:
    assert chosen(KCLIENT_PURE="1") == "pure"
    assert chosen(KCLIENT_PURE="0") == "compiled"


@pytest.mark.parametrize("module", [compiled, pure])
def test_twins_have_the_public_names(module: ModuleType) -> None:
    for name in ("BatchBuilder", "ConsumerRecord", "RecordChunk", "RecordCursor", "chain_iter", "read_batches"):
        assert hasattr(module, name)
        assert hasattr(records, name)
