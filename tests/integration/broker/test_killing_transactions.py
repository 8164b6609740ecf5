"""kill -9 of `refbroker run` between the requests of transactional producers: it knows afterwards what it knew before.

KCLIENT_KILLS says how often.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.killing import KILLS, TIMEOUT
from tests.support.transaction_driver import Driver
from tests.support.wire import Wire

pytestmark = pytest.mark.not_simulated("kills processes")

SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "1"}


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
def test_the_transaction_state_of_a_broker_survives_kills(tmp_path: Path, rng: random.Random) -> None:
    driver, before = Driver(rng), None
    for number in range(KILLS):
        broker = BrokerProcess(tmp_path / "data", settings=SETTINGS)
        with broker, Wire(broker.bootstrap_servers) as driver.wire:
            if not number:
                driver.begin()
            else:
                assert driver.picture() == before
                driver.repeat()
            for _ in range(rng.randrange(200)):
                driver.step()
            before = driver.picture()
            broker.stop(kill=True)
