"""The small value types that users and all packages share.

Plain, immutable, comparable; no behaviour beyond their own printing. `ConsumerRecord` is defined in `kclient.records`,
because it has a compiled twin.
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
    """Where a produced record was written.

    `offset` is -1 when acks=0, or if the broker recognized a retried batch as a duplicate and no longer knew its
    offset. `timestamp` is in milliseconds since the epoch: the broker's when the topic uses LogAppendTime, else the
    record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


class OffsetAndMetadata(msgspec.Struct, frozen=True):
    """A position to commit: the next offset to read, with optional metadata of the application."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class ConsumerGroupMetadata(msgspec.Struct, frozen=True):
    """The identity of a consumer in its group, for a producer that commits offsets in a transaction.

    `generation_id` is -1 and `member_id` empty while it is not a member, or uses `assign`.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class SubscriptionPattern(msgspec.Struct, frozen=True):
    """A regular expression that the brokers match against whole topic names, in RE2's syntax.

    For a group with `group_protocol="consumer"`. For a pattern that the client matches, use `re.compile(...)`.
    """

    pattern: str


class OffsetAndTimestamp(msgspec.Struct, frozen=True):
    """The first record at or after a time (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class Node(msgspec.Struct, frozen=True):
    """A broker as the cluster advertises it.

    `is_fenced` is True for a registered broker that the controller does not consider alive; only
    `Admin.describe_cluster(include_fenced_brokers=True)` returns such brokers.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    def __str__(self) -> str:
        return f"broker {self.node_id} at {address(self.host, self.port)}"


class PartitionInfo(msgspec.Struct, frozen=True):
    """A partition as described by the metadata; `leader` is None while there is no leader.

    Attributes:
        eligible_leader_replicas: the ELR: replicas outside of the in-sync set that have every record below the high
            watermark, so that they may lead (KIP-966). None if the broker did not say, as always in the metadata of
            producers and consumers.
        last_known_elr: the members of the ELR that were not shut down in order, or None as above.
    """

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class PreparedTransaction(msgspec.Struct, frozen=True):
    """A transaction whose records are all written and that any process can end with this; see
    `Admin.complete_transaction`.
    """

    transactional_id: str
    producer_id: int
    epoch: int
