"""Sends the batches that are due.

The sender is a manager: the driver polls it after every event. It takes ready batches from the accumulator's queues,
collates them into one Produce request per broker (a batch per partition in each, up to max_request_size, as many
requests as may be in flight) and has the `exchange` build them. The order within a partition is kept: a batch that must
be retried returns to the front of its queue. In a transaction its manager decides what may be sent. Elsewhere: sequence
numbers (`idempotence`), responses (`exchange`) and their effects (`settlement`). `wiring` makes a sender and the parts
that it works with.
"""

from __future__ import annotations

from kclient.config import ProducerConfig
from kclient.errors import KafkaError
from kclient.net.manager import NEVER, Manager, Nodes, Poll, Request
from kclient.producer.accumulator import Accumulator
from kclient.producer.batch import Queue
from kclient.producer.collator import Collator
from kclient.producer.exchange import ProduceExchange
from kclient.producer.failure import ProducerFailure
from kclient.producer.idempotence import Identity
from kclient.producer.load import PartitionLoad
from kclient.producer.producer_id import ProducerIdRequester
from kclient.producer.settlement import Metadata, Settlement
from kclient.producer.transactions import TransactionManager
from kclient.producer.unsettled import UnsettledBatches


class Sender(Manager):
    """The producer's manager.

    Parameters:
        load: offers the sticky partitioners their choices.
        failure: the fatal error.
        transactions: those of a transactional producer; polled with the sender.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        nodes: Nodes,
        metadata: Metadata,
        *,
        identity: Identity,
        id_requester: ProducerIdRequester,
        unsettled: UnsettledBatches,
        collator: Collator,
        exchange: ProduceExchange,
        settlement: Settlement,
        load: PartitionLoad,
        failure: ProducerFailure,
        transactions: TransactionManager | None,
    ) -> None:
        self._accumulator = accumulator
        self._nodes = nodes
        self._metadata = metadata
        self._identity = identity
        self._id_requester = id_requester
        self._unsettled = unsettled
        self._collator = collator
        self._exchange = exchange
        self._settlement = settlement
        self._load = load
        self._failure = failure
        self._transactions = transactions
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._turn = 0

    def poll(self, now: float) -> Poll:
        """Return requests for the batches that are due."""
        accumulator = self._accumulator
        accumulator.sleeping_until = NEVER
        if self._failure.error is not None:
            self.stop(self._failure.error)
            return Poll([], NEVER)
        self._identity.resolve()
        transactions = self._transactions
        if transactions is not None:
            self._end_transaction(transactions)
        requests: list[Request] = []
        deadline = self._id_requester.poll(requests, now)
        self._unsettled.take_fresh()
        by_leader: dict[int, list[Queue]] = {}
        for queue in list(self._unsettled.queues):
            deadline = min(deadline, self._collect_due(queue, now, by_leader))
        for node, queues in by_leader.items():
            deadline = min(deadline, self._drain(node, queues, requests, now))
        deadline = min(deadline, self._exchange.expire(now))
        if transactions is not None:
            deadline = min(deadline, transactions.poll(requests, now))
        accumulator.sleeping_until = deadline
        return Poll(requests, deadline)

    def stop(self, error: KafkaError) -> None:
        """Fail all batches without a result, now and later, after a fatal error."""
        self._failure.stop(error)
        if self._transactions is not None:
            self._transactions.fail(error)
        self._settlement.fail_all(error)

    def _end_transaction(self, transactions: TransactionManager) -> None:
        """Send without linger what a commit waits for; fail batches outside of an open transaction."""
        if transactions.waits_for_batches:
            self._unsettled.seal()
        elif (error := transactions.why_not_sending()) is not None:
            # Outside of a transaction there are batches only if another thread was sending while it ended.
            self._settlement.fail_waiting(error)

    def _collect_due(self, queue: Queue, now: float, by_leader: dict[int, list[Queue]]) -> float:
        """Add a queue to those of its leader if a batch is due; return when to check again."""
        if self._settlement.expire_waiting(queue, now):
            # Later batches may have to be numbered again, which is decided before the first check of a turn.
            return now
        due = now
        if queue.ready:
            head = queue.ready[0]
            expires = head.deadline
        else:
            head = None
            opened = queue.open_since()
            if opened < 0.0:
                if queue.rest():
                    del self._unsettled.queues[queue]
                return NEVER
            due = self._collator.lingers_until(opened)
            expires = opened + self._delivery_timeout
        # Requested before the linger has passed, so that the partition is added in the meantime.
        may_send = self._transactions is None or self._transactions.may_send(queue.topic, queue.partition)
        if due > now:
            return due
        if not may_send:
            return expires
        info = self._metadata.cluster.partition(queue.topic, queue.partition)
        if info is None or info.leader is None:
            self._metadata.request_update()
            return expires
        if head is not None and (retry_at := self._collator.backs_off_until(head, info)) > now:
            return min(expires, retry_at)
        by_leader.setdefault(info.leader, []).append(queue)
        return expires

    def _drain(self, node: int, queues: list[Queue], requests: list[Request], now: float) -> float:
        """Make as many requests for a broker as may be sent; return when to check again."""
        if not self._nodes.ready(node, now):
            failed = [queue for queue in queues if self._settlement.fail_refused(queue, node)]
            if failed:
                return now
            self._load.broker_is_stuck(node, now)
            self._load.weigh(queues, now)
            if node not in self._metadata.cluster.brokers:
                self._metadata.request_update()
            retry_at = self._nodes.retry_at(node)
            return retry_at if retry_at > now else NEVER
        self._load.broker_is_ready(node)
        self._turn += 1
        if len(queues) > 1:
            start = self._turn % len(queues)
            queues = queues[start:] + queues[:start]
        for _ in range(max(1, self._max_in_flight - self._nodes.in_flight(node))):
            taken = self._collator.collate(queues, now)
            if not taken:
                break
            request = self._exchange.request(node, taken, len(queues), now)
            if request is None:
                # None of them could be built; the batches behind them are next.
                return now
            requests.append(request)
        self._load.weigh(queues, now)
        return NEVER
