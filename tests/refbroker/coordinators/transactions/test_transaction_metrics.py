"""Transactional ids by state, and open transactions by age, as they are counted."""

from __future__ import annotations

from refbroker.metrics.exposition import as_dict
from refbroker.metrics.samples import Samples
from refbroker.server.metrics import transactions
from tests.support.transaction_harness import TransactionHarness


async def test_ids_are_counted_by_state_and_open_transactions_by_age(broker: TransactionHarness) -> None:
    broker.identity("idle")
    for name, age_ms in (("old", 59_000), ("young", 1_000)):
        broker.begin(broker.identity(name), name=name)
        broker.clock.step(age_ms)
    who = broker.identity("prepared")
    broker.begin(who, name="prepared")
    broker.hold_markers()
    broker.end(who, commit=True, name="prepared")
    samples = Samples()
    transactions.collect(broker.broker.transactions, broker.clock(), samples)
    found = as_dict(samples)

    assert found["refbroker_transactional_ids"] == {
        "Empty": 1,
        "Ongoing": 2,
        "PrepareCommit": 1,
        "PrepareAbort": 0,
        "CompleteCommit": 0,
        "CompleteAbort": 0,
    }
    assert found["refbroker_open_transactions"] == {"0": 3, "1000": 2, "10000": 1, "60000": 1, "300000": 0, "900000": 0}
