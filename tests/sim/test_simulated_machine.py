"""A whole broker and clients of it on one simulated machine: a seed repeats the run, and a wait without end fails."""

from __future__ import annotations

import time

import pytest

from kclient.admin import Admin, NewTopic
from kclient.consumer import Consumer
from kclient.errors import KafkaTimeoutError
from refbroker.testing import RefBroker
from refbroker.testing.simulation.scheduler import DeadlockError
from tests.support.simulation.machine import simulated_machine


def seconds_to_list_topics(seed: int) -> float:
    """Simulated seconds from the start of a broker to its end, with an admin client in between."""
    with simulated_machine(seed) as simulation, RefBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 3)])
            assert list(admin.list_topics()) == ["t"]
        return simulation.now


def test_a_seed_repeats_a_run_of_a_broker_and_a_client_exactly() -> None:
    assert seconds_to_list_topics(5) == seconds_to_list_topics(5) != seconds_to_list_topics(6)


def test_an_hour_of_waiting_takes_no_time() -> None:
    began = time.monotonic()
    with simulated_machine(1) as simulation, Consumer("t", bootstrap_servers="nobody:1") as consumer:
        with pytest.raises(KafkaTimeoutError):
            consumer.list_topics(1200.0)
        assert simulation.now > 2000.0
    assert time.monotonic() - began < 60


def test_a_wait_that_cannot_end_names_client_and_broker() -> None:
    with (
        simulated_machine(1),
        RefBroker() as broker,
        Consumer("t", bootstrap_servers=broker.bootstrap_servers) as consumer,
        pytest.raises(
            DeadlockError, match=r"(?s)deadlock in simulation.*broker 1: \d+ tasks.*kclient-network: next turn"
        ),
    ):
        next(iter(consumer))
