"""A coordinator in memory that stores offsets, and the managers that commit to it and ask it.

Messages pass through the codec at a chosen version. A test says what time it is and when an answer arrives.
"""

from __future__ import annotations

import random
import time
import uuid
from types import SimpleNamespace
from typing import Any

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import parse_policy
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.callbacks import CommitCallbacks
from kclient.consumer.committed.wiring import wire_group_offsets
from kclient.consumer.group.generation import Generation
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import DisconnectedError, KafkaError
from kclient.metrics import Metrics
from kclient.net.coordinator import GROUP, Coordinator
from kclient.net.manager import Request
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import Node, OffsetAndMetadata, TopicPartition
from tests.support.consumer_model import ModelCluster, ModelMetadata, ModelNodes

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ILLEGAL_GENERATION, UNKNOWN_MEMBER = 22, 25


class Nodes(ModelNodes):
    """With a connection of its own for the coordinator."""

    def dedicate(self, node: Node) -> int:
        return 100 + node.node_id


class Member:
    """What this consumer is in its group; a test says so."""

    def __init__(self) -> None:
        self.generation: Generation | None = Generation(1, "m", None, "range")
        self.last: Generation | None = self.generation
        self.rebalancing = False
        self.refusals: list[KafkaError] = []

    def generation_now(self) -> Generation | None:
        return self.generation

    def last_generation(self) -> Generation | None:
        return self.last

    def on_refused(self, generation: Generation, error: KafkaError, now: float) -> None:
        self.refusals.append(error)


