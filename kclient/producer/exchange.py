"""Produce requests and their responses.

The exchange builds the batches of one request and the request itself, matches the response to its batches and passes
each batch's result to the `settlement`. Elsewhere: the choice of batches (`sender`, `collator`), and the message for a
version (`produce_request`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kclient.config import ProducerConfig
from kclient.errors import KafkaError
from kclient.net.manager import NEVER, Request
from kclient.producer.batch import BatchEvent, ProducerBatch
from kclient.producer.batch_sizer import BatchSizer
from kclient.producer.collator import Collator
from kclient.producer.idempotence import Identity
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.produce_request import InFlightProduce
from kclient.producer.settlement import Metadata, Settlement
from kclient.producer.transactions import TransactionManager
from kclient.producer.unsettled import UnsettledBatches
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.types import Node, TopicPartition


class ProduceExchange:
    """The Produce requests of one producer (network thread).

    Parameters:
        collator: records how well batches compress.
        transactions: those of a transactional producer.
    """

    def __init__(
        self,
        config: ProducerConfig,
        unsettled: UnsettledBatches,
        identity: Identity,
        metadata: Metadata,
        metrics: ProducerMetrics,
        collator: Collator,
        settlement: Settlement,
        transactions: TransactionManager | None,
    ) -> None:
        self._in_flight = unsettled.in_flight
        self._identity = identity
        self._metadata = metadata
        self._metrics = metrics
        self._collator = collator
        self._settlement = settlement
        self._transactions = transactions
        self._acks = config.required_acks
        self._request_timeout_ms = config.request_timeout_ms
        self._batch_sizer = BatchSizer(config.batch_size)

    def request(self, node: int, taken: Sequence[ProducerBatch], partitions: int, now: float) -> Request | None:
        """Return the request that carries these batches; None if none of them could be built.

        Parameters:
            node: the broker.
            taken: at most one batch for each partition.
            partitions: how many partitions have something to send to this broker.
        """
        batches = [batch for batch in taken if self._build(batch, now)]
        if not batches:
            return None
        size = self._batch_sizer.size(node, partitions, self._collator.compression)
        for batch in batches:
            batch.queue.target = size
        transactions = self._transactions
        produce = InFlightProduce(
            node,
            batches,
            self._metadata.cluster,
            self._acks,
            self._request_timeout_ms,
            now,
            transactional_id=None if transactions is None else transactions.transactional_id,
            adds_partitions=transactions is not None and transactions.is_v2,
        )
        if transactions is not None:
            transactions.sending()
        first, last = produce.versions
        produce.depth += sum(other.node == node for other in self._in_flight)
        self._in_flight[produce] = None
        self._metrics.request(sum(batch.count for batch in batches))
        return Request(
            node,
            ProduceRequest,
            produce.build,
            lambda response, at: self._answered(produce, response, at),
            lambda error, at: self._failed(produce, error, at),
            expects_response=self._acks != 0,
            minimum_version=first,
            maximum_version=last,
        )

    def expire(self, now: float) -> float:
        """Fail batches whose responses are late; return when the next one will be."""
        deadline = NEVER
        for produce in self._in_flight:
            if produce.deadline <= now:
                for batch in produce.batches.values():
                    if not batch.settled and batch.deadline <= now:
                        self._settlement.expire(batch)
                produce.deadline = min((b.deadline for b in produce.batches.values() if not b.settled), default=NEVER)
            deadline = min(deadline, produce.deadline)
        return deadline

    def _build(self, batch: ProducerBatch, now: float) -> bool:
        """Number and build a batch; one that cannot be built fails, and the others are sent without it."""
        assert batch.builder is not None
        if batch.attempts.ordinal < 0:
            batch.attempts.ordinal = batch.queue.drained
            batch.queue.drained += 1
            batch.account()
        self._identity.sending(batch, self._metadata.cluster.topic_id(batch.topic))
        try:
            wire = batch.build()
        except Exception as error:  # noqa: BLE001 - whatever a codec raises belongs to this batch
            self._identity.answered(batch)
            self._settlement.give_up(batch, error)
            return False
        self._collator.built(batch, len(wire))
        batch.change(BatchEvent.SEND)
        batch.attempts.sent()
        batch.queue.in_flight += 1
        self._metrics.sent(batch, len(wire), now)
        return True

    def _answered(self, produce: InFlightProduce, response: ProduceResponse | None, now: float) -> None:
        """Settle the batches of a request with a response, or with acks=0 of one that was written."""
        del self._in_flight[produce]
        if response is None:
            answer = ProduceResponse.PartitionProduceResponse(base_offset=-1)
            for batch in produce.batches.values():
                self._settlement.answered(batch, produce.node, answer, now)
            return
        left = produce.batches
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in response.responses:
            name = topic.name or produce.topic_names.get(topic.topic_id, "")
            for answer in topic.partition_responses:
                if (name, answer.index) not in left:
                    continue
                batch = left.pop((name, answer.index))
                hint = answer.current_leader
                if answer.error_code and hint.leader_id >= 0 and hint.leader_epoch >= 0:
                    leaders[TopicPartition(name, answer.index)] = (hint.leader_id, hint.leader_epoch)
                self._settlement.answered(batch, produce.node, answer, now)
        for batch in left.values():
            self._settlement.missing(batch, produce.node)
        if leaders:
            nodes = [Node(end.node_id, end.host, end.port, end.rack) for end in response.node_endpoints]
            self._metadata.update_leaders(leaders, nodes)
        self._batch_sizer.answered(produce.node, now - produce.sent_at, produce.depth)
        self._metrics.latency(now - produce.sent_at)

    def _failed(self, produce: InFlightProduce, error: KafkaError, now: float) -> None:
        """Settle the batches of a request that has no response and will have none."""
        del self._in_flight[produce]
        if error.refreshes_metadata or error.retriable:
            self._metadata.request_update()
        for batch in produce.batches.values():
            self._settlement.failed(batch, produce.node, error, now)
