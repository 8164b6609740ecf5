"""A network that does what a test says, and a clock that is paused until a test moves it."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from kclient.config import ClientConfig, ProducerConfig
from kclient.net.engine import Engine
from kclient.net.events import CLOSED, CONNECTED, FRAME, RESOLVED, SENT, BadFrame, Event, Handler, PeerClosed
from kclient.net.manager import Request
from kclient.net.transport import Address
from kclient.protocol import API_NAMES, Message, request_type
from kclient.protocol.frames import decode_request_header, encode_response
from kclient.protocol.messages.api_versions import ApiVersionsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

ALL_APIS = {key: (request_type(key).min_version, request_type(key).max_version) for key in API_NAMES}


class Clock:
    """Seconds that only `advance` moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class QueueWorker:
    """A worker whose functions run when the test says so."""

    is_started = is_current = False

    def __init__(self) -> None:
        self.functions: list[Callable[[], None]] = []
        self.closed = False

    def submit(self, function: Callable[[], None]) -> None:
        self.functions.append(function)

    def close(self, timeout: float) -> None:
        self.run()
        self.closed = True

    def run(self) -> None:
        while self.functions:
            self.functions.pop(0)()


class ScriptedChannel:
    """The broker's end of a connection, in the hands of a test."""

    def __init__(self, transport: ScriptedTransport, address: Address, handler: Handler) -> None:
        self.transport = transport
        self.address = address
        self.handler = handler
        self.frame_limit = 0
        self.closed = False
        self.blocked = False
        self.requests: list[tuple[Any, Message]] = []
        self.unanswered: list[tuple[Any, Message]] = []

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        frame = b"".join(bytes(part) for part in parts)
        header, body = decode_request_header(frame[4:])
        message = request_type(header.request_api_key).decode(body, header.request_api_version)
        self.requests.append((header, message))
        self.unanswered.append((header, message))
        return not self.blocked

    def close(self) -> None:
        self.closed = True

    def event(self, kind: int, value: Any = None) -> None:
        self.transport.events.append((self.handler, kind, value))

    def accept(self) -> None:
        self.event(CONNECTED)

    def refuse(self, code: int = errno.ECONNREFUSED) -> None:
        self.event(CLOSED, OSError(code, os.strerror(code)))

    def hang_up(self, head: bytes = b"") -> None:
        self.event(CLOSED, PeerClosed(head))

    def nonsense(self, head: bytes) -> None:
        self.event(CLOSED, BadFrame(int.from_bytes(head[:4], "big", signed=True), head))

    def unblock(self) -> None:
        self.blocked = False
        self.event(SENT)

    def names(self) -> list[str]:
        return [message.message_name for _, message in self.unanswered]

    def answer(self, message: Message, *, version: int | None = None, correlation_id: int | None = None) -> None:
        """Answer the oldest request that was not answered yet."""
        header, _ = self.unanswered.pop(0)
        parts = encode_response(
            message,
            header.request_api_version if version is None else version,
            header.correlation_id if correlation_id is None else correlation_id,
        )
        self.event(FRAME, b"".join(bytes(part) for part in parts)[4:])

    def answer_versions(self, ranges: dict[int, tuple[int, int]] | None = None) -> None:
        keys = [ApiVersionsResponse.ApiVersion(api_key=k, min_version=a, max_version=b)
                for k, (a, b) in (ALL_APIS if ranges is None else ranges).items()]  # fmt: skip
        self.answer(ApiVersionsResponse(api_keys=keys))


