"""The small value types that every room and every user shares.

Plain, immutable, comparable; no behaviour beyond their own printing. What a fetched
record looks like is decided in `kclient.records` (it has a compiled twin) and only
re-exported here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from kclient._text import address
from kclient.errors import KafkaError
from kclient.records import ConsumerRecord

__all__ = [
    "ClientHealth",
    "Connectivity",
    "ConnectivityState",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "GivenHeaders",
    "Headers",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "PreparedTransaction",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
]


Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of a record, in order; a name may occur more than once."""

GivenHeaders = Iterable[tuple[str, bytes | bytearray | memoryview | None]]
"""The headers that a producer is given."""


class ConnectivityState(enum.Enum):
    """Whether a client reaches any broker."""

    CONNECTING = "connecting"
    """No broker has been connected yet, and not every bootstrap server has failed."""
    REACHABLE = "broker reachable"
    UNREACHABLE = "no broker reachable"


class Connectivity(msgspec.Struct, frozen=True):
    """A snapshot of whether a client reaches any broker.

    Attributes:
        state: whether it does.
        duration: seconds since the state began.
        errors: why the last connection or the last attempt to connect failed, by "host:port", of each broker and
            bootstrap server that has failed and is not connected again.
    """

    state: ConnectivityState
    duration: float = 0.0
    errors: Mapping[str, KafkaError] = {}


class ClientHealth(msgspec.Struct, frozen=True):
    """The health of one client.

    Attributes:
        connectivity: whether the client reaches any broker.
    """

    connectivity: Connectivity


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(msgspec.Struct, frozen=True):
    """Where a produced record ended up.

    `offset` is -1 when acks=0, or when a retried batch was recognised by the broker as a
    duplicate whose offset it no longer knows. `timestamp` is in milliseconds since the
    epoch: the broker's when the topic uses LogAppendTime, else the record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


class OffsetAndMetadata(msgspec.Struct, frozen=True):
    """A position to commit: the next offset to read, with an application's own note."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class ConsumerGroupMetadata(msgspec.Struct, frozen=True):
    """Who a consumer is in its group, for a producer that commits offsets in a transaction.

    `generation_id` is -1 and `member_id` empty while it is no member, or does without membership (`assign`).
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class SubscriptionPattern(msgspec.Struct, frozen=True):
    """A regular expression of topics that the brokers match, against whole names: RE2's syntax, not Python's.

    For a group with `group_protocol="consumer"`. A pattern that the client is to match is a `re.compile(...)`.
    """

    pattern: str


class OffsetAndTimestamp(msgspec.Struct, frozen=True):
    """The first record at or after a point in time (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class Node(msgspec.Struct, frozen=True):
    """A broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} at {address(self.host, self.port)}"


class PartitionInfo(msgspec.Struct, frozen=True):
    """A partition as the metadata describes it; `leader` is None while there is none."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class PreparedTransaction(msgspec.Struct, frozen=True):
    """A transaction whose records are all written; whoever has this can end it: see `Admin.complete_transaction`."""

    transactional_id: str
    producer_id: int
    epoch: int
