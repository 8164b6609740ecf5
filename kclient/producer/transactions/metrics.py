"""The number and duration of transactional calls, with Kafka's names.

Each call has a counter in nanoseconds, such as `txn_commit_time_ns_total`, and a histogram in milliseconds, such as
`txn_commit_time`, whose `_count` is the number of calls. Recorded by the calling thread; a call that failed or timed
out does not count.
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


class TransactionMetrics:
    """The metrics of a producer's transactional calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def record(self, call: TransactionCall, seconds: float) -> None:
        """Record a call that succeeded after this many seconds."""
        name = NAMES[call]
        self._metrics.counter(f"{name}_ns_total").add(round(seconds * 1e9))
        self._metrics.histogram(name).record(seconds * 1e3)
