"""A broker without a server: requests go in as frames, answers come out decoded."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kclient.errors import CoordinatorLoadInProgressError
from kclient.protocol import Message
from kclient.protocol.frames import decode_response_header, encode_request
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from kclient.records import BatchBuilder
from refbroker.building import build
from refbroker.config import BrokerConfig
from refbroker.log import FileRange, Files, PartitionLog
from refbroker.runtime.clock import Clock
from refbroker.security.principals import ANONYMOUS
from refbroker.server.dispatch import Dispatcher, PendingResponse
from refbroker.settings.inter_broker import PLAINTEXT
from refbroker.testing.faults import Faults
from refbroker.testing.faults.injection import FaultInjection

START_MS = 1_700_000_000_000


class Harness:
    """A broker on a data directory. Use it within a running event loop."""

    def __init__(self, directory: Path, *, files: Files | None = None, **settings: str) -> None:
        self.directory = directory
        self.files = files or Files(durable=False)
        self.clock = Clock()
        self.clock.hold(START_MS)
        self.faults = Faults()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:9092", **named}
        self.open()

    def open(self) -> None:
        ports = {PLAINTEXT: 9092}
        self.broker = build(BrokerConfig(self.settings), self.clock, self.files, random.SystemRandom(), ports)
        self.dispatcher = Dispatcher(self.broker, FaultInjection(self.faults))
        self.connection: Any = SimpleNamespace(
            peer="test",
            listener=PLAINTEXT,
            authenticator=None,
            client_software=("", ""),
            principal=ANONYMOUS,
            warn=lambda what: None,
        )

    def restart(self, *, clean: bool = True) -> None:
        self._forget()
        self.broker.logs.close(self.broker.broker_epoch) if clean else self.broker.logs.abandon()
        self.open()

    async def restarted(self, *, clean: bool = True) -> None:
        """Restart the broker, and wait until the coordinators have loaded their logs."""
        self.restart(clean=clean)
        await self.loaded()

    async def loaded(self) -> None:
        """Wait until the coordinators have loaded their logs."""
        while True:
            try:
                self.broker.groups.runtime.shards()
                self.broker.transactions.runtime.shards()
            except CoordinatorLoadInProgressError:
                await asyncio.sleep(0.001)
            else:
                break
        await turns()

    async def pass_time(self, ms: int) -> None:
        """Move the clock forward, and wait until all work that is then due is done."""
        self.clock.step(ms)
        await turns()

    def close(self) -> None:
        self.broker.cancel_waiting()
        self._forget()
        self.broker.logs.abandon()

    def _forget(self) -> None:
        self.broker.close_coordinators()

    def send(self, request: Message, version: int, *, client_id: str = "harness") -> Any:
        """Send a request; return the response, a future of it, or None if the request has no response."""
        frame = b"".join(encode_request(request, version, 7, client_id))
        _, answer = self.dispatcher.handle(self.connection, memoryview(frame)[4:])
        if isinstance(answer, PendingResponse):
            return asyncio.ensure_future(self._later(type(request), version, answer))
        return None if answer is None else self._decode(type(request), version, answer)

    async def _later(self, kind: type[Message], version: int, waiting: PendingResponse) -> Message:
        await asyncio.wait([waiting.future])
        answer = waiting.encode()
        assert answer is not None
        return self._decode(kind, version, answer)

    def _decode(self, kind: type[Message], version: int, parts: list[Any]) -> Message:
        data = b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)
        correlation_id, body = decode_response_header(kind.api_key, version, data[4:])
        assert correlation_id == 7
        return kind.response_type.decode(body, version)

    # Shortcuts for requests that many tests need

    def create(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Create a topic, and return its id."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        result = self.send(CreateTopicsRequest(topics=[topic]), 7).topics[0]
        assert result.error_code == 0, result.error_message
        topic_id: UUID = result.topic_id
        return topic_id

    def assign(self, topic: str, *others: int, partition: int = 0, in_sync: bool = False) -> None:
        """Give a partition replicas on further brokers, which do not exist.

        Parameters:
            in_sync: whether they are in the in-sync set, so that the high watermark stays where it is.
        """
        own = self.broker.node_id
        self.change(topic, partition, replicas=[own, *others], isr=[own, *others] if in_sync else [own])

    def change(self, topic: str, partition: int = 0, **fields: Any) -> None:
        """Change the metadata of a partition."""
        topic_id = self.broker.image.topics[topic].topic_id
        self.broker.controller.append([PartitionChangeRecord(partition_id=partition, topic_id=topic_id, **fields)])

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log of a partition."""
        log = self.broker.logs.get(topic, partition)
        assert log is not None
        return log

    def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1, timestamp: int | None = None
    ) -> ProduceRequestResult:
        """Append a batch, and return the partition's response."""
        records = batch(*values, timestamp=self.clock() if timestamp is None else timestamp)
        return self.produce_bytes(topic, records, partition=partition, acks=acks)

    def produce_bytes(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1
    ) -> ProduceRequestResult:
        answer = self.send(produce_request(topic, records, partition=partition, acks=acks), 9)
        return None if answer is None else answer.responses[0].partition_responses[0]


ProduceRequestResult = Any


def produce_request(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **header: Any) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp, b"key", value)
    return bytes(builder.build(**header))


async def turns(count: int = 20) -> None:
    """Run the event loop until everything that is due is done; nothing here waits for anything but the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
