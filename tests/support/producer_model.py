"""A producer's sender without sockets: a settable clock, brokers that the test plays, and a log per partition."""

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from kclient.config import ProducerConfig
from kclient.errors import KafkaError
from kclient.metrics import Metrics
from kclient.net.cluster import Cluster, TopicInfo
from kclient.net.manager import Request
from kclient.net.runtime import system_time_ms
from kclient.producer import accumulator as pure
from kclient.producer.batch import ProducerBatch
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.result import BatchResult
from kclient.producer.wiring import wire_sender
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.records import IMPLEMENTATION, BatchBuilder, RecordBatch, read_batches
from kclient.types import Node, PartitionInfo

TOPIC_ID = UUID(int=7)


def implementations() -> list[Any]:
    """Return the available twins of the accumulator; the compiled one takes compiled batch builders only."""
    if IMPLEMENTATION != "compiled":
        return [pure]
    return [pure, importlib.import_module("kclient.producer._hot")]


class FakeNodes:
    """Connections: which brokers accept requests, and which requests are in flight."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.errors: dict[int, KafkaError] = {}
        self.tried_at = 0.0
        self.flying: dict[int, int] = {}
        self.limit = 5

    def ready(self, node: int, now: float) -> bool:
        return node not in self.down and self.flying.get(node, 0) < self.limit

    def retry_at(self, node: int) -> float:
        return 0.0

    def in_flight(self, node: int) -> int:
        return self.flying.get(node, 0)

    def connection_error(self, node: int, since: float | None = None) -> KafkaError | None:
        return self.errors.get(node) if since is None or self.tried_at >= since else None

    def last_error(self) -> KafkaError | None:
        return None

    def api_version(self, node: int, request_type: Any) -> int | None:
        return None

    def feature_level(self, feature: str) -> int:
        return 0

    def dedicate(self, node: Node) -> int:
        raise NotImplementedError("a producer asks for no connection of its own")


class FakeMetadata:
    """Metadata that the test sets."""

    def __init__(self, topic: str, leaders: list[int | None]) -> None:
        self.updates = 0
        self.last_error: KafkaError | None = None
        self.hints: dict[Any, tuple[int, int]] = {}
        self.topic = topic
        self.set_leaders(leaders, [0] * len(leaders))

    def set_leaders(self, leaders: list[int | None], epochs: list[int]) -> None:
        infos = tuple(
            PartitionInfo(self.topic, partition, leader, epoch, (), ())
            for partition, (leader, epoch) in enumerate(zip(leaders, epochs, strict=True))
        )
        brokers = {leader: Node(leader, "h", 1) for leader in leaders if leader is not None}
        self.cluster = Cluster(1, "c", None, brokers, {self.topic: TopicInfo(self.topic, TOPIC_ID, infos, False, None)})

    def request_update(self) -> None:
        self.updates += 1

    def update_leaders(self, leaders: Any, nodes: Any) -> None:
        self.hints.update(leaders)


class Outlet:
    """An outlet that collects settled batches and callbacks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done: list[BatchResult] = []
        self.called: list[Any] = []

    def settled(self, result: BatchResult, callbacks: list[Any]) -> None:
        self.done.append(result)
        for future, callback in callbacks:
            callback(future)

    def call_back(self, future: Any, callback: Callable[[Any], None]) -> None:
        callback(future)

    def check_usable(self) -> None:
        return None


