"""Producers that have been idle: when they are forgotten, and that it can be changed while the broker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.protocol.messages.describe_configs import DescribeConfigsRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from refbroker.broker import plan_background
from refbroker.runtime.background import Background
from tests.support.broker_harness import Harness, turns
from tests.support.raw_producer import RawProducer

BROKER, SET = 4, 0
EXPIRATION, INTERVAL = "producer.id.expiration.ms", "producer.id.expiration.check.interval.ms"
MINUTE_MS = 60_000


def remembered(harness: Harness) -> int:
    log = harness.broker.logs.get("t", 0)
    assert log is not None
    return log.number_of_producers


def shown(harness: Harness) -> set[str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    [result] = harness.send(DescribeConfigsRequest(resources=[resource]), 4).results
    return {config.name for config in result.configs}


async def test_an_idle_producer_is_forgotten_after_a_time_that_can_be_changed(harness: Harness) -> None:
    harness.create("t")
    producer = RawProducer(harness.send, None)
    producer.init()
    producer.send("t", timestamp=harness.clock())
    harness.clock.step(MINUTE_MS)
    harness.broker.logs.remove_expired_producers(harness.clock())
    assert remembered(harness) == 1
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=EXPIRATION, config_operation=SET, value=str(MINUTE_MS))
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[config]
    )
    assert harness.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
    harness.broker.logs.remove_expired_producers(harness.clock())
    assert remembered(harness) == 0
    # It is no longer known, and continues where it is.
    assert producer.send("t").error_code == 0


@pytest.mark.parametrize("clean", [True, False])
async def test_who_is_idle_for_too_long_is_not_remembered_by_a_start(harness: Harness, clean: bool) -> None:
    harness.create("t")
    producer = RawProducer(harness.send, None)
    producer.init()
    producer.send("t", timestamp=harness.clock())
    harness.clock.step(24 * 60 * MINUTE_MS)
    harness.restart(clean=clean)
    # After a crash it may have batches on the way, and is forgotten with the next look.
    assert remembered(harness) == (0 if clean else 1)
    harness.broker.logs.remove_expired_producers(harness.clock())
    assert remembered(harness) == 0


async def test_the_interval_of_producer_expiration_is_shown_only_if_it_is_set(tmp_path: Path) -> None:
    plain = Harness(tmp_path / "plain")
    assert INTERVAL not in shown(plain)
    assert EXPIRATION in shown(plain)
    plain.close()
    harness = Harness(
        tmp_path / "set", producer_id_expiration_check_interval_ms="1000", producer_id_expiration_ms="5000"
    )
    assert INTERVAL in shown(harness)
    harness.create("t")
    producer = RawProducer(harness.send, None)
    producer.init()
    producer.send("t", timestamp=harness.clock())
    background = Background(harness.clock)
    plan_background(background, harness.broker)
    background.start()
    for passed_ms, left in ((4_999, 1), (1_000, 0)):
        await turns()
        harness.clock.step(passed_ms)
        await turns()
        assert remembered(harness) == left
    await background.stop()
    harness.close()
