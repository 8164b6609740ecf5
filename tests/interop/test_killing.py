"""kill -9 of `refbroker run` under load, with a flush for every batch: nothing acknowledged is lost, moved or doubled.

KCLIENT_KILLS says how often; a hundred take some minutes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kclient import Producer
from tests.interop.killing import Load, Note, kclient_load, kill_under_load

KILLS = int(os.environ.get("KCLIENT_KILLS", "5"))
TIMEOUT = 60 + 15 * KILLS


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


@pytest.mark.interop
@pytest.mark.timeout(TIMEOUT)
def test_confluents_idempotent_producer_survives_kills_of_the_broker(tmp_path: Path, rng: random.Random) -> None:
    confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

    def make(servers: str) -> tuple[Load, Callable[[], object]]:
        producer = confluent.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "batch.size": 20000,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )

        def send(number: int, value: bytes, partition: int, note: Note) -> None:
            def delivered(error: object, message: object) -> None:
                assert error is None, error
                note(number, partition, message.offset())  # type: ignore[attr-defined]

            producer.produce("orders", value, partition=partition, on_delivery=delivered)

        return Load(send), lambda: producer.poll(0.05)

    assert kill_under_load(tmp_path / "data", rng, KILLS, make) > 0
