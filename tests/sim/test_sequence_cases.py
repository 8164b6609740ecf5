"""Batches that are repeated, lost or given up, and logs that forget them: nothing is doubled, and the order is kept.

One producer and one refbroker, with nothing that fails but what a test names. The same for an idempotent producer and
for a transactional one in both versions of transactions, whose transaction is aborted where a record is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.errors import (
    BrokerError,
    DeliveryUnknownError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.produce import ProduceRequest
from refbroker.testing.control.elections import elect
from tests.sim.script import LONG, Script
from tests.sim.transaction_clients import SimulatedProducer, TransactionalProducer
from tests.support.transaction_harness import DATA

DAY_MS = 24 * 60 * 60 * 1000
VALUES = [b"a", b"b", b"c", b"d", b"e"]


class SequenceScenario:
    """A producer, and what it does in the same way whether it is transactional or not."""

    def __init__(self, script: Script, producer: SimulatedProducer) -> None:
        self.script = script
        self.producer = producer
        self.is_transactional = isinstance(producer, TransactionalProducer)

    @property
    def transactions(self) -> Any:
        assert isinstance(self.producer, TransactionalProducer)
        return self.producer.transactions

    def begin(self) -> None:
        if self.is_transactional:
            self.transactions.begin()

    async def end(self) -> None:
        """Commit."""
        if self.is_transactional:
            await self.script.do(self.producer.call(self.transactions.commit))  # type: ignore[attr-defined]

    async def abort(self) -> None:
        await self.script.do(self.producer.call(self.transactions.abort))  # type: ignore[attr-defined]

    async def send(self, *values: bytes, apart: float = 0.0) -> list[Any]:
        """A batch of each value, so many seconds apart."""
        futures = []
        for value in values:
            futures.append(self.producer.send(value, 0))
            self.producer.engine.wakeup()
            await self.script.pass_time(apart or 0.001)
        return futures

    async def write(self, *values: bytes) -> list[int]:
        """Have values written and committed; their offsets."""
        self.begin()
        futures = await self.send(*values)
        assert await self.script.settled(*futures) == [None] * len(values)
        await self.end()
        return [future.result(0).offset for future in futures]


@pytest_asyncio.fixture(params=["idempotent", "version 1", "version 2"])
async def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SequenceScenario]:
    version = 1 if request.param == "version 1" else 2
    script = Script(tmp_path / "data", version=version)
    # One record per batch, even where records wait until the broker has accepted the first batch of the partition.
    options: dict[str, Any] = {
        "linger_ms": 0,
        "batch_size": 1,
        "delivery_timeout_ms": 2_000,
        "request_timeout_ms": 1_000,
    }
    if request.param == "idempotent":
        yield SequenceScenario(script, await script.producer(**options))
    else:
        yield SequenceScenario(script, await script.transactional(**options))
    script.close()


@pytest.mark.parametrize("carried_out", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("lost", VALUES, ids=bytes.decode)
async def test_a_batch_whose_answer_is_lost_is_written_once(
    scenario: SequenceScenario, lost: bytes, carried_out: bool
) -> None:
    scenario.script.lose_value(lost, carried_out=carried_out)
    offsets = await scenario.write(*VALUES)
    assert not scenario.script.losses
    assert scenario.script.stored() == VALUES
    assert offsets == list(range(len(VALUES)))
    assert scenario.script.committed() == VALUES


@pytest.mark.parametrize("times", [1, 3], ids=["once", "three times"])
@pytest.mark.parametrize("error", [NotLeaderOrFollowerError, UnknownTopicOrPartitionError])
async def test_a_partition_that_refuses_its_first_batch_keeps_the_order(
    scenario: SequenceScenario, error: type[BrokerError], times: int
) -> None:
    """A leader may refuse requests while its topic is being created; it accepts any first sequence of a producer id."""
    for _ in range(times):
        scenario.script.refuse_value(b"a", error.code)
    offsets = await scenario.write(*VALUES)
    assert not scenario.script.refusals
    assert scenario.script.stored() == VALUES
    assert offsets == list(range(len(VALUES)))
    assert scenario.script.committed() == VALUES


async def test_a_topic_that_is_created_again_keeps_the_order(scenario: SequenceScenario) -> None:
    script = scenario.script
    await scenario.write(b"x", b"y")
    topic_id = script.create_again()
    metadata = scenario.producer.engine.metadata
    metadata.request_update()
    scenario.producer.engine.wakeup()
    await script.pass_time(LONG, until=lambda: metadata.cluster.topic_id(DATA) == topic_id)
    script.refuse_value(b"a", NotLeaderOrFollowerError.code)
    await scenario.write(*VALUES)
    assert not script.refusals
    assert script.stored() == VALUES


async def test_batches_are_written_once_despite_lost_responses_and_killed_brokers(
    scenario: SequenceScenario,
) -> None:
    for value in VALUES:
        scenario.script.lose_value(value, carried_out=True)
    scenario.begin()
    futures = await scenario.send(*VALUES)
    await scenario.script.broker.restarted(clean=False)
    assert await scenario.script.settled(*futures) == [None] * len(VALUES)
    await scenario.end()
    assert scenario.script.stored() == VALUES


@pytest.mark.parametrize("carried_out", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("new_leader", [False, True], ids=["same leader", "new leader epoch"])
async def test_a_batch_in_the_middle_of_five_expires(
    scenario: SequenceScenario, carried_out: bool, new_leader: bool
) -> None:
    """What comes behind it continues, or with a transaction is aborted; and so does what comes afterwards."""
    script = scenario.script
    # The first time it may be stored; from then on nothing gets through until it has expired.
    script.lose_value(b"c", carried_out=carried_out)
    for _ in range(100):
        script.lose_value(b"c")
    scenario.begin()
    # Later batches have later deadlines.
    futures = await scenario.send(*VALUES, apart=0.3)
    await script.pass_time(10.0, until=futures[2].done)
    script.losses.clear()
    if new_leader:
        elect(script.broker.broker, DATA, 0)
        script.lose(ProduceRequest)
    errors = await script.settled(*futures)
    assert [error is None for error in errors[:3]] == [True, True, False]
    assert isinstance(errors[2], DeliveryUnknownError)
    if scenario.is_transactional:
        assert None not in errors[3:]
        with pytest.raises(KafkaError) as raised:
            await scenario.end()
        assert raised.value.abortable
        await scenario.abort()
        assert script.committed() == []
    else:
        assert errors[3:] == [None, None]
        assert script.stored() == [value for value in VALUES if carried_out or value != b"c"]
    before = script.stored()
    await scenario.write(b"f", b"g")
    assert script.stored() == [*before, b"f", b"g"]
    assert script.committed()[-2:] == [b"f", b"g"]
    assert not script.broker.unstable()


async def test_a_new_leader_epoch_changes_nothing(scenario: SequenceScenario) -> None:
    scenario.begin()
    futures = await scenario.send(b"a", b"b")
    scenario.script.lose_value(b"c", carried_out=True)
    futures += await scenario.send(b"c")
    elect(scenario.script.broker.broker, DATA, 0)
    futures += await scenario.send(b"d", b"e")
    assert await scenario.script.settled(*futures) == [None] * 5
    await scenario.end()
    assert scenario.script.stored() == VALUES


async def test_a_producer_that_the_log_has_forgotten_continues(scenario: SequenceScenario) -> None:
    broker = scenario.script.broker
    await scenario.write(b"a", b"b")
    broker.clock.step(DAY_MS)
    broker.broker.logs.remove_expired_producers(broker.clock())
    assert broker.log(DATA).number_of_producers == 0
    scenario.script.lose_value(b"d", carried_out=True)
    await scenario.write(b"c", b"d", b"e")
    assert scenario.script.stored() == VALUES


@pytest.mark.parametrize("restarts", [False, True], ids=["still known", "after a kill"])
async def test_a_producer_whose_records_were_deleted_continues(scenario: SequenceScenario, restarts: bool) -> None:
    broker = scenario.script.broker
    await scenario.write(b"a", b"b")
    log = broker.log(DATA)
    log.roll()
    log.delete_records(log.high_watermark)
    log.delete_segments(list(log.segments)[:-1], "they lie before the log start")
    if restarts:
        await broker.restarted(clean=False)
    scenario.script.lose_value(b"d", carried_out=True)
    offsets = await scenario.write(b"c", b"d", b"e")
    assert scenario.script.stored() == [b"c", b"d", b"e"]
    assert offsets == list(range(broker.log(DATA).log_start_offset, offsets[-1] + 1))


async def test_records_deleted_in_the_midst_of_a_transaction_do_not_hold_its_end(scenario: SequenceScenario) -> None:
    broker = scenario.script.broker
    scenario.begin()
    assert await scenario.script.settled(*await scenario.send(b"a", b"b")) == [None, None]
    log = broker.log(DATA)
    log.delete_records(min(log.high_watermark, 1))
    assert await scenario.script.settled(*await scenario.send(b"c")) == [None]
    await scenario.end()
    assert not broker.unstable()
    assert scenario.script.committed() == [b"b", b"c"]
