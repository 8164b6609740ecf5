"""Sends the batches that are due, and decides what comes of them.

A manager: the driver polls it after every event, it takes ready batches from the accumulator's queues,
collates them into one Produce request per broker (a batch per partition in each, up to
max_request_size, as many requests as may be in flight) and settles or repeats them by the responses.
The order within a partition is kept: a batch that has to be repeated goes back in front of later ones.
In a transaction its manager says what may be sent, and hears of each batch that fails.
Leaves out numbers (`idempotence`), the meaning of error codes (`outcomes`) and what is told to users.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Protocol

from kclient.config import ProducerConfig
from kclient.errors import (
    BrokerError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.manager import NEVER, Manager, Nodes, Poll, Request
from kclient.producer.accumulator import Accumulator, PartitionQueue, TopicQueue
from kclient.producer.batch import BatchState, ProducerBatch
from kclient.producer.collator import Clusters, Collator
from kclient.producer.idempotence import Identity, IdentityState
from kclient.producer.load import PartitionLoad
from kclient.producer.measures import Measures
from kclient.producer.outcomes import Outcome, may_be_written, outcome
from kclient.producer.produce_request import Attempt
from kclient.producer.producer_id import IdQuestion
from kclient.producer.replacing import split, without
from kclient.producer.sizing import Sizing
from kclient.producer.transactions import TransactionManager
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.types import Node, TopicPartition

SMALLEST_SPLIT = 4096
WEIGHING_INTERVAL = 0.01
"""Seconds between two looks at how long the queues are."""


class Metadata(Clusters, Protocol):
    """What the sender wants of the metadata."""

    @property
    def last_error(self) -> KafkaError | None: ...

    def request_update(self) -> None: ...

    def update_leaders(self, leaders: dict[TopicPartition, tuple[int, int]], nodes: Iterable[Node]) -> None: ...


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
        new_batch: Callable[[PartitionQueue, float, float, int], ProducerBatch],
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
        self._new_batch = new_batch
        self._on_fatal = on_fatal
        self._measures = measures
        self._acks = config.required_acks
        self._retries = config.retries
        self._linger = config.linger_ms / 1000
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._request_timeout_ms = config.request_timeout_ms
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._backoff = retry_backoff(config, random)
        self._load = PartitionLoad(config.partitioner_adaptive_partitioning_enable)
        self._availability_timeout = config.partitioner_availability_timeout_ms / 1000
        self._active: dict[PartitionQueue, None] = {}
        self._attempts: dict[Attempt, None] = {}
        self._stuck_since: dict[int, float] = {}
        self._throttled_until: dict[int, float] = {}
        self._turn = 0
        self._weighed_at = 0.0
        self._sizing = Sizing(config.batch_size)
        self._collator = Collator(config, accumulator, self.identity, metadata)
        self._id_question = IdQuestion(self.identity, self._backoff, self.stop)

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
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in list(self._active):
            deadline = min(deadline, self._look(queue, now, by_leader))
        for node, queues in by_leader.items():
            deadline = min(deadline, self._drain(node, queues, requests, now))
        deadline = min(deadline, self._expire_under_way(now))
        if transactions is not None:
            deadline = min(deadline, transactions.poll(requests, now))
        accumulator.sleeping_until = deadline
        return Poll(requests, deadline)

    def _look(self, queue: PartitionQueue, now: float, by_leader: dict[int, list[PartitionQueue]]) -> float:
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
            due = opened + self._linger
            expires = opened + self._delivery_timeout
        # Asked before the linger is over, so that the partition is added meanwhile.
        may_send = self._transactions is None or self._transactions.may_send(queue.topic, queue.partition)
        if due > now and not self._accumulator.blocked:
            return due
        if not may_send:
            return expires
        info = self._metadata.cluster.partition(queue.topic, queue.partition)
        if info is None or info.leader is None:
            self._metadata.request_update()
            return expires
        if head is not None and head.retry_at > now and not head.leader_moved(info):
            return min(expires, head.retry_at)
        by_leader.setdefault(info.leader, []).append(queue)
        return expires

    def _drain(self, node: int, queues: list[PartitionQueue], requests: list[Request], now: float) -> float:
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

    def _weigh(self, queues: list[PartitionQueue], now: float) -> None:
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
        if batch.ordinal < 0:
            batch.ordinal = batch.queue.drained
            batch.queue.drained += 1
            batch.accounted = batch.builder.size_in_bytes
        self.identity.sending(batch)
        try:
            wire = batch.build()
        except Exception as error:  # noqa: BLE001 - whatever a codec raises belongs to this batch
            self.identity.answered(batch)
            self._give_up(batch, error)
            return False
        self._collator.built(batch, len(wire))
        batch.move_to(BatchState.IN_FLIGHT)
        batch.on_wire = True
        batch.attempts += 1
        batch.queue.muted += 1
        self._measures.sent(batch, len(wire), now)
        return True

    def _request(self, node: int, batches: list[ProducerBatch], now: float) -> Request:
        transactions = self._transactions
        attempt = Attempt(
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
        first, last = attempt.versions
        attempt.depth += sum(other.node == node for other in self._attempts)
        self._attempts[attempt] = None
        self._measures.request(sum(batch.count for batch in batches))
        return Request(
            node,
            ProduceRequest,
            attempt.build,
            lambda response, at: self._answered(attempt, response, at),
            lambda error, at: self._failed(attempt, error, at),
            expects_response=self._acks != 0,
            minimum_version=first,
            maximum_version=last,
        )

    # -- responses

    def _answered(self, attempt: Attempt, response: ProduceResponse | None, now: float) -> None:
        """A response came, or with acks=0 the request was written."""
        del self._attempts[attempt]
        if response is None:
            for batch in attempt.batches.values():
                self._settle(attempt, batch, ProduceResponse.PartitionProduceResponse(base_offset=-1), now)
            return
        if response.throttle_time_ms > 0:
            self._throttled_until[attempt.node] = now + response.throttle_time_ms / 1000
        left = attempt.batches
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in response.responses:
            name = topic.name or attempt.topic_names.get(topic.topic_id, "")
            for answer in topic.partition_responses:
                if (name, answer.index) not in left:
                    continue
                batch = left.pop((name, answer.index))
                hint = answer.current_leader
                if answer.error_code and hint.leader_id >= 0 and hint.leader_epoch >= 0:
                    leaders[TopicPartition(name, answer.index)] = (hint.leader_id, hint.leader_epoch)
                self._settle(attempt, batch, answer, now)
        for batch in left.values():
            self._over(batch)
            batch.maybe_written = True
            self._give_up(
                batch, ProtocolError("the broker's answer left out the partition", broker=attempt.node, api="Produce")
            )
        if leaders:
            nodes = [Node(end.node_id, end.host, end.port, end.rack) for end in response.node_endpoints]
            self._metadata.update_leaders(leaders, nodes)
        self._sizing.answered(attempt.node, now - attempt.sent_at, attempt.depth)
        self._measures.latency(now - attempt.sent_at, response.throttle_time_ms)

    def _failed(self, attempt: Attempt, error: KafkaError, now: float) -> None:
        """There is no response and will be none."""
        del self._attempts[attempt]
        if error.refreshes_metadata or error.retriable:
            self._metadata.request_update()
        for batch in attempt.batches.values():
            self._over(batch)
            if batch.settled:
                continue
            batch.maybe_written |= may_be_written(error)
            if error.retriable:
                self._retry(attempt, batch, error, now)
            else:
                self._give_up(batch, error)

    def _over(self, batch: ProducerBatch) -> None:
        batch.on_wire = False
        batch.queue.muted -= 1
        self.identity.answered(batch)

    def _settle(
        self, attempt: Attempt, batch: ProducerBatch, answer: ProduceResponse.PartitionProduceResponse, now: float
    ) -> None:
        """Do what the table says about the answer for one batch."""
        self._over(batch)
        action = outcome(answer.error_code)
        if action is Outcome.DELIVERED:
            self.identity.delivered(batch)
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
            broker=attempt.node,
            api="Produce",
        )
        batch.maybe_written |= may_be_written(error)
        if error.refreshes_metadata:
            self._metadata.request_update()
        if action is Outcome.RETRY or action is Outcome.OUT_OF_ORDER:
            if action is Outcome.OUT_OF_ORDER:
                self.identity.out_of_order(batch)
                if self.identity.transactional and self.identity.is_first(batch):
                    # Records before it are gone, and the transaction with them.
                    self._give_up(batch, error)
                    return
            self._retry(attempt, batch, error, now)
        elif action is Outcome.SPLIT and batch.count > 1:
            self._split(batch)
        elif action is Outcome.FATAL:
            self._give_up(batch, error)
            self.stop(error)
        else:
            self._reject(batch, answer, error)

    def _retry(self, attempt: Attempt, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        batch.last_error = error
        if batch.attempts > self._retries:
            self._give_up(batch, error)
            return
        if now >= batch.deadline:
            self._give_up(batch, self._too_late(batch))
            return
        if error.refreshes_metadata:
            info = self._metadata.cluster.partition(batch.topic, batch.partition)
            same = info is not None and info.leader == attempt.node
            batch.failed_leader = attempt.node
            batch.failed_epoch = info.leader_epoch if info is not None and same else None
        else:
            batch.failed_leader = None
        if self._transactions is None:
            batch.retry_at = now + self._backoff.seconds(batch.attempts)
        else:
            batch.retry_at = now + self._transactions.retry_seconds(error, batch.attempts)
        batch.move_to(BatchState.WAITING)
        self._put_back(batch.queue, [batch])
        self._measures.retried(batch)

    def _put_back(self, queue: PartitionQueue, batches: list[ProducerBatch]) -> None:
        """Put batches that were sent before back, in front of all later ones."""
        later = []
        while queue.ready and -1 < queue.ready[0].ordinal < batches[0].ordinal:
            later.append(queue.ready.popleft())
        queue.ready.extendleft(reversed(later + batches))
        self._active[queue] = None

    def _split(self, batch: ProducerBatch) -> None:
        assert batch.builder is not None
        queue = batch.queue
        queue.batch_limit = min(queue.batch_limit, max(SMALLEST_SPLIT, batch.builder.size_in_bytes // 2))
        parts, pieces = split(batch, self._new_batch)
        self._replace(batch, parts, lambda: batch.replace(pieces, {}))
        self._measures.split()

    def _reject(
        self, batch: ProducerBatch, answer: ProduceResponse.PartitionProduceResponse, error: BrokerError
    ) -> None:
        """The broker refused records: those it names fail, and the others are sent again without them."""
        named = {refused.batch_index: refused.batch_index_error_message for refused in answer.record_errors}
        errors: dict[int, BaseException] = {}
        for index, message in named.items():
            kind = type(error) if len(named) == 1 else InvalidRecordError
            text = message or answer.error_message
            errors[index] = kind.told(text, topic=batch.topic, partition=batch.partition, broker=error.broker)
        if not errors or len(errors) >= batch.count or self.identity.transactional:
            self._give_up(batch, error, errors)
            return
        parts, pieces = without(batch, errors, self._new_batch)
        self._measures.failed(batch.topic, len(errors))
        self._replace(batch, parts, lambda: batch.replace(pieces, errors))

    def _replace(self, batch: ProducerBatch, parts: list[ProducerBatch], replace: Callable[[], None]) -> None:
        for part in parts:
            assert part.builder is not None
            part.ordinal = batch.ordinal
            part.attempts = batch.attempts
            part.accounted = part.builder.size_in_bytes
            self._accumulator.release(-part.accounted)
        self.identity.replaced(batch, parts)
        self._put_back(batch.queue, parts)
        self._release(batch)
        replace()

    # -- the end of batches

    def _give_up(
        self, batch: ProducerBatch, error: BaseException, errors: dict[int, BaseException] | None = None
    ) -> None:
        self.identity.failed(batch, certain=not batch.maybe_written and not batch.on_wire)
        self._measures.failed(batch.topic, batch.count)
        self._release(batch)
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        batch.fail(error, errors)

    def _release(self, batch: ProducerBatch) -> None:
        """Give back a batch's room; before anybody is told that it settled, as whoever waits for room looks then."""
        self._accumulator.release(batch.accounted)
        batch.accounted = 0

    def _expire_waiting(self, queue: PartitionQueue, now: float) -> bool:
        """Fail the batches that waited for too long; whether there were any."""
        opened = -1.0 if queue.ready else queue.open_since()
        if opened >= 0.0 and opened + self._delivery_timeout <= now:
            queue.seal()
        expired = False
        while queue.ready and queue.ready[0].deadline <= now:
            batch = queue.ready.popleft()
            self._account(batch)
            self._give_up(batch, self._too_late(batch))
            expired = True
        return expired

    def _account(self, batch: ProducerBatch) -> None:
        if batch.ordinal < 0 and batch.builder is not None:
            batch.accounted = batch.builder.size_in_bytes

    def _expire_under_way(self, now: float) -> float:
        """Fail batches whose answers come too late; returns when the next one would."""
        deadline = NEVER
        for attempt in self._attempts:
            if attempt.deadline <= now:
                for batch in attempt.batches.values():
                    if not batch.settled and batch.deadline <= now:
                        self._give_up(batch, self._too_late(batch))
                attempt.deadline = min((b.deadline for b in attempt.batches.values() if not b.settled), default=NEVER)
            deadline = min(deadline, attempt.deadline)
        return deadline

    def _too_late(self, batch: ProducerBatch) -> KafkaTimeoutError:
        them = "it" if batch.count == 1 else "them"
        why = f"no broker has {'taken' if batch.attempts == 0 else 'confirmed'} {them} yet"
        last = batch.last_error or self._metadata.last_error
        if last is not None:
            why += f"; the last error was: {last}"
        error = KafkaTimeoutError(
            f"{batch.count} record{' was' if batch.count == 1 else 's were'} not delivered within delivery_timeout_ms "
            f"({self._delivery_timeout * 1000:.0f}): {why}",
            topic=batch.topic,
            partition=batch.partition,
        )
        error.__cause__ = last
        return error

    # -- on request of the faces (network thread)

    def take_all(self) -> list[ProducerBatch]:
        """Every batch that is not settled; open ones are closed, so that they are sent at once."""
        self._look_for_fresh()
        batches = [batch for attempt in self._attempts for batch in attempt.batches.values() if not batch.settled]
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
                self.identity.move_to(IdentityState.FAILED)
            self._on_fatal(error)
            if self._transactions is not None:
                self._transactions.fail(error)
        self.fail_all(error)

    def fail_all(self, error: BaseException) -> None:
        """Everything that is not settled fails."""
        under_way = [batch for batch in self.take_all() if batch.on_wire]
        self._fail_waiting(error)
        for batch in under_way:
            self._give_up(batch, error)

    def _fail_waiting(self, error: BaseException) -> None:
        # One at a time, since a thread that was sending meanwhile may still add a batch.
        for queue in self._active:
            while queue.ready:
                batch = queue.ready.popleft()
                self._account(batch)
                self._give_up(batch, error)

    # -- on request of the transactions (see `Outbox`)

    def is_empty(self) -> bool:
        """Whether every batch is settled and every request answered."""
        self._look_for_fresh()
        return not self._attempts and not any(queue.ready or queue.open_since() >= 0.0 for queue in self._active)

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
