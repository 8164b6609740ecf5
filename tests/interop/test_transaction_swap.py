"""One data directory, opened in turn by refbroker and by Apache Kafka in the middle of transactions: each knows what is
open, what was aborted and what was committed, and the producers continue.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.transaction_driver import Driver
from tests.support.wire import Wire

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}
STEPS = 100


@pytest.mark.usefixtures("needs_kafka")
@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", ["kafka", "refbroker"])
def test_transactions_continue_with_the_other_broker(
    tmp_path: Path, rng: random.Random, first: str, kill: bool
) -> None:
    kafka = KafkaCluster(directory=tmp_path, config=SETTINGS)
    directory = kafka.data_directory()
    directory.parent.mkdir(parents=True)
    address = kafka.address(1)
    port = int(address.rpartition(":")[2])
    driver = Driver(rng, lambda: int(time.time() * 1000))
    before: list[Any] | None = None
    second = {"kafka": "refbroker", "refbroker": "kafka"}[first]

    def use() -> list[Any]:
        with Wire(address) as driver.wire:
            if before is None:
                driver.begin()
            else:
                assert driver.picture() == before
                driver.repeat_last()
            for _ in range(STEPS):
                driver.step()
            return driver.picture()

    with closing(kafka):
        for owner in (first, second, first, second):
            if owner == "refbroker":
                with BrokerProcess(directory, port=port, settings=SETTINGS) as process:
                    before = use()
                    process.stop(kill=kill)
            else:
                kafka.start(1)
                before = use()
                kafka.stop(1, kill=kill)
