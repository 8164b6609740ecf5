"""A cluster in memory that answers a consumer's managers: logs with epochs, fetch sessions, leaders that move.

Messages pass through the codec at a chosen version, as on the wire. There is no clock and no socket: a test sets the
time and decides when a response arrives.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import Any

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import parse_policy
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.fetching.collector import Collector
from kclient.consumer.fetching.fetcher import Fetcher
from kclient.consumer.positions.list_offsets import OffsetsManager
from kclient.consumer.positions.validation import ValidationManager
from kclient.consumer.topic_watch import TopicWatch
from kclient.errors import DisconnectedError, KafkaError
from kclient.net.cluster import TopicInfo
from kclient.net.manager import Request
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kclient.records import BatchBuilder
from kclient.types import Node, PartitionInfo, TopicPartition

NONE, OUT_OF_RANGE, NOT_LEADER, UNKNOWN_TOPIC, FENCED, UNKNOWN_EPOCH = 0, 1, 6, 3, 74, 75
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, UNKNOWN_TOPIC_ID = 70, 71, 100


@dataclass
class Batch:
    base: int
    values: list[bytes]
    epoch: int
    data: bytes

    @property
    def end(self) -> int:
        return self.base + len(self.values)


def make_batch(base: int, values: list[bytes], epoch: int, **options: Any) -> Batch:
    builder = BatchBuilder(max_bytes=1 << 24)
    for index, value in enumerate(values):
        builder.append(1_000 + base + index, None, value)
    return Batch(base, values, epoch, bytes(builder.build(base_offset=base, partition_leader_epoch=epoch, **options)))


@dataclass
class Log:
    """One partition's log on its leader."""

    leader: int | None = 1
    epoch: int = 0
    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    error: int = 0
    preferred: int = -1

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def append(self, *values: bytes) -> None:
        self.batches.append(make_batch(self.end, list(values), self.epoch))

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= offset]

    def move(self, leader: int) -> None:
        self.leader = leader
        self.epoch += 1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch that is not above this one, and its end offset."""
        known = [batch.epoch for batch in self.batches if batch.epoch <= epoch]
        if epoch >= self.epoch:
            return self.epoch, self.end
        if not known:
            return -1, -1
        found = max(known)
        return found, max(batch.end for batch in self.batches if batch.epoch == found)

    def read(self, offset: int, limit: int, at_least_one: bool) -> bytes:
        data = b""
        for batch in self.batches:
            if batch.end <= offset:
                continue
            if len(data) + len(batch.data) > limit and (data or not at_least_one):
                # A broker cuts off the last batch rather than send less than the requested size.
                return data + batch.data[: max(0, limit - len(data))]
            data += batch.data
        return data


class ModelCluster:
    """A cluster made of logs, with the interface of `kclient.net.metadata.Cluster`."""

    def __init__(self, logs: dict[TopicPartition, Log], ids: dict[str, uuid.UUID], version: int) -> None:
        self.version = version
        self._ids = ids
        self.topics = {name: TopicInfo(name, topic_id, (), False, None) for name, topic_id in ids.items()}
        self._infos = {
            tp: PartitionInfo(tp.topic, tp.partition, log.leader, log.epoch, (1, 2, 3), (1, 2, 3))
            for tp, log in logs.items()
        }
        self.brokers = {number: Node(number, "broker", 9000 + number) for number in (1, 2, 3)}

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        return self._infos.get(TopicPartition(topic, partition))

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...] | None:
        return tuple(info for tp, info in sorted(self._infos.items()) if tp.topic == topic) or None

    def topic_id(self, topic: str) -> uuid.UUID | None:
        return self._ids.get(topic)


class ModelMetadata:
    """Metadata with the interface of `kclient.net.metadata.MetadataManager`, refreshed when the test calls for it."""

    def __init__(self) -> None:
        self.cluster = ModelCluster({}, {}, 0)
        self.update_requested = False
        self.fatal_error: Exception | None = None
        self.last_error: Exception | None = None
        self.errors: dict[str, Exception] = {}
        self.leader_hints: dict[TopicPartition, tuple[int, int]] = {}
        self.topics: set[str] = set()

    def request_update(self) -> None:
        self.update_requested = True

    def add_topic(self, topic: str) -> None:
        self.topics.add(topic)
        self.update_requested = True

    def topic_error(self, topic: str) -> Any:
        return self.errors.get(topic)

    def update_leaders(self, leaders: dict[TopicPartition, tuple[int, int]], nodes: list[Node]) -> None:
        self.leader_hints.update(leaders)


class ModelNodes:
    """Connections with the interface of `kclient.net.manager.Nodes`."""

    def __init__(self, versions: dict[type, int]) -> None:
        self.versions = versions
        self.down: set[int] = set()

    def ready(self, node: int, now: float) -> bool:
        return node not in self.down

    def retry_at(self, node: int) -> float:
        return 0.0

    def in_flight(self, node: int) -> int:
        return 0

    def connection_error(self, node: int, since: float | None = None) -> DisconnectedError | None:
        return DisconnectedError() if node in self.down else None

    def last_error(self) -> KafkaError | None:
        return None

    def api_version(self, node: int, request_type: type) -> int | None:
        return self.versions.get(request_type, request_type.max_version)  # type: ignore[attr-defined]


class Sessions:
    """The fetch sessions of one broker (KIP-227)."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, dict[tuple[Any, int], Any]]] = {}
        self.next_id = 100

    def resolve(self, request: FetchRequest, version: int) -> tuple[int, int, dict[tuple[Any, int], Any]]:
        """Return the error code, the session id, and all partitions to fetch, in order."""
        sent = {
            (topic.topic_id if version >= 13 else topic.topic, partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        if version < 7 or request.session_epoch == -1:
            self.known.pop(request.session_id, None)
            return NONE, 0, sent
        if request.session_epoch == 0:
            self.known.pop(request.session_id, None)
            self.next_id += 1
            self.known[self.next_id] = (1, sent)
            return NONE, self.next_id, sent
        if request.session_id not in self.known:
            return SESSION_NOT_FOUND, 0, {}
        expected, partitions = self.known[request.session_id]
        if request.session_epoch != expected:
            return INVALID_SESSION_EPOCH, 0, {}
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                partitions.pop((topic.topic_id if version >= 13 else topic.topic, partition), None)
        partitions.update(sent)
        self.known[request.session_id] = (expected + 1, partitions)
        return NONE, request.session_id, partitions


class Model:
    """A consumer's managers and the cluster they talk to.

    Sent requests wait in `outbox` until the test answers one (`deliver`), fails one (`lose`) or answers all (`run`).
    """

    def __init__(self, *, versions: dict[type, int] | None = None, seed: int = 1, **options: Any) -> None:
        self.config = ConsumerConfig(**{"auto_offset_reset": "earliest", **options})
        self.logs: dict[TopicPartition, Log] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.sessions = {number: Sessions() for number in (1, 2, 3)}
        self.metadata = ModelMetadata()
        self.nodes = ModelNodes(versions or {})
        self.notified = 0
        self.room_signals = 0
        self.buffer = FetchBuffer(on_data=self._on_data, on_room=self._on_room)
        self.subscription = Subscription(self.buffer, parse_policy(self.config.auto_offset_reset))
        shared: Any = (self.subscription, self.metadata, self.nodes, self.config)
        jitter = random.Random(seed)
        self.fetcher = Fetcher(*shared, random=jitter)
        self.offsets = OffsetsManager(*shared, random=jitter, wall_clock=lambda: 10_000)
        self.validation = ValidationManager(*shared, random=jitter)
        self.watch = TopicWatch(self.subscription, self.metadata, lambda: False, 60.0)  # type: ignore[arg-type]
        self.collector = Collector(self.subscription, self.config)
        self.now = 0.0
        self.outbox: list[Request] = []

    def _on_data(self) -> None:
        self.notified += 1

    def _on_room(self) -> None:
        self.room_signals += 1

    # -- the cluster

    def add_topic(self, topic: str, partitions: int = 1, *, with_id: bool = True) -> list[Log]:
        for partition in range(partitions):
            self.logs[TopicPartition(topic, partition)] = Log(leader=1 + partition % 3)
        if with_id:
            self.ids.setdefault(topic, uuid.UUID(int=len(self.ids) + 1))
        self.refresh()
        return [self.logs[TopicPartition(topic, partition)] for partition in range(partitions)]

    def refresh(self) -> None:
        """Refresh the metadata from the model's logs."""
        self.metadata.update_requested = False
        self.metadata.cluster = ModelCluster(self.logs, self.ids, self.metadata.cluster.version + 1)
        self.subscription.update_metadata(self.metadata.cluster)  # type: ignore[arg-type]

    # -- the driver

    def poll(self) -> list[Request]:
        """Poll every manager once; the requests they send are added to the outbox."""
        sent: list[Request] = []
        for manager in (self.fetcher, self.offsets, self.validation, self.watch):
            sent.extend(manager.poll(self.now).requests)
        self.outbox.extend(sent)
        return sent

    def deliver(self, request: Request | None = None) -> None:
        """Answer one request."""
        request = request or self.outbox[0]
        self.outbox.remove(request)
        self.respond(request, self.answer(request))

    def respond(self, request: Request, response: Any) -> None:
        request.on_response(response, self.now)

    def lose(self, request: Request | None = None) -> None:
        """Fail a request as if the connection broke before the response arrived."""
        request = request or self.outbox[0]
        self.outbox.remove(request)
        request.on_error(DisconnectedError(broker=request.node), self.now)

    def run(self, rounds: int = 20) -> None:
        """Poll and answer until no more requests are sent, or for `rounds` rounds."""
        for _ in range(rounds):
            if self.metadata.update_requested:
                self.refresh()
            self.poll()
            if not self.outbox:
                return
            for request in list(self.outbox):
                self.deliver(request)

    def read(self, max_records: int = 1_000_000) -> list[tuple[str, int, int, Any]]:
        """Return the records that a poll would return at once."""
        return [
            (record.topic, record.partition, record.offset, record.value)
            for chunk in self.collector.collect(max_records)
            for record in chunk
        ]

    def assign(self, *partitions: tuple[str, int]) -> None:
        self.subscription.assign([TopicPartition(*tp) for tp in partitions])
        self.subscription.start_uninitialized()

    # -- the brokers

    def answer(self, request: Request) -> Any:
        """Return the broker's response, passed through the codec at the negotiated version."""
        kind = request.request_type
        version = self.nodes.api_version(request.node, kind)
        assert version is not None
        if request.maximum_version is not None:
            version = min(version, request.maximum_version)
        request.version = version
        message = kind.decode(request.build(version).encode(version), version)
        answers: dict[type, Any] = {
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._list_offsets,
            OffsetForLeaderEpochRequest: self._epochs,
        }
        response = answers[kind](request.node, message, version)
        return type(response).decode(response.encode(version), version)

    def _log_error(self, node: int, tp: TopicPartition, epoch: int) -> int:
        log = self.logs.get(tp)
        if log is None:
            return UNKNOWN_TOPIC
        if log.error:
            return log.error
        if 0 <= epoch < log.epoch:
            return FENCED
        if epoch > log.epoch:
            return UNKNOWN_EPOCH
        return NONE if node in (log.leader, log.preferred) else NOT_LEADER

    def _fetch(self, node: int, request: FetchRequest, version: int) -> FetchResponse:
        error, session_id, partitions = self.sessions[node].resolve(request, version)
        response = FetchResponse()
        if version >= 7:
            response.error_code, response.session_id = error, session_id
        names = {topic_id: name for name, topic_id in self.ids.items()}
        topics: dict[Any, FetchResponse.FetchableTopicResponse] = {}
        left = request.max_bytes
        full = version < 7 or request.session_epoch in (0, -1)
        for (topic, number), asked in list(partitions.items()):
            name = names.get(topic, "?") if version >= 13 else topic
            data = self._fetch_partition(node, TopicPartition(name, number), asked, left, version)
            left -= len(data.records or b"")
            if version >= 13 and name == "?":
                data.error_code = UNKNOWN_TOPIC_ID
            if not full and not data.error_code and not data.records and data.diverging_epoch.epoch < 0:
                continue
            if data.records and not full:
                # A broker moves partitions that returned data to the end of its list, so that each partition is served.
                partitions[topic, number] = partitions.pop((topic, number))
            if topic not in topics:
                topics[topic] = FetchResponse.FetchableTopicResponse(partitions=[])
                if version >= 13:
                    topics[topic].topic_id = topic
                else:
                    topics[topic].topic = topic
            topics[topic].partitions.append(data)
        response.responses = list(topics.values())
        return response

    def _fetch_partition(
        self, node: int, tp: TopicPartition, asked: FetchRequest.FetchPartition, left: int, version: int
    ) -> FetchResponse.PartitionData:
        data = FetchResponse.PartitionData(
            partition_index=tp.partition, aborted_transactions=None, records=b"", high_watermark=-1
        )
        data.error_code = self._log_error(node, tp, asked.current_leader_epoch)
        if data.error_code:
            return data
        log = self.logs[tp]
        data.high_watermark = data.last_stable_offset = log.end
        if version >= 5:
            data.log_start_offset = log.start
        if not log.start <= asked.fetch_offset <= log.end:
            data.error_code = OUT_OF_RANGE
            return data
        if version >= 12 and asked.last_fetched_epoch >= 0:
            epoch, end = log.epoch_end(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        if version >= 11 and log.preferred >= 0 and node == log.leader:
            data.preferred_read_replica = log.preferred
            return data
        if left > 0:
            data.records = log.read(asked.fetch_offset, min(left, asked.partition_max_bytes), at_least_one=True)
        data.aborted_transactions = [
            FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first, end in getattr(log, "aborted", ())
            if end > asked.fetch_offset
        ]
        return data

    def _list_offsets(self, node: int, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        response = ListOffsetsResponse(topics=[])
        for topic in request.topics:
            answer = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=[])
            response.topics.append(answer)
            for asked in topic.partitions:
                tp = TopicPartition(topic.name, asked.partition_index)
                part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                part.error_code = self._log_error(node, tp, asked.current_leader_epoch)
                answer.partitions.append(part)
                if part.error_code:
                    continue
                log = self.logs[tp]
                if asked.timestamp == -2:
                    part.offset = log.start
                elif asked.timestamp == -1:
                    part.offset = log.end
                else:
                    offset = max(log.start, asked.timestamp - 1_000)
                    part.offset = offset if offset < log.end else -1
                    part.timestamp = 1_000 + offset if offset < log.end else -1
        return response

    def _epochs(self, node: int, request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        response = OffsetForLeaderEpochResponse(topics=[])
        for topic in request.topics:
            answer = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
            response.topics.append(answer)
            for asked in topic.partitions:
                tp = TopicPartition(topic.topic, asked.partition)
                part = OffsetForLeaderEpochResponse.EpochEndOffset(partition=asked.partition)
                part.error_code = self._log_error(node, tp, asked.current_leader_epoch)
                if not part.error_code:
                    part.leader_epoch, part.end_offset = self.logs[tp].epoch_end(asked.leader_epoch)
                answer.partitions.append(part)
        return response
