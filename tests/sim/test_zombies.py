"""What a producer sent long ago arrives when its transaction is over: the point of version 2 of transactions (KIP-890).

With version 1 one epoch is for many transactions, and nothing tells a commit that comes late from that of the next one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tests.sim.script import Script
from tests.sim.transaction_clients import TransactionalProducer
from tests.support.transaction_harness import DATA

LATE = 5.0
"""Seconds after which it arrives; a request that is repeated has long been answered by then."""


async def commit(script: Script, producer: TransactionalProducer) -> None:
    await script.do(producer.call(producer.transactions.commit))


async def abort(script: Script, producer: TransactionalProducer) -> None:
    await script.do(producer.call(producer.transactions.abort))


async def begin(script: Script, producer: TransactionalProducer, *values: bytes) -> None:
    """Begin a transaction with records, one in each partition in turn, that are written."""
    producer.transactions.begin()
    futures = [producer.send(value, place % 2) for place, value in enumerate(values)]
    assert await script.settled(*futures) == [None] * len(values)


async def commit_that_comes_late(script: Script) -> TransactionalProducer:
    """A producer in its second transaction, when the commit of its first one arrives again."""
    producer = await script.transactional()
    await begin(script, producer, b"a")
    script.lose(EndTxnRequest, late=LATE)
    await commit(script, producer)
    assert script.committed() == [b"a"]
    await begin(script, producer, b"b", b"c")
    await script.pass_time(LATE)
    return producer


async def test_a_late_commit_does_not_commit_the_next_transaction(tmp_path: Path) -> None:
    script = Script(tmp_path / "data", version=2)
    producer = await commit_that_comes_late(script)
    assert script.committed() == [b"a"]
    assert script.broker.open_ids(), "the second transaction continues"
    await abort(script, producer)
    assert script.committed() == [b"a"]
    await begin(script, producer, b"d")
    await commit(script, producer)
    assert script.committed() == [b"a", b"d"]
    assert not script.broker.unstable()
    script.close()


@pytest.mark.parametrize("version", [0, 1])
async def test_before_version_2_a_late_commit_commits_what_nobody_wanted_committed(
    tmp_path: Path, version: int
) -> None:
    """So does Kafka's; the simulation leaves it out for these versions."""
    script = Script(tmp_path / "data", version=version)
    await commit_that_comes_late(script)
    assert sorted(script.committed()) == [b"a", b"b", b"c"]
    assert not script.broker.open_ids()
    script.close()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_late_commit_of_a_producer_that_was_replaced_does_nothing(tmp_path: Path, version: int) -> None:
    script = Script(tmp_path / "data", version=version)
    first = await script.transactional()
    await begin(script, first, b"a")
    script.lose(EndTxnRequest, late=LATE)
    first.transactions.commit()
    first.engine.wakeup()
    await script.pass_time(0.1, until=lambda: not script.losses)
    first.drop()
    second = await script.transactional()
    await begin(script, second, b"b")
    await script.pass_time(LATE)
    assert script.committed() == []
    await commit(script, second)
    assert script.committed() == [b"b"]
    script.close()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_late_record_does_not_open_a_transaction_that_nobody_ends(tmp_path: Path, version: int) -> None:
    script = Script(tmp_path / "data", version=version)
    producer = await script.transactional(delivery_timeout_ms=2_000, request_timeout_ms=1_000)
    await begin(script, producer, b"a")
    # Four times is until it expires.
    for _ in range(30):
        script.lose_value(b"b", late=LATE)
    future = producer.send(b"b", 1)
    assert await script.settled(future) != [None]
    await abort(script, producer)
    script.losses.clear()
    await script.pass_time(2 * LATE)
    assert script.committed() == []
    assert not script.broker.unstable()
    await begin(script, producer, b"c", b"d")
    await commit(script, producer)
    assert sorted(script.committed()) == [b"c", b"d"]
    assert not script.broker.unstable()
    script.close()


async def test_late_offsets_do_not_count_in_the_next_transaction(tmp_path: Path) -> None:
    script = Script(tmp_path / "data", version=2)
    producer = await script.transactional()
    await commit_offset(script, producer, 3, late=LATE)
    await commit_offset(script, producer, 7)
    await begin(script, producer, b"a")
    await script.pass_time(LATE)
    await commit(script, producer)
    assert await script.do(producer.committed("g")) == 7
    script.close()


async def commit_offset(
    script: Script, producer: TransactionalProducer, offset: int, late: float | None = None
) -> None:
    """A transaction with nothing but an offset, which may arrive again."""
    if late is not None:
        script.lose(TxnOffsetCommitRequest, late=late)
    producer.transactions.begin()
    offsets = {TopicPartition(DATA, 0): OffsetAndMetadata(offset)}
    group = ConsumerGroupMetadata("g")
    await script.do(producer.call(lambda: producer.transactions.send_offsets(offsets, group)))
    await commit(script, producer)