class Model:
    """One topic, `t`, and a sender with all its collaborators."""

    def __init__(
        self,
        implementation: Any = pure,
        leaders: list[int | None] | None = None,
        *,
        with_id: bool = True,
        time_ms: Callable[[], int] = system_time_ms,
        **options: Any,
    ) -> None:
        self.config = ProducerConfig.from_options({"linger_ms": 0, **options})
        self.now = 1000.0
        self.wakes = 0
        self.fatal: KafkaError | None = None
        self.outlet = Outlet()
        self.nodes = self.make_nodes()
        self.nodes.limit = self.config.max_in_flight_requests_per_connection
        self.metadata = FakeMetadata("t", [1] if leaders is None else leaders)
        self.metrics = Metrics()
        self.accumulator = implementation.Accumulator(
            self.open_batch,
            self.wake,
            buffer_memory=self.config.buffer_memory,
            batch_size=self.config.batch_size,
            max_request_size=self.config.max_request_size,
            linger=self.config.linger_ms / 1000,
            time_ms=time_ms,
            ignore_keys=self.config.partitioner_ignore_keys,
            seed=1,
        )
        self.parts = wire_sender(
            self.config,
            self.accumulator,
            self.nodes,
            self.metadata,
            new_batch=self.new_batch,
            on_fatal=self.on_fatal,
            on_change=self.on_change,
            on_open=self.on_open,
            metrics=ProducerMetrics(self.metrics),
            random=random.Random(1),
        )
        partitions = self.metadata.cluster.partitions("t")
        assert partitions is not None
        self.topic = self.accumulator.add_topic("t", len(partitions))
        self.topic.offer(list(range(len(partitions))))
        if self.config.idempotent and with_id and self.config.transactional_id is None:
            (request,) = self.poll()
            assert request.request_type is InitProducerIdRequest
            request.on_response(InitProducerIdResponse(producer_id=9, producer_epoch=0), self.now)

    def make_nodes(self) -> FakeNodes:
        """Return the connections."""
        return FakeNodes()

    def wake(self) -> None:
        self.wakes += 1

    def on_change(self) -> None:
        """Do nothing: no call waits for a transaction here."""

    def on_open(self, is_open: bool) -> None:
        """Do nothing when a transaction begins or stops accepting records."""

    def on_fatal(self, error: KafkaError) -> None:
        self.fatal = error

    def open_batch(self, queue: Any) -> ProducerBatch:
        deadline = self.now + self.config.delivery_timeout_ms / 1000
        return self.new_batch(queue, self.now, deadline, min(queue.batch_limit, queue.target))

    def new_batch(self, queue: Any, created: float, deadline: float, limit: int) -> ProducerBatch:
        builder = BatchBuilder(self.config.compression_type, max_bytes=limit)
        transactional = self.config.transactional_id is not None
        return ProducerBatch(queue, builder, created, deadline, self.outlet, transactional)

    def send(self, value: bytes = b"v", **parameters: Any) -> Any:
        parameters.setdefault("timestamp", 5)
        future = self.accumulator.try_append("t", value, **parameters)
        assert future is not None
        return future

    def poll(self) -> list[Request]:
        """Return the requests that the sender wants to send now; they count as in flight."""
        result = self.parts.sender.poll(self.now)
        self.deadline = result.deadline
        for request in result.requests:
            if request.request_type is ProduceRequest:
                self.nodes.flying[request.node] = self.nodes.flying.get(request.node, 0) + 1
        return result.requests

    def batches(self, request: Request) -> dict[int, RecordBatch]:
        """Return the batches of a Produce request, by partition."""
        message = request.build(12)
        assert isinstance(message, ProduceRequest)
        found = {}
        for topic in message.topic_data:
            for data in topic.partition_data:
                (found[data.index],) = read_batches(data.records)
        return found

    def answer(
        self,
        request: Request,
        *,
        code: int = 0,
        offset: int = 0,
        codes: Mapping[int, int] = MappingProxyType({}),
        **fields: Any,
    ) -> None:
        """Answer every partition of a request alike, except those that have an error code in `codes`."""
        self.nodes.flying[request.node] -= 1
        given = {partition: codes.get(partition, code) for partition in self.batches(request)}
        answers = [
            ProduceResponse.PartitionProduceResponse(
                index=partition, error_code=error, base_offset=-1 if error else offset, **fields
            )
            for partition, error in given.items()
        ]
        topics = [ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=answers)]
        request.on_response(ProduceResponse(responses=topics), self.now)

    def lose(self, request: Request, error: KafkaError) -> None:
        """Fail a request as if the connection broke before the response arrived."""
        self.nodes.flying[request.node] -= 1
        request.on_error(error, self.now)

    def one(self) -> Request:
        """Return the only request to send."""
        (request,) = self.poll()
        return request
