"""The metrics of transactions: transactional ids by state, and how long transactions have been open."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from refbroker.coordinators.transactions.states import TransactionState
from refbroker.metrics import table
from refbroker.metrics.samples import Samples

if TYPE_CHECKING:
    from refbroker.coordinators.transactions.coordinator import TransactionCoordinator

AGES_MS = (0, 1_000, 10_000, 60_000, 300_000, 900_000)
"""Up to the longest transaction that `transaction.max.timeout.ms` allows by default."""


def collect(coordinator: TransactionCoordinator, now_ms: int, samples: Samples) -> None:
    """Add the metrics of transactions, without those in partitions that are being loaded."""
    shards = coordinator.runtime.shards(complete=False)
    known = [metadata for shard in shards for metadata in shard.transactions.values()]
    states = Counter(metadata.state for metadata in known)
    for state in TransactionState:
        if state.is_stored:
            samples.add(table.TRANSACTIONAL_IDS, states[state], state.title)
    ages = [now_ms - metadata.start_timestamp_ms for metadata in known if metadata.state.is_open]
    for least_ms in AGES_MS:
        samples.add(table.OPEN_TRANSACTIONS, sum(age >= least_ms for age in ages), str(least_ms))