class ScriptedTransport:
    """Records what is asked of it; `events` is what the next `wait` returns."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.channels: list[ScriptedChannel] = []
        self.lookups: list[tuple[str, int, Handler]] = []
        self.names: dict[str, list[str]] = {}
        self.stuck_lookups = False
        self.refuse_at_once = False
        self.wakes = 0
        self.timeouts: list[float] = []
        self.closed = False

    def resolve(self, host: str, port: int, handler: Handler, *, canonical: bool = False) -> None:
        self.lookups.append((host, port, handler))
        if not self.stuck_lookups:
            found = [Address(2, (name, port)) for name in self.names.get(host, [host])]
            self.events.append((handler, RESOLVED, found or OSError("Name or service not known")))

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> ScriptedChannel:
        if self.refuse_at_once:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        channel = ScriptedChannel(self, address, handler)
        self.channels.append(channel)
        return channel

    def wait(self, timeout: float) -> list[Event]:
        self.timeouts.append(timeout)
        events, self.events = self.events, []
        return events

    def wake(self) -> None:
        self.wakes += 1

    def close(self) -> None:
        self.closed = True


class ScriptedEngine:
    """An engine without a thread on a scripted network."""

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        run_soon: Callable[[Callable[[], None]], None] | None = None,
        **options: Any,
    ) -> None:
        self.clock = Clock()
        self.network = ScriptedTransport()
        self.engine = Engine(
            config or ProducerConfig(bootstrap_servers="boot:9092", **options),
            clock=self.clock,
            random=random.Random(7),
            transport=self.network,
            run_soon=run_soon,
        )
        self.nodes = self.engine.nodes
        self.metadata = self.engine.metadata
        self.results: list[Any] = []

    def settle(self) -> None:
        """Make turns until nothing is left to do at this time."""
        for _ in range(50):
            if self.engine.run_turn(0.0) > 0 and not self.network.events:
                return
        raise AssertionError("the driver does not come to rest")

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.settle()

    @property
    def channel(self) -> ScriptedChannel:
        return self.network.channels[-1]

    def connect(self, ranges: dict[int, tuple[int, int]] | None = None) -> ScriptedChannel:
        """Let the newest connection come up."""
        channel = self.channel
        channel.accept()
        self.settle()
        channel.answer_versions(ranges)
        self.settle()
        return channel

    def start(self, brokers: int = 1, **topics: int) -> ScriptedChannel:
        """Bootstrap, and learn of brokers and topics (name=partitions)."""
        for topic in topics:
            self.metadata.add_topic(topic)
        self.settle()
        channel = self.connect()
        channel.answer(cluster(brokers, topics))
        self.settle()
        return channel

    def request(self, node: int, kind: type[Message] = MetadataRequest, **options: Any) -> Request:
        """Return a request whose outcome goes to `results`."""
        build: Callable[[int], Message] = options.pop("build", lambda version: kind())
        return Request(
            node,
            kind,
            build,
            lambda response, now: self.results.append(response),
            lambda error, now: self.results.append(error),
            **options,
        )

    def send(self, node: int, kind: type[Message] = MetadataRequest, **options: Any) -> Request:
        """Send a request whose outcome goes to `results`."""
        request = self.request(node, kind, **options)
        self.engine.send(request)
        self.settle()
        return request


def cluster(brokers: int = 1, topics: dict[str, int] | None = None, **changes: Any) -> MetadataResponse:
    """A Metadata answer with brokers 0.. at host b0.., and topics led by them in turn, at epoch 5."""
    response = MetadataResponse(
        cluster_id="c",
        controller_id=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=index, host=f"b{index}", port=9092)
            for index in range(brokers)
        ],
        topics=[topic(name, count, brokers) for name, count in (topics or {}).items()],
    )
    for name, value in changes.items():
        setattr(response, name, value)
    return response


def topic(name: str, partitions: int, brokers: int = 1, epoch: int = 5, **changes: Any) -> Any:
    entry = MetadataResponse.MetadataResponseTopic(
        name=name,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                partition_index=index, leader_id=index % brokers, leader_epoch=epoch, replica_nodes=[0], isr_nodes=[0]
            )
            for index in range(partitions)
        ],
    )
    for field, value in changes.items():
        setattr(entry, field, value)
    return entry
