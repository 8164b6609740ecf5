"""kill -9 of `refbroker run` under load of confluent-kafka, with a flush for every batch.

Nothing that was acknowledged is lost, moved or doubled.

KCLIENT_KILLS says how often; a hundred take some minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.killing import KILLS, TIMEOUT, Load, Note, kill_under_load


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
