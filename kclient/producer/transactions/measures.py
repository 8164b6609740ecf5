"""How often transactional calls succeed and how long they take, under Kafka's names.

Each call has a counter in nanoseconds, as `txn_commit_time_ns_total`, and a histogram in milliseconds, as
`txn_commit_time`, whose `_count` tells how many there were. Recorded by the calling thread; a call that failed or
timed out does not count.
"""

from __future__ import annotations

from kclient.metrics import Metrics
from kclient.producer.transactions.states import TransactionCall

NAMES = {
    TransactionCall.INIT: "txn_init_time",
    TransactionCall.BEGIN: "txn_begin_time",
    TransactionCall.SEND_OFFSETS: "txn_send_offsets_time",
    TransactionCall.PREPARE: "txn_prepare_time",
    TransactionCall.COMMIT: "txn_commit_time",
    TransactionCall.ABORT: "txn_abort_time",
}


class TransactionMeasures:
    """The metrics of a producer's transactional calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def record(self, call: TransactionCall, nanoseconds: int) -> None:
        """A call succeeded after so long."""
        name = NAMES[call]
        self._metrics.counter(f"{name}_ns_total").add(nanoseconds)
        self._metrics.histogram(name).record(nanoseconds / 1e6)
