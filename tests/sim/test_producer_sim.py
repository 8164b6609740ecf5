"""A producer against brokers that come up late, lose, delay and repeat, from a seed: each record that was acknowledged
is in the log exactly once, in the order it was sent, and nothing is in the log twice."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from kclient.errors import DisconnectedError, KafkaTimeoutError
from kclient.net.manager import Request
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.records import read_batches
from tests.support.producer_model import TOPIC_ID, Model, implementations
from tests.support.typed import built

PARTITIONS = 3
BROKERS = 3
REQUEST_TIMEOUT = 1.0
DELIVERY_TIMEOUT = 6.0
LAST_SEQUENCE = 0x7FFFFFFF


class Partition:
    """A log with the broker's checks: the last five batches of a producer are known, others must follow.

    The first batch of a producer may have any sequence.

    Parameters:
        up_at: when it has a leader; until then it refuses everything.
    """

    def __init__(self, up_at: float) -> None:
        self.up_at = up_at
        self.log: list[bytes] = []
        self.epoch = -1
        self.next_sequence = 0
        self.known: list[tuple[int, int, int]] = []

    def append(self, batch: Any, limit: int) -> ProduceResponse.PartitionProduceResponse:
        answer = ProduceResponse.PartitionProduceResponse(base_offset=-1)
        if batch.producer_epoch < self.epoch:
            answer.error_code = 47
            return answer
        if batch.producer_epoch == self.epoch:
            for first, count, offset in self.known:
                if (first, count) == (batch.base_sequence, batch.record_count):
                    answer.base_offset = offset
                    return answer
        expected = self.next_sequence if batch.producer_epoch == self.epoch else 0
        if self.epoch >= 0 and batch.base_sequence != expected:
            answer.error_code = 45
            return answer
        if batch.size_in_bytes > limit:
            answer.error_code = 10
            return answer
        records = batch.records()
        bad = [index for index, record in enumerate(records) if record.value.endswith(b"bad")]
        if bad:
            answer.error_code = 87
            answer.record_errors = [ProduceResponse.BatchIndexAndErrorMessage(batch_index=index) for index in bad]
            return answer
        if batch.producer_epoch > self.epoch:
            self.epoch, self.known = batch.producer_epoch, []
        answer.base_offset = len(self.log)
        self.known = [*self.known[-4:], (batch.base_sequence, batch.record_count, answer.base_offset)]
        self.next_sequence = (batch.base_sequence + batch.record_count) & LAST_SEQUENCE
        self.log.extend(record.value for record in records)
        return answer


class Connection:
    """Requests to one broker, in order, until it breaks."""

    def __init__(self) -> None:
        self.alive = True
        self.waiting: list[Request] = []
        self.busy_until = 0.0


class ProducerSimulation:
    """The brokers, the connections, the clock."""

    def __init__(self, seed: int, implementation: Any) -> None:
        self.random = random.Random(seed)
        self.model = Model(
            implementation,
            [self.random.randrange(BROKERS) for _ in range(PARTITIONS)],
            with_id=False,
            batch_size=400,
            linger_ms=5,
            buffer_memory=20_000,
            request_timeout_ms=int(REQUEST_TIMEOUT * 1000),
            delivery_timeout_ms=int(DELIVERY_TIMEOUT * 1000),
            compression_type=self.random.choice(["none", "gzip"]),
        )
        self.model.now = 0.0
        self.failure_rate = self.random.choice([0.0, 0.05, 0.2])
        self.limit = self.random.choice([10_000, 300])
        self.epochs = [0] * PARTITIONS
        self.partitions = [Partition(self.random.choice([0.0, self.random.random()])) for _ in range(PARTITIONS)]
        self.connections = {node: Connection() for node in range(BROKERS)}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.sent: dict[int, list[tuple[bytes, Any]]] = {partition: [] for partition in range(PARTITIONS)}
        if self.random.random() < 0.3:
            self.start_near_the_wrap()

    def start_near_the_wrap(self) -> None:
        """A partition that has seen nearly all sequence numbers."""
        self.model.parts.identity.enabled = True
        entry = self.model.parts.identity.entry(self.model.topic.partitions[0])
        entry.producer_id, entry.epoch, entry.topic_id = 9, 0, TOPIC_ID
        entry.next_sequence, entry.last_acknowledged = LAST_SEQUENCE - 5, LAST_SEQUENCE - 6
        self.partitions[0].epoch, self.partitions[0].next_sequence = 0, LAST_SEQUENCE - 5

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.model.now + delay, next(self.numbers), action))

    def send(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            partition = self.random.randrange(PARTITIONS)
            bad = b"bad" if self.random.random() < self.failure_rate / 10 else b""
            value = b"%d:" % next(self.numbers) + b"x" * self.random.randrange(60) + bad
            future = self.model.accumulator.try_append("t", value, partition=partition, timestamp=1)
            if future is not None:
                self.sent[partition].append((value, future))
        if self.model.now < 10:
            self.at(self.random.expovariate(30), self.send)

    def move_leader(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        infos = self.model.metadata.cluster.partitions("t")
        assert infos is not None
        leaders: list[int | None] = [info.leader for info in infos]
        leaders[partition] = self.random.randrange(BROKERS)
        self.epochs[partition] += 1
        self.leaders = leaders
        self.at(self.random.random() / 5, lambda: self.model.metadata.set_leaders(leaders, list(self.epochs)))
        if self.model.now < 10:
            self.at(self.random.expovariate(0.5), self.move_leader)

    def transmit(self, request: Request) -> None:
        if request.request_type is InitProducerIdRequest:
            answer = InitProducerIdResponse(producer_id=9, producer_epoch=0)
            self.at(0.01, lambda: request.on_response(answer, self.model.now))
            return
        connection = self.connections[request.node]
        connection.waiting.append(request)
        message = built(request, ProduceRequest, 13)
        delay = max(connection.busy_until - self.model.now, 0.0) + self.random.expovariate(200)
        if self.random.random() < self.failure_rate / 5:
            delay += 2 * REQUEST_TIMEOUT
        connection.busy_until = self.model.now + delay
        if self.random.random() < self.failure_rate:
            self.at(delay * self.random.random(), lambda: self.cut(request.node, connection))
        self.at(delay, lambda: self.arrive(request, message, connection))
        self.at(REQUEST_TIMEOUT, lambda: self.time_out(request, connection))

    def arrive(self, request: Request, message: ProduceRequest, connection: Connection) -> None:
        if not connection.alive:
            return
        answers = []
        for topic in message.topic_data:
            for data in topic.partition_data:
                answer = self.handle(request.node, data)
                answer.index = data.index
                answers.append(answer)
        topics = [ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=answers)]
        response = ProduceResponse(responses=topics)
        delay = self.random.expovariate(500)
        connection.busy_until = max(connection.busy_until, self.model.now + delay)
        self.at(connection.busy_until - self.model.now, lambda: self.respond(request, response, connection))

    def handle(self, node: int, data: Any) -> ProduceResponse.PartitionProduceResponse:
        leaders = getattr(self, "leaders", None) or [
            info.leader for info in self.model.metadata.cluster.partitions("t") or ()
        ]
        if leaders[data.index] != node or self.model.now < self.partitions[data.index].up_at:
            return ProduceResponse.PartitionProduceResponse(error_code=6, base_offset=-1)
        if self.random.random() < self.failure_rate / 4:
            return ProduceResponse.PartitionProduceResponse(error_code=19, base_offset=-1)
        (batch,) = read_batches(data.records)
        answer: ProduceResponse.PartitionProduceResponse = self.partitions[data.index].append(batch, self.limit)
        if not answer.error_code and self.random.random() < self.failure_rate / 4:
            return ProduceResponse.PartitionProduceResponse(error_code=7, base_offset=-1)
        return answer

    def respond(self, request: Request, response: ProduceResponse, connection: Connection) -> None:
        if connection.alive and request in connection.waiting:
            connection.waiting.remove(request)
            self.model.nodes.flying[request.node] -= 1
            request.on_response(response, self.model.now)

    def time_out(self, request: Request, connection: Connection) -> None:
        if request in connection.waiting:
            connection.waiting.remove(request)
            self.model.nodes.flying[request.node] -= 1
            request.on_error(KafkaTimeoutError("no answer"), self.model.now)
            self.cut(request.node, connection)

    def cut(self, node: int, connection: Connection) -> None:
        if not connection.alive:
            return
        connection.alive = False
        self.connections[node] = Connection()
        self.model.nodes.flying[node] = 0
        waiting, connection.waiting = connection.waiting, []
        for request in waiting:
            request.on_error(DisconnectedError(), self.model.now)

    def run(self) -> None:
        self.at(0.0, self.send)
        if self.failure_rate:
            self.at(1.0, self.move_leader)
        for _ in range(100_000):
            for request in self.model.poll():
                self.transmit(request)
            due = min(self.model.deadline, self.events[0][0] if self.events else float("inf"))
            if due == float("inf"):
                return
            self.model.now = max(self.model.now, due)
            while self.events and self.events[0][0] <= self.model.now:
                heapq.heappop(self.events)[2]()
        raise AssertionError("the simulation does not come to an end")

    def check(self) -> None:
        for partition, sent in self.sent.items():
            log = self.partitions[partition].log
            assert len(set(log)) == len(log), "a record is in the log twice"
            assert all(future.done() for _, future in sent)
            order = [value for value, _ in sent]
            positions = {value: place for place, value in enumerate(order)}
            places = [positions[value] for value in log]
            assert places == sorted(places), "records changed places"
            for value, future in sent:
                if future.exception(0) is None:
                    assert value in log
                    offset = future.result(0).offset
                    assert offset in (-1, log.index(value))
                elif value.endswith(b"bad"):
                    assert value not in log
        assert self.model.accumulator.used == 0


@pytest.mark.parametrize("implementation", implementations(), ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("seed", range(25))
def test_every_acknowledged_record_is_in_the_log_once_and_in_order(seed: int, implementation: Any) -> None:
    simulation = ProducerSimulation(seed, implementation)
    simulation.run()
    simulation.check()
    delivered = sum(future.exception(0) is None for sent in simulation.sent.values() for _, future in sent)
    assert delivered > 20


def test_without_errors_everything_is_delivered() -> None:
    for seed in range(30):
        simulation = ProducerSimulation(seed, implementations()[0])
        if not simulation.failure_rate:
            simulation.run()
            assert all(future.exception(0) is None for sent in simulation.sent.values() for _, future in sent)
