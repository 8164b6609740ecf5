"""Sends the batches that are due.

A manager: the driver polls it after every event, it takes ready batches from the accumulator's queues,
collates them into one Produce request per broker (a batch per partition in each, up to
max_request_size, as many requests as may be in flight) and passes each batch's answer to the `settlement`.
The order within a partition is kept: a batch that has to be repeated goes back in front of later ones.
In a transaction its manager says what may be sent, and hears of each batch that fails.
Elsewhere: sequence numbers (`idempotence`), and what follows from a response (`settlement`).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from kclient.config import ProducerConfig
from kclient.errors import KafkaError
from kclient.net.backoff import retry_backoff
from kclient.net.manager import NEVER, Manager, Nodes, Poll, Request
from kclient.producer.accumulator import Accumulator, TopicQueue
from kclient.producer.batch import BatchEvent, ProducerBatch, Queue
from kclient.producer.collator import Collator
from kclient.producer.idempotence import Identity, IdentityEvent, IdentityState
from kclient.producer.load import PartitionLoad
from kclient.producer.measures import Measures
from kclient.producer.produce_request import InFlightProduce
from kclient.producer.producer_id import IdQuestion
from kclient.producer.settlement import Metadata, Settlement
from kclient.producer.sizing import Sizing
from kclient.producer.transactions import TransactionManager
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.types import Node, TopicPartition

WEIGHING_INTERVAL = 0.01
"""Seconds between two looks at how long the queues are."""


class Sender(Manager):
    """The producer's manager.

    Parameters:
        new_batch: makes an empty batch for a queue, with creation, deadline and size limit (see `replacing`).
        on_fatal: is told why the producer cannot go on.
        transactions: those of a transactional producer; polled with the sender.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        nodes: Nodes,
        metadata: Metadata,
        *,
        new_batch: Callable[[Queue, float, float, int], ProducerBatch],
        on_fatal: Callable[[KafkaError], None],
        measures: Measures,
        random: random.Random,
        transactions: TransactionManager | None = None,
    ) -> None:
        self.identity = Identity(config.idempotent, transactions is not None)
        self._transactions = transactions
        if transactions is not None:
            transactions.attach(self)
        self.fatal: KafkaError | None = None
        self._accumulator = accumulator
        self._nodes = nodes
        self._metadata = metadata
        self._on_fatal = on_fatal
        self._measures = measures
        self._acks = config.required_acks
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._request_timeout_ms = config.request_timeout_ms
        self._max_in_flight = config.max_in_flight_requests_per_connection
        backoff = retry_backoff(config, random)
        self._settlement = Settlement(
            config,
            accumulator,
            self.identity,
            metadata,
            measures,
            backoff,
            transactions,
            new_batch=new_batch,
            put_back=self._put_back,
            stop=self.stop,
        )
        self._load = PartitionLoad(config.partitioner_adaptive_partitioning_enable)
        self._availability_timeout = config.partitioner_availability_timeout_ms / 1000
        self._active: dict[Queue, None] = {}
        self._in_flight: dict[InFlightProduce, None] = {}
        self._stuck_since: dict[int, float] = {}
        self._throttled_until: dict[int, float] = {}
        self._turn = 0
        self._weighed_at = 0.0
        self._sizing = Sizing(config.batch_size)
        self._collator = Collator(config, accumulator, self.identity, metadata)
        self._id_question = IdQuestion(self.identity, backoff, self.stop)

    # -- polling

    def poll(self, now: float) -> Poll:
        """Requests for the batches that are due."""
        accumulator = self._accumulator
        accumulator.sleeping_until = NEVER
        if self.fatal is not None:
            self.fail_all(self.fatal)
            return Poll([], NEVER)
        self.identity.resolve()
        transactions = self._transactions
        if transactions is not None:
            transactions.before_sending()
        requests: list[Request] = []
        deadline = self._id_question.poll(requests, now)
        self._look_for_fresh()
        by_leader: dict[int, list[Queue]] = {}
        for queue in list(self._active):
            deadline = min(deadline, self._look(queue, now, by_leader))
        for node, queues in by_leader.items():
            deadline = min(deadline, self._drain(node, queues, requests, now))
        deadline = min(deadline, self._expire_under_way(now))
        if transactions is not None:
            deadline = min(deadline, transactions.poll(requests, now))
        accumulator.sleeping_until = deadline
        return Poll(requests, deadline)

    def _look(self, queue: Queue, now: float, by_leader: dict[int, list[Queue]]) -> float:
        """Put a queue that has something due to its leader; returns when to look again."""
        if self._expire_waiting(queue, now):
            # What comes behind may have to be numbered anew, which is decided before a turn's first look.
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
                    del self._active[queue]
                return NEVER
            due = self._collator.lingers_until(opened)
            expires = opened + self._delivery_timeout
        # Asked before the linger is over, so that the partition is added meanwhile.
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
        """Make as many requests for a broker as may be sent; returns when to look again."""
        throttled = self._throttled_until.get(node, 0.0)
        if throttled > now:
            return throttled
        if not self._nodes.ready(node, now):
            self._stuck_since.setdefault(node, now)
            self._weigh(queues, now)
            if node not in self._metadata.cluster.brokers:
                self._metadata.request_update()
            retry_at = self._nodes.retry_at(node)
            return retry_at if retry_at > now else NEVER
        self._stuck_since.pop(node, None)
        self._turn += 1
        if len(queues) > 1:
            start = self._turn % len(queues)
            queues = queues[start:] + queues[:start]
        for _ in range(max(1, self._max_in_flight - self._nodes.in_flight(node))):
            taken = self._collator.collate(queues, now)
            if not taken:
                break
            batches = [batch for batch in taken if self._prepare(batch, now)]
            if not batches:
                # None of them could be built; what is behind them has its turn at once.
                return now
            size = self._sizing.size(node, len(queues), self._collator.compression)
            for batch in batches:
                batch.queue.target = size
            requests.append(self._request(node, batches, now))
        self._weigh(queues, now)
        return NEVER

    def _weigh(self, queues: list[Queue], now: float) -> None:
        """Tell the sticky partitioners of the topics at hand how long their queues are."""
        if now < self._weighed_at + WEIGHING_INTERVAL:
            return
        self._weighed_at = now
        silent: set[int] = set()
        if self._availability_timeout:
            silent = {node for node, since in self._stuck_since.items() if now - since > self._availability_timeout}
        for name in {queue.topic for queue in queues}:
            topic = self._accumulator.topics.get(name)
            partitions = self._metadata.cluster.partitions(name)
            if topic is not None and partitions is not None:
                self._load.look(topic, partitions, silent)

    def _prepare(self, batch: ProducerBatch, now: float) -> bool:
        """Number and build a batch; one that cannot be built fails for itself."""
        assert batch.builder is not None
        if batch.attempts.ordinal < 0:
            batch.attempts.ordinal = batch.queue.drained
            batch.queue.drained += 1
            batch.account()
        self.identity.sending(batch, self._metadata.cluster.topic_id(batch.topic))
        try:
            wire = batch.build()
        except Exception as error:  # noqa: BLE001 - whatever a codec raises belongs to this batch
            self.identity.answered(batch)
            self._settlement.give_up(batch, error)
            return False
        self._collator.built(batch, len(wire))
        batch.change(BatchEvent.SEND)
        batch.attempts.sent()
        batch.queue.muted += 1
        self._measures.sent(batch, len(wire), now)
        return True

    def _request(self, node: int, batches: list[ProducerBatch], now: float) -> Request:
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
        self._measures.request(sum(batch.count for batch in batches))
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

    # -- responses

    def _answered(self, produce: InFlightProduce, response: ProduceResponse | None, now: float) -> None:
        """A response came, or with acks=0 the request was written."""
        del self._in_flight[produce]
        if response is None:
            answer = ProduceResponse.PartitionProduceResponse(base_offset=-1)
            for batch in produce.batches.values():
                self._settlement.answered(batch, produce.node, answer, now)
            return
        if response.throttle_time_ms > 0:
            self._throttled_until[produce.node] = now + response.throttle_time_ms / 1000
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
        self._sizing.answered(produce.node, now - produce.sent_at, produce.depth)
        self._measures.latency(now - produce.sent_at, response.throttle_time_ms)

    def _failed(self, produce: InFlightProduce, error: KafkaError, now: float) -> None:
        """There is no response and will be none."""
        del self._in_flight[produce]
        if error.refreshes_metadata or error.retriable:
            self._metadata.request_update()
        for batch in produce.batches.values():
            self._settlement.failed(batch, produce.node, error, now)

    def _put_back(self, queue: Queue, batches: list[ProducerBatch]) -> None:
        """Put batches that were sent before back, in front of all later ones."""
        later = []
        while queue.ready and -1 < queue.ready[0].attempts.ordinal < batches[0].attempts.ordinal:
            later.append(queue.ready.popleft())
        queue.ready.extendleft(reversed(later + batches))
        self._active[queue] = None

    # -- the end of batches

    def _expire_waiting(self, queue: Queue, now: float) -> bool:
        """Fail the batches that waited for too long; whether there were any."""
        opened = -1.0 if queue.ready else queue.open_since()
        if opened >= 0.0 and opened + self._delivery_timeout <= now:
            queue.seal()
        expired = False
        while queue.ready and queue.ready[0].deadline <= now:
            self._settlement.expire(queue.ready.popleft())
            expired = True
        return expired

    def _expire_under_way(self, now: float) -> float:
        """Fail batches whose answers come too late; returns when the next one would."""
        deadline = NEVER
        for produce in self._in_flight:
            if produce.deadline <= now:
                for batch in produce.batches.values():
                    if not batch.settled and batch.deadline <= now:
                        self._settlement.expire(batch)
                produce.deadline = min((b.deadline for b in produce.batches.values() if not b.settled), default=NEVER)
            deadline = min(deadline, produce.deadline)
        return deadline

    # -- on request of the faces (network thread)

    def take_all(self) -> list[ProducerBatch]:
        """Every batch that is not settled; open ones are closed, so that they are sent at once."""
        self._look_for_fresh()
        batches = [batch for produce in self._in_flight for batch in produce.batches.values() if not batch.settled]
        for queue in self._active:
            queue.seal()
            batches.extend(queue.ready)
        return batches

    def forget(self, topic: TopicQueue) -> None:
        """A topic is no longer produced to."""
        self._load.forget(topic)

    def stop(self, error: KafkaError) -> None:
        """The producer cannot go on: everything fails, now and later."""
        if self.fatal is None:
            self.fatal = error
            if self.identity.state is not IdentityState.FAILED:
                self.identity.change(IdentityEvent.FAIL)
            self._on_fatal(error)
            if self._transactions is not None:
                self._transactions.fail(error)
        self.fail_all(error)

    def fail_all(self, error: BaseException) -> None:
        """Everything that is not settled fails."""
        under_way = [batch for batch in self.take_all() if batch.attempts.on_wire]
        self._fail_waiting(error)
        for batch in under_way:
            self._settlement.give_up(batch, error)

    def _fail_waiting(self, error: BaseException) -> None:
        # One at a time, since a thread that was sending meanwhile may still add a batch.
        for queue in self._active:
            while queue.ready:
                self._settlement.give_up(queue.ready.popleft(), error)

    # -- on request of the transactions (see `Outbox`)

    def is_empty(self) -> bool:
        """Whether every batch is settled and every request answered."""
        self._look_for_fresh()
        return not self._in_flight and not any(queue.ready or queue.open_since() >= 0.0 for queue in self._active)

    def seal(self) -> None:
        """Let no batch wait for company."""
        self._look_for_fresh()
        for queue in self._active:
            queue.seal()

    def drop_waiting(self, error: KafkaError) -> None:
        """Fail every batch that is not under way."""
        self.seal()
        self._fail_waiting(error)

    def _look_for_fresh(self) -> None:
        for queue in self._accumulator.take_fresh():
            self._active[queue] = None
