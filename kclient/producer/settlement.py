"""The result of a batch: delivered, sent again, replaced by others, or given up.

The `exchange` matches responses to batches. The settlement applies the table of error codes (`outcomes`) to each batch,
and updates, in this order, sequence numbers, metrics, the memory of the accumulator, the transaction and the futures.
Elsewhere: which batch is sent when (`sender`), and sequence numbers (`idempotence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kclient.config import ProducerConfig
from kclient.errors import (
    AuthenticationError,
    BrokerError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    error_from_code,
)
from kclient.net.backoff import Backoff
from kclient.net.manager import Nodes
from kclient.producer.accumulator import Accumulator
from kclient.producer.batch import BatchEvent, ProducerBatch, Queue
from kclient.producer.collator import Clusters
from kclient.producer.idempotence import Identity
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.outcomes import Outcome, outcome, record_error
from kclient.producer.replacing import split, without
from kclient.producer.transactions import TransactionManager
from kclient.producer.unsettled import UnsettledBatches
from kclient.protocol.messages.produce import ProduceResponse
from kclient.types import Node, TopicPartition

SMALLEST_SPLIT = 4096


class Metadata(Clusters, Protocol):
    """The metadata as the sender sees it."""

    @property
    def last_error(self) -> KafkaError | None: ...

    def request_update(self) -> None: ...

    def update_leaders(self, leaders: dict[TopicPartition, tuple[int, int]], nodes: Iterable[Node]) -> None: ...


class Settlement:
    """The decisions about the batches of one producer (network thread).

    Parameters:
        new_batch: makes an empty batch for a queue, with creation, deadline and size limit (see `replacing`).
        on_fatal: called with the fatal error.
        transactions: those of a transactional producer; each batch that fails is reported to them.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        unsettled: UnsettledBatches,
        identity: Identity,
        metadata: Metadata,
        nodes: Nodes,
        metrics: ProducerMetrics,
        backoff: Backoff,
        transactions: TransactionManager | None,
        *,
        new_batch: Callable[[Queue, float, float, int], ProducerBatch],
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        self._identity = identity
        self._accumulator = accumulator
        self._unsettled = unsettled
        self._metadata = metadata
        self._nodes = nodes
        self._metrics = metrics
        self._backoff = backoff
        self._transactions = transactions
        self._retries = config.retries
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._new_batch = new_batch
        self._on_fatal = on_fatal

    def answered(
        self, batch: ProducerBatch, node: int, answer: ProduceResponse.PartitionProduceResponse, now: float
    ) -> None:
        """Apply the table to a broker's result for one batch."""
        self._request_ended(batch)
        action = outcome(answer.error_code)
        if action is Outcome.DELIVERED:
            self._identity.delivered(batch)
            if not batch.settled:
                offset = -1 if answer.error_code else answer.base_offset
                self._release(batch)
                batch.deliver(offset, answer.log_append_time_ms)
            return
        if batch.settled:
            return
        error = error_from_code(
            answer.error_code,
            answer.error_message,
            topic=batch.topic,
            partition=batch.partition,
            broker=node,
            api="Produce",
        )
        batch.attempts.failed(error)
        if error.refreshes_metadata:
            self._metadata.request_update()
        if action is Outcome.RETRY or action is Outcome.OUT_OF_ORDER:
            if action is Outcome.OUT_OF_ORDER:
                self._identity.out_of_order(batch)
                if self._identity.transactional and self._identity.is_first(batch):
                    # Earlier records are lost, and the transaction with them.
                    self.give_up(batch, error)
                    return
            self._retry(batch, node, error, now)
        elif action is Outcome.SPLIT and batch.count > 1:
            self._split(batch)
        elif action is Outcome.FATAL:
            self.give_up(batch, error)
            self._on_fatal(error)
        else:
            self._reject(batch, answer, error)

    def failed(self, batch: ProducerBatch, node: int, error: KafkaError, now: float) -> None:
        """Retry a batch whose request failed without a response, or give it up."""
        self._request_ended(batch)
        if batch.settled:
            return
        batch.attempts.failed(error)
        if error.retriable:
            self._retry(batch, node, error, now)
        else:
            self.give_up(batch, error)

    def missing(self, batch: ProducerBatch, node: int) -> None:
        """Fail a batch that is missing in the response; the broker may have written it."""
        self._request_ended(batch)
        if batch.settled:
            return
        batch.attempts.maybe_written = True
        error = ProtocolError("the broker's response did not contain the partition", broker=node, api="Produce")
        self.give_up(batch, error)

    def _request_ended(self, batch: ProducerBatch) -> None:
        """Record that the request with the batch has ended, with or without a response."""
        batch.attempts.answered()
        batch.queue.in_flight -= 1
        self._identity.answered(batch)

    def give_up(
        self, batch: ProducerBatch, error: BaseException, errors: dict[int, BaseException] | None = None
    ) -> None:
        """Fail a batch; `errors` has those of records that failed for a reason of their own."""
        attempts = batch.attempts
        if attempts.ordinal < 0:
            batch.account()
        certain = not attempts.maybe_written and not attempts.on_wire
        self._identity.failed(batch, certain=certain)
        self._metrics.failed(batch.topic, batch.count)
        self._release(batch)
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        batch.fail(record_error(error, batch.count, batch.topic, batch.partition, certain=certain), errors)

    def expire(self, batch: ProducerBatch) -> None:
        """Fail a batch whose delivery_timeout_ms has passed."""
        self.give_up(batch, self._too_late(batch))

    def expire_waiting(self, queue: Queue, now: float) -> bool:
        """Fail the batches of a queue whose delivery_timeout_ms has passed; return whether there were any."""
        opened = -1.0 if queue.ready else queue.open_since()
        if opened >= 0.0 and opened + self._delivery_timeout_ms / 1000 <= now:
            queue.seal()
        expired = False
        while queue.ready and queue.ready[0].deadline <= now:
            self.expire(queue.ready.popleft())
            expired = True
        return expired

    def fail_refused(self, queue: Queue, leader: int) -> bool:
        """Fail the batches of a queue if the leader has refused this client since they were made.

        Each has waited for one attempt to connect, so that the batches after it are sent once the client may log in.

        Returns:
            Whether there were any.
        """
        failed = False
        while True:
            since = queue.ready[0].created if queue.ready else queue.open_since()
            error = None if since < 0.0 else self._nodes.connection_error(leader, since)
            if not isinstance(error, AuthenticationError):
                return failed
            if queue.ready or queue.seal():
                self.give_up(queue.ready.popleft(), error)
                failed = True

    def fail_waiting(self, error: BaseException) -> None:
        """Fail every batch that is in no request."""
        self._unsettled.seal()
        # One at a time, because a thread that is sending may still add a batch.
        for queue in self._unsettled.queues:
            while queue.ready:
                self.give_up(queue.ready.popleft(), error)

    def fail_all(self, error: BaseException) -> None:
        """Fail every batch without a result."""
        under_way = [batch for batch in self._unsettled.take_all() if batch.attempts.on_wire]
        self.fail_waiting(error)
        for batch in under_way:
            self.give_up(batch, error)

    def _retry(self, batch: ProducerBatch, node: int, error: KafkaError, now: float) -> None:
        made = batch.attempts.made
        if made > self._retries:
            self.give_up(batch, error)
            return
        if now >= batch.deadline:
            self.expire(batch)
            return
        leader = node if error.refreshes_metadata else None
        info = self._metadata.cluster.partition(batch.topic, batch.partition)
        if self._transactions is None:
            seconds = self._backoff.seconds(made)
        else:
            seconds = self._transactions.retry_seconds(error, made)
        batch.attempts.retry(now + seconds, leader, info)
        batch.change(BatchEvent.RETRY)
        self._unsettled.put_back(batch.queue, [batch])
        self._metrics.retried(batch)

    def _split(self, batch: ProducerBatch) -> None:
        assert batch.builder is not None
        queue = batch.queue
        queue.batch_limit = min(queue.batch_limit, max(SMALLEST_SPLIT, batch.builder.size_in_bytes // 2))
        parts, pieces = split(batch, self._new_batch)
        self._replace(batch, parts, lambda: batch.replace(pieces, {}))
        self._metrics.split()

    def _reject(
        self, batch: ProducerBatch, answer: ProduceResponse.PartitionProduceResponse, error: BrokerError
    ) -> None:
        """Fail the records that the broker names, and send the others again."""
        named = {refused.batch_index: refused.batch_index_error_message for refused in answer.record_errors}
        errors: dict[int, BaseException] = {}
        for index, message in named.items():
            kind = type(error) if len(named) == 1 else InvalidRecordError
            text = message or answer.error_message
            errors[index] = kind.from_broker(text, topic=batch.topic, partition=batch.partition, broker=error.broker)
        if not errors or len(errors) >= batch.count or self._identity.transactional:
            self.give_up(batch, error, errors)
            return
        parts, pieces = without(batch, errors, self._new_batch)
        self._metrics.failed(batch.topic, len(errors))
        self._replace(batch, parts, lambda: batch.replace(pieces, errors))

    def _replace(self, batch: ProducerBatch, parts: list[ProducerBatch], replace: Callable[[], None]) -> None:
        for part in parts:
            part.attempts.follow(batch.attempts)
            self._accumulator.release(-part.account())
        self._identity.replaced(batch, parts)
        self._unsettled.put_back(batch.queue, parts)
        self._release(batch)
        replace()

    def _release(self, batch: ProducerBatch) -> None:
        """Free a batch's memory before a future resolves, because waiting calls check it then."""
        self._accumulator.release(batch.take_account())

    def _too_late(self, batch: ProducerBatch) -> KafkaTimeoutError:
        info = self._metadata.cluster.partition(batch.topic, batch.partition)
        leader = None if info is None else info.leader
        unreachable = None if leader is None else self._nodes.connection_error(leader)
        last = unreachable or batch.attempts.last_error or self._metadata.last_error
        missing = "response" if batch.attempts.made else "connection to the leader"
        why = f"there was no {missing}" if last is None else f"the last error was: {last}"
        error = KafkaTimeoutError(f"delivery_timeout_ms ({self._delivery_timeout_ms:.0f}) has passed; {why}")
        error.__cause__ = last
        return error
