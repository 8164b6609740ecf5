"""What a broker waits for when it stops."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from refbroker import broker
from refbroker.broker import Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files
from refbroker.log.files import OpenFile


class CountingFiles(Files):
    """A disk that counts what is flushed."""

    def __init__(self) -> None:
        super().__init__(durable=False)
        self.flushed = 0

    def fsync(self, file: OpenFile) -> None:
        self.flushed += 1

    def fsync_directory(self, path: Path) -> None:
        self.flushed += 1


def config(directory: Path) -> BrokerConfig:
    return BrokerConfig({"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"})


async def test_an_idle_broker_flushes_few_files_when_it_stops(tmp_path: Path) -> None:
    files = CountingFiles()
    running = await Broker.start(config(tmp_path), files=files)
    files.flushed = 0
    await running.stop()
    assert 0 < files.flushed <= 20


@pytest.mark.parametrize(("limit", "level"), [(-1.0, "WARNING"), (3600.0, "INFO")], ids=["slow", "fast"])
async def test_a_slow_stop_is_a_warning_that_says_what_it_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: float, level: str
) -> None:
    monkeypatch.setattr(broker, "SLOW_STOP_SECONDS", limit)
    running = await Broker.start(config(tmp_path), files=Files(durable=False))
    with caplog.at_level(logging.INFO, "refbroker.broker"):
        await running.stop()
    (record,) = [one for one in caplog.records if "stopping took" in one.getMessage()]
    assert record.levelname == level
    assert record.getMessage().count(" s") >= 4
