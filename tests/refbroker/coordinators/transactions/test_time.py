"""Transactions that are open for too long, and transactional ids that nobody uses."""

from __future__ import annotations

import dataclasses

import pytest

from kclient.errors import CoordinatorNotAvailableError
from tests.support.transaction_harness import DATA, ID, TOPIC, TransactionHarness

WEEK_MS = 604_800_000


async def test_a_transaction_is_aborted_when_its_time_is_up(broker: TransactionHarness) -> None:
    who = broker.identity(timeout_ms=1000)
    broker.clock.step(5000)
    broker.begin(who, [(DATA, 0)])
    broker.clock.step(600)
    broker.begin(who, [(DATA, 1)])
    broker.clock.step(400)
    broker.broker.transactions.abort_timed_out()
    assert broker.state().state.title == "Ongoing", "its time counts from its first partition"
    broker.clock.step(1)
    broker.broker.transactions.abort_timed_out()
    assert broker.state().state.title == "CompleteAbort"
    assert broker.markers(0) == broker.markers(1) == [(False, 1)]
    assert broker.add(who) == [90], "the producer is fenced"
    assert broker.end(who, commit=True)[0] in (90, 48)


@pytest.mark.parametrize("reason", ["timeout", "new producer"])
async def test_an_abort_that_fences_records_the_version_of_an_end(broker: TransactionHarness, reason: str) -> None:
    """Kafka records 0 or 2, the way in which its coordinator ends a transaction, and never level 1 of the feature."""
    broker.begin(broker.identity(timeout_ms=1000))
    if reason == "timeout":
        broker.clock.step(1001)
        broker.broker.transactions.abort_timed_out()
    else:
        broker.init()
    assert broker.state().state.title == "CompleteAbort"
    assert broker.state().client_version == (2 if broker.version == 2 else 0)


async def test_only_open_transactions_have_a_time(broker: TransactionHarness) -> None:
    broker.identity(timeout_ms=1000)
    who = broker.identity("committed", timeout_ms=1000)
    broker.begin(who, name="committed")
    broker.hold_markers()
    broker.end(who, commit=True, name="committed")
    before = dict(broker.shard.transactions)
    broker.clock.step(60_000)
    broker.broker.transactions.abort_timed_out()
    assert broker.shard.transactions == before


async def test_a_transaction_that_another_coordinator_ends_has_all_the_time(broker2: TransactionHarness) -> None:
    broker2.begin(broker2.identity())
    endless = dataclasses.replace(broker2.state(), timeout_ms=2**31 - 1)
    broker2.broker.transactions.runtime.write(0, lambda shard: shard.store(endless, None))
    broker2.clock.step(2**32)
    assert broker2.shard.timed_out() == []


async def test_an_abort_that_cannot_be_written_is_tried_again(broker: TransactionHarness) -> None:
    broker.begin(broker.identity(timeout_ms=1000))
    broker.clock.step(1001)
    broker.assign(TOPIC, 7)
    before = broker.state()
    broker.broker.transactions.abort_timed_out()
    assert broker.state() == before
    broker.configure(TOPIC, "1")
    broker.broker.transactions.abort_timed_out()
    assert (broker.state().state.title, broker.state().producer_epoch) == ("CompleteAbort", 1)


async def test_the_time_continues_after_a_restart(broker: TransactionHarness) -> None:
    broker.begin(broker.identity(timeout_ms=1000))
    broker.clock.step(700)
    await broker.restarted(clean=False)
    broker.clock.hold(broker.state().start_timestamp_ms + 1001)
    broker.broker.transactions.abort_timed_out()
    assert broker.state().state.title == "CompleteAbort"


# Expiry


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
async def test_an_id_that_nobody_uses_goes_after_a_week(broker: TransactionHarness, state: str) -> None:
    who = broker.identity()
    if state != "Empty":
        broker.begin(who)
        broker.end(who, commit=state == "CompleteCommit")
    assert broker.state().state.title == state
    broker.clock.step(WEEK_MS - 1)
    broker.broker.transactions.expire()
    assert ID in broker.shard.transactions
    broker.clock.step(1)
    broker.broker.transactions.expire()
    assert broker.shard.transactions == {}
    assert broker.records()[-1] == (ID, None)
    await broker.restarted(clean=False)
    assert broker.shard.transactions == {}
    assert broker.identity() != who, "it begins with another producer id"


async def test_an_open_transaction_keeps_its_id(broker: TransactionHarness) -> None:
    broker.begin(broker.identity())
    broker.clock.step(2 * WEEK_MS)
    broker.broker.transactions.expire()
    assert broker.state().state.title == "Ongoing"


async def test_ids_that_could_not_be_removed_go_the_next_time(broker: TransactionHarness) -> None:
    names = [f"id-{number}" for number in range(30)]
    for name in names:
        broker.identity(name)
    broker.clock.step(WEEK_MS)
    broker.assign(TOPIC, 7)
    broker.broker.transactions.expire()
    assert list(broker.shard.transactions) == names
    assert broker.init()[0] == CoordinatorNotAvailableError.code
    broker.configure(TOPIC, "1")
    broker.broker.transactions.expire()
    assert broker.shard.transactions == {}
