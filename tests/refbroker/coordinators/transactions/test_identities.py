"""Who has a transactional id: new producers, those that come back, and those that have been replaced (KIP-360)."""

from __future__ import annotations

import dataclasses

import pytest

from kclient.errors import (
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTxnTimeoutError,
    ProducerFencedError,
)
from tests.support.transaction_harness import DATA, ID, Identity, TransactionHarness

FENCED = ProducerFencedError.code
LAST_EPOCH = 32766


async def at_epoch(broker: TransactionHarness, epoch: int) -> Identity:
    """Bring a transactional id to an epoch, as its log would have it."""
    who = broker.identity()
    at = dataclasses.replace(broker.state(), producer_epoch=epoch)
    broker.broker.transactions.runtime.write(0, lambda shard: shard.store(at, None))
    return who[0], epoch


async def test_producers_without_a_transactional_id_have_each_their_own(broker2: TransactionHarness) -> None:
    assert [broker2.init(name=None) for _ in range(2)] == [(0, (0, 0)), (0, (1, 0))]
    assert broker2.init((0, 0), name=None) == (0, (2, 0)), "also one that comes back"


async def test_a_transactional_id_has_one_producer_id_and_an_epoch_for_each_start(broker: TransactionHarness) -> None:
    assert [broker.identity() for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert broker.identity("other") == (1, 0)


async def test_a_producer_has_an_id_and_an_epoch_or_neither(broker2: TransactionHarness) -> None:
    for has in ((5, -1), (-1, 5)):
        for name in (ID, None):
            assert broker2.init(has, name=name) == (InvalidRequestError.code, (-1, -1))


@pytest.mark.parametrize(
    ("timeout_ms", "allowed"), [(0, False), (-1, False), (1, True), (900_000, True), (900_001, False)]
)
async def test_a_transaction_may_be_open_for_so_long(
    broker2: TransactionHarness, timeout_ms: int, allowed: bool
) -> None:
    expected = 0 if allowed else InvalidTxnTimeoutError.code
    assert broker2.init(timeout_ms=timeout_ms)[0] == expected
    assert (ID in broker2.shard.transactions) is allowed


async def test_a_new_producer_says_its_own_timeout(broker: TransactionHarness) -> None:
    broker.identity(timeout_ms=1000)
    broker.identity(timeout_ms=2000)
    assert broker.state().timeout_ms == 2000


# A producer that comes back with what it has


async def test_a_returning_producer_gets_the_next_epoch_and_a_repeated_request_the_same(
    broker: TransactionHarness,
) -> None:
    who = broker.identity()
    assert broker.init(who) == broker.init(who) == (0, (0, 1))
    assert broker.init((0, 1)) == (0, (0, 2))
    assert broker.init(who)[0] == FENCED


async def test_a_new_producer_fences_the_one_that_comes_back(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.init(who)
    broker.identity()
    assert [broker.init((0, epoch))[0] for epoch in (0, 1, 3)] == [FENCED] * 3


async def test_a_repeated_request_is_not_known_after_a_restart(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.init(who)
    await broker.restarted(clean=False)
    assert broker.init(who)[0] == FENCED, "as in Kafka, whose records do not have the epoch before either"


async def test_a_producer_that_is_no_longer_known_starts_again(broker: TransactionHarness) -> None:
    error, (_, epoch) = broker.init((77, 3))
    assert (error, epoch) == (0, 0)


# The last epoch


@pytest.mark.parametrize("epoch", [LAST_EPOCH, LAST_EPOCH + 1])
async def test_after_the_last_epoch_comes_another_producer_id(broker: TransactionHarness, epoch: int) -> None:
    await at_epoch(broker, epoch)
    assert broker.init() == (0, (1, 0))
    assert broker.state().previous_producer_id == 0


async def test_a_producer_at_its_last_epoch_comes_back_and_its_repeated_request_is_known(
    broker: TransactionHarness,
) -> None:
    who = await at_epoch(broker, LAST_EPOCH)
    assert broker.init(who) == broker.init(who) == (0, (1, 0))
    broker.identity()
    assert broker.init(who)[0] == FENCED


async def test_a_repeated_request_for_the_last_epoch_is_known(broker: TransactionHarness) -> None:
    who = await at_epoch(broker, LAST_EPOCH - 1)
    assert broker.init(who) == broker.init(who) == (0, (who[0], LAST_EPOCH))
    assert broker.init((who[0], LAST_EPOCH - 2))[0] == FENCED


async def test_a_transaction_of_the_last_epoch_ends_with_another_producer_id(broker2: TransactionHarness) -> None:
    who = await at_epoch(broker2, LAST_EPOCH)
    broker2.begin(who)
    assert broker2.end(who, commit=True) == broker2.end(who, commit=True) == (0, (1, 0))
    values = [value for _, value in broker2.records() if value is not None][-2:]
    assert [(value.producer_id, value.producer_epoch, value.next_producer_id) for value in values] == [
        (0, 32767, 1),
        (1, 0, -1),
    ]
    assert broker2.markers() == [(True, 32767)]
    broker2.begin((1, 0))


async def test_the_next_producer_id_of_a_prepared_transaction_outlives_a_crash(broker2: TransactionHarness) -> None:
    who = await at_epoch(broker2, LAST_EPOCH)
    broker2.begin(who)
    broker2.hold_markers()
    assert broker2.end(who, commit=True) == (0, (1, 0))
    await broker2.restarted(clean=False)
    broker2.release_markers()
    await broker2.pass_time(100)
    state = broker2.state()
    assert (state.state.title, state.producer_id, state.producer_epoch) == ("CompleteCommit", 1, 0)
    assert broker2.end(who, commit=True) == (0, (1, 0))


async def test_a_version_1_producer_stays_at_its_last_epoch_until_it_starts_again(broker1: TransactionHarness) -> None:
    who = await at_epoch(broker1, LAST_EPOCH)
    broker1.begin(who)
    assert broker1.end(who, commit=True)[0] == 0
    assert broker1.state().producer_epoch == LAST_EPOCH
    broker1.begin(who)
    assert broker1.init()[0] == ConcurrentTransactionsError.code
    assert broker1.state().producer_epoch == LAST_EPOCH + 1, "so that it is fenced"
    assert broker1.init() == (0, (1, 0))


# An open transaction of the producer before


async def test_an_open_transaction_is_aborted_and_its_producer_fenced(broker: TransactionHarness) -> None:
    zombie = broker.identity()
    broker.begin(zombie)
    assert broker.write(zombie, b"a") == 0
    assert broker.init() == (ConcurrentTransactionsError.code, (-1, -1))
    assert (broker.state().state.title, broker.markers()) == ("CompleteAbort", [(False, 1)])
    assert broker.init() == (0, (0, 2)), "what the abort took was never given to anybody"
    assert broker.write(zombie, b"b", 1) == 47
    assert broker.end(zombie, commit=True)[0] in (FENCED, 48)
    assert broker.state().state.title == "Empty"


async def test_a_producer_aborts_its_own_transaction_when_it_comes_back(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    assert broker.init(who)[0] == ConcurrentTransactionsError.code
    # In version 2 every end gives the next epoch to the producer that has the one before, as Kafka does it.
    assert broker.init(who) == ((0, (0, 1)) if broker.version == 2 else (FENCED, (-1, -1)))
    assert broker.markers() == [(False, 1)]


async def test_while_markers_wait_nobody_gets_the_transactional_id(broker: TransactionHarness) -> None:
    broker.begin(broker.identity(), [(DATA, 0)])
    broker.hold_markers()
    assert [broker.init()[0] for _ in range(3)] == [ConcurrentTransactionsError.code] * 3
    assert (broker.state().state.title, broker.state().producer_epoch) == ("PrepareAbort", 1)
    broker.release_markers()
    await broker.pass_time(100)
    assert broker.init() == (0, (0, 2))
