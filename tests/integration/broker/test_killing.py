"""kill -9 of `refbroker run` under load, with a flush for every batch: nothing acknowledged is lost, moved or doubled.

KCLIENT_KILLS says how often; a hundred take some minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kclient import Producer
from tests.support.killing import KILLS, TIMEOUT, Load, kclient_load, kill_under_load

pytestmark = pytest.mark.not_simulated("kills processes")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
def test_an_idempotent_producer_survives_kills_of_the_broker(tmp_path: Path, rng: random.Random) -> None:
    producers: list[Producer] = []

    def make(servers: str) -> tuple[Load, Callable[[], object]]:
        producers.append(Producer(bootstrap_servers=servers, linger_ms=0, batch_size=20000))
        return kclient_load(producers[0]), lambda: None

    try:
        assert kill_under_load(tmp_path / "data", rng, KILLS, make) > 0
    finally:
        for producer in producers:
            producer.close(10)
