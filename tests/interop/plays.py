"""The same requests about a group to two brokers, which make ids of their own: answers and records to be compared.

A `Play` is a group at one broker. Ids of members that the broker has made are compared by when they were given out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kclient.protocol import Message
from kclient.protocol.frames import decode_response_header
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.records import read_batches
from refbroker.coordinators.records import partition_for
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

TOPIC = "__consumer_offsets"
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


class Pending(NamedTuple):
    """A request that is to be sent, or on its way."""

    wire: Wire
    request: Message
    version: int

    def send(self) -> None:
        self.wire.send(self.request, self.version)

    def answer(self) -> Any:
        _, body = decode_response_header(self.request.api_key, self.version, self.wire.read_frame())
        return type(self.request).response_type.decode(body, self.version)


class Play:
    """A group at one broker, and what was answered.

    Attributes:
        answers: in order, with the ids of members by number.
    """

    def __init__(self, bootstrap_servers: str, group: str, stack: ExitStack) -> None:
        self.group = group
        self.answers: list[str] = []
        self._bootstrap_servers = bootstrap_servers
        self._stack = stack
        self._ids: dict[str, str] = {}
        self._main = self._connect()

    def _connect(self) -> Wire:
        return self._stack.enter_context(Wire(self._bootstrap_servers))

    def named(self, text: str) -> str:
        """A text with the ids of members by when they were given out."""
        return UUID_TEXT.sub(lambda found: self._ids.setdefault(found[0], f"<{len(self._ids)}>"), text)

    def reported(self, answer: Any) -> str:
        """An answer as a text that can be compared."""
        return self.named(str(answer))

    def note(self, answer: Any) -> Any:
        self.answers.append(self.reported(answer))
        return answer

    def ask(self, request: Message, version: int) -> Any:
        return self.note(self._main.ask(request, version))

    def prepare(self, request: Message, version: int) -> Pending:
        """A connection of its own for a request that may have to wait."""
        return Pending(self._connect(), request, version)

    def begin(self, request: Message, version: int) -> Pending:
        """Send a request that may have to wait."""
        pending = self.prepare(request, version)
        pending.send()
        return pending

    def end(self, pending: Pending) -> Any:
        return self.note(pending.answer())

    def log(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys and values in the partition of the group."""
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)])
        [topic] = self._main.ask(asked, 12).topics
        one = FetchRequest.FetchPartition(
            partition=partition_for(self.group, len(topic.partitions)), partition_max_bytes=1 << 20
        )
        wanted = FetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=[one])
        answer = self._main.ask(FetchRequest(max_wait_ms=100, min_bytes=1, topics=[wanted]), 13)
        for batch in read_batches(bytes(answer.responses[0].partitions[0].records)):
            for record in batch.records():
                assert record.key is not None
                yield record.key, record.value


@contextmanager
def two_brokers(folder: Path, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Apache Kafka and refbroker with the same settings, both with the topic of groups."""
    cluster = KafkaCluster(1, directory=folder / "kafka", config=settings)
    with cluster, BrokerProcess(folder / "refbroker", settings=dict(settings)) as process:
        both = cluster.bootstrap_servers, process.bootstrap_servers
        for bootstrap_servers in both:
            wait_until(lambda at=bootstrap_servers: _is_ready(at), CHANGE)  # type: ignore[misc]
        yield both


def _is_ready(bootstrap_servers: str) -> bool:
    with Wire(bootstrap_servers) as wire:
        found = wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6).coordinators[0]
        codes = {found.error_code}
        for group in ("a", "b", "c", "d") if not found.error_code else ():
            asked = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id="m")])
            codes.add(wire.ask(asked, 5).error_code)
    return codes.isdisjoint({NOT_AVAILABLE, NOT_COORDINATOR, LOADING})
