"""Topics with known records, made with raw requests, so that a test controls every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kclient.config import ClientConfig
from kclient.errors import KafkaError
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import BatchBuilder
from tests.support.patience import ANSWER
from tests.support.waiting import result_of

RETRY = (3, 5, 6, 100)  # unknown topic or id, no leader yet, moved: a topic that was just created takes a moment


class Seeder:
    """Creates topics and appends batches; use it as a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._engine = Engine(ClientConfig.from_options({"bootstrap_servers": bootstrap_servers}))
        self._engine.start()
        self._leaders: dict[tuple[str, int], tuple[int, Any]] = {}

    def __enter__(self) -> Seeder:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close(5.0)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic and wait until all its partitions have leaders."""
        new = CreateTopicsRequest.CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        response = self._call(
            ANY_NODE, CreateTopicsRequest, lambda version: CreateTopicsRequest(topics=[new], timeout_ms=15_000)
        )
        assert response.topics[0].error_code == 0, response
        self._wait_for(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions."""
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        response = self._call(
            ANY_NODE,
            CreatePartitionsRequest,
            lambda version: CreatePartitionsRequest(topics=[wanted], timeout_ms=15_000),
        )
        assert response.results[0].error_code == 0, response
        self._wait_for(topic, partitions)

    def append(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        timestamp: int = 1_600_000_000_000,
        compression_type: str = "none",
    ) -> int:
        """Append one batch, record i at `timestamp` + i; returns its base offset."""
        builder = BatchBuilder(compression_type, max_bytes=64 << 20)
        for index, value in enumerate(values):
            key = keys[index] if keys is not None else None
            assert builder.append(timestamp + index, key, value, ()) >= 0
        data = bytes(builder.build())
        while True:
            leader, topic_id = self._leaders[topic, partition]

            def build(version: int, topic_id: Any = topic_id) -> ProduceRequest:
                part = ProduceRequest.PartitionProduceData(index=partition, records=data)
                produced = ProduceRequest.TopicProduceData(partition_data=[part])
                if version >= 13:
                    produced.topic_id = topic_id
                else:
                    produced.name = topic
                return ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=[produced])

            answer = self._call(leader, ProduceRequest, build).responses[0].partition_responses[0]
            if answer.error_code in RETRY:
                self._wait_for(topic, partition + 1)
                continue
            assert answer.error_code == 0, answer
            return int(answer.base_offset)

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Wait until every broker knows the partitions and their leaders, since a client may ask any of them."""
        while True:
            topic_id, leaders = self._describe(ANY_NODE, topic)
            self._engine.metadata.request_update()
            known = self._engine.metadata.cluster.brokers
            if (
                len(leaders) >= partitions
                and all(leader in known for leader in leaders.values())
                and all(self._agrees(node, topic, (topic_id, leaders)) for node in known)
            ):
                for number, leader in leaders.items():
                    self._leaders[topic, number] = (leader, topic_id)
                return

    def _agrees(self, node: int, topic: str, described: tuple[Any, dict[int, int]]) -> bool:
        try:
            return self._describe(node, topic) == described
        except KafkaError:  # a broker that stops or starts; the others notice soon
            return False

    def _describe(self, node: int, topic: str) -> tuple[Any, dict[int, int]]:
        """Return the id of a topic and the leaders of its partitions, as far as a broker knows them."""
        asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
        response = self._call(
            node, MetadataRequest, lambda version: MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        )
        (found,) = response.topics
        if found.error_code:
            return found.topic_id, {}
        return found.topic_id, {p.partition_index: p.leader_id for p in found.partitions if p.leader_id >= 0}

    def _call(self, node: int, kind: Any, build: Callable[[int], Any]) -> Any:
        return result_of(self._engine.call(node, kind, build, timeout=ANSWER), ANSWER + 1)
