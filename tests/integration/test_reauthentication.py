"""Clients in sessions that end: they log in again on the same connection, and nobody notices (KIP-368)."""

from __future__ import annotations

from typing import Any

import pytest

from kclient import Consumer, Producer
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.sessions import check_connections

pytestmark = pytest.mark.refbroker_only

SESSION_MS = 1300
"""A little longer than the second within which a client may not log in again."""
SESSIONS = 3


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_works_beyond_its_session_on_the_same_connections(mechanism: str) -> None:
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    with RefBroker(sasl={"alice": "wonder"}, settings=settings) as broker:
        options: dict[str, Any] = {**broker.client_options, "sasl_mechanism": mechanism}
        with (
            Producer(**options) as producer,
            Consumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer,
        ):
            sent = received = 0
            end = clock.monotonic() + SESSIONS * SESSION_MS / 1000
            while clock.monotonic() < end:
                producer.send("t", b"v").result(ANSWER)
                sent += 1
                received += len(consumer.poll(ANSWER))
            while received < sent:
                received += len(consumer.poll(ANSWER))
            assert received == sent
            # One to bootstrap, one for the broker, and for the consumer one for its coordinator.
            for client, most in ((producer, 2), (consumer, 3)):
                check_connections(client, most)