class OffsetsModel:
    """The owner's side, its managers, and the coordinator.

    Attributes:
        stored: what the coordinator has, in the order in which it was stored in `history`.
        failures: error codes for the next requests of a kind; a dict names partitions.
        outbox: requests that are under way.
        asked_as: member id and epoch of each OffsetFetch.
    """

    def __init__(self, *, versions: dict[type, int] | None = None, subscribed: bool = True, **options: Any) -> None:
        self.config = ConsumerConfig(
            **{"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest", **options}
        )
        self.now = 1000.0
        self.metadata = ModelMetadata()
        self.metadata.cluster = ModelCluster({}, {"t": uuid.UUID(int=7)}, 1)
        self.nodes = Nodes(versions or {})
        self.subscription = Subscription(FetchBuffer(), parse_policy(self.config.auto_offset_reset), in_group=True)
        self.member = Member()
        self.place: Place | None = None
        self.woken = 0
        jitter = random.Random(1)
        shared: Any = (self.nodes, self.config)
        self.coordinator = Coordinator("g", GROUP, *shared, random=jitter)
        self.metrics = Metrics()
        client: Any = SimpleNamespace(
            metadata=self.metadata,
            nodes=self.nodes,
            metrics=self.metrics,
            clock=time.monotonic,
            submit=lambda function: function(),
        )
        self.offsets = wire_group_offsets(
            self.config,
            client,
            self.subscription,
            self.coordinator,
            self.member,
            place=lambda: self.place,
            random=jitter,
            callbacks=CommitCallbacks(None, self._wake),
        )
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self.history: list[tuple[TopicPartition, int]] = []
        self.generation = 1
        self.failures: dict[type, list[int | dict[TopicPartition, int]]] = {}
        self.outbox: list[Request] = []
        self.asked_as: list[tuple[str | None, int]] = []
        if subscribed:
            self.subscription.topics = ("t",)
            self.assign(TP, OTHER)

    def _wake(self) -> None:
        self.woken += 1

    def assign(self, *partitions: TopicPartition) -> None:
        self.subscription.assign_from_group(partitions)

    def read_to(self, tp: TopicPartition, offset: int) -> None:
        """The application was given everything before this offset."""
        self.subscription.seek(tp, offset)

    # -- the driver

    def poll(self) -> list[Request]:
        sent: list[Request] = []
        for manager in (*self.offsets.managers, self.coordinator):
            sent.extend(manager.poll(self.now).requests)
        self.outbox.extend(sent)
        return sent

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.run()

    def run(self) -> None:
        """Let everything happen until nothing is under way."""
        for _ in range(20):
            self.poll()
            if not self.outbox:
                return
            for request in list(self.outbox):
                self.deliver(request)
        raise AssertionError("requests without an end")

    def until(self, kind: type) -> Request:
        """Let everything happen until a request of a kind is under way."""
        for _ in range(20):
            self.poll()
            for request in list(self.outbox):
                if request.request_type is kind:
                    return request
                self.deliver(request)
        raise AssertionError(f"no {kind.__name__} is sent")

    def deliver(self, request: Request) -> None:
        answer = self.answer(request)
        self.outbox.remove(request)
        request.on_response(answer, self.now)

    def lose(self, request: Request) -> None:
        self.outbox.remove(request)
        request.on_error(DisconnectedError(broker=request.node), self.now)

    # -- the coordinator

    def answer(self, request: Request) -> Any:
        kind: Any = request.request_type
        version = self.nodes.versions.get(kind, kind.max_version)
        if request.maximum_version is not None:
            version = min(version, request.maximum_version)
        assert request.minimum_version is None or version >= request.minimum_version
        message = kind.decode(request.build(version).encode(version), version)
        answers: dict[type, Any] = {
            FindCoordinatorRequest: self._find,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
        }
        planned = self.failures.get(kind)
        response = answers[kind](message, version, planned.pop(0) if planned else 0)
        return type(response).decode(response.encode(version), version)

    def _find(self, message: FindCoordinatorRequest, version: int, failure: int) -> FindCoordinatorResponse:
        one = FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="h", port=1, error_code=failure)
        return FindCoordinatorResponse(coordinators=[one])

    def _commit(self, message: OffsetCommitRequest, version: int, failure: Any) -> OffsetCommitResponse:
        topics = []
        for topic in message.topics:
            assert (topic.topic_id == uuid.UUID(int=7)) if version >= 10 else (topic.name == "t")
            answers = []
            for asked in topic.partitions:
                tp = TopicPartition("t", asked.partition_index)
                code = failure.get(tp, 0) if isinstance(failure, dict) else failure
                if not code and message.member_id and message.generation_id_or_member_epoch != self.generation:
                    code = ILLEGAL_GENERATION
                if not code:
                    epoch = asked.committed_leader_epoch if asked.committed_leader_epoch >= 0 else None
                    offset = OffsetAndMetadata(asked.committed_offset, asked.committed_metadata or "", epoch)
                    self.stored[tp] = offset
                    self.history.append((tp, offset.offset))
                answers.append(
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=tp.partition, error_code=code)
                )
            topics.append(
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return OffsetCommitResponse(topics=topics)

    def _fetch(self, message: OffsetFetchRequest, version: int, failure: Any) -> OffsetFetchResponse:
        if version >= 8:
            self.asked_as.append((message.groups[0].member_id, message.groups[0].member_epoch))
        group_code = 0 if isinstance(failure, dict) else failure
        wanted: Any = message.topics if version < 8 else message.groups[0].topics
        old = version < 8
        kind: Any = OffsetFetchResponse.OffsetFetchResponsePartitions
        if old:
            kind = OffsetFetchResponse.OffsetFetchResponsePartition
        topics: list[Any] = []
        for topic in wanted or ():
            answers = []
            for number in topic.partition_indexes:
                tp = TopicPartition("t", number)
                found = self.stored.get(tp)
                part = kind(partition_index=number, committed_offset=-1)
                part.error_code = failure.get(tp, 0) if isinstance(failure, dict) else 0
                if found is not None and not part.error_code:
                    part.committed_offset, part.metadata = found.offset, found.metadata
                    part.committed_leader_epoch = -1 if found.leader_epoch is None else found.leader_epoch
                answers.append(part)
            if old:
                topics.append(OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name, partitions=answers))
            else:
                topics.append(
                    OffsetFetchResponse.OffsetFetchResponseTopics(
                        name=topic.name, topic_id=topic.topic_id, partitions=answers
                    )
                )
        if old:
            return OffsetFetchResponse(topics=topics, error_code=group_code)
        group = OffsetFetchResponse.OffsetFetchResponseGroup(
            group_id="g", topics=[] if group_code else topics, error_code=group_code
        )
        return OffsetFetchResponse(groups=[group])
