"""The result of `Consumer.health`.

Elsewhere: how it is computed (`snapshot`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from kclient.errors import KafkaError
from kclient.types import ClientHealth, TopicPartition


class StallReason(enum.Enum):
    """Why a partition makes no progress: the first of these that applies."""

    PAUSED = "paused"
    NOT_POLLING = "application not polling"
    NO_BROKER = "no broker reachable"
    REBALANCING = "rebalancing"
    FAILING = "calls for records fail"
    COORDINATOR_UNKNOWN = "coordinator unknown"
    NO_LEADER = "no leader"
    POSITION_UNKNOWN = "position unknown"
    READING = "call for records in progress"
    OTHERS_FIRST = "other partitions read first"
    BUFFER_FULL = "buffer full"
    COMMIT_FAILING = "commit failing"
    NO_DATA = "no data"
    FETCHING = "fetching"


class PartitionHealth(msgspec.Struct, frozen=True):
    """The health of one partition.

    Attributes:
        position: the offset of the application's next record; None while it is unknown.
        committed: the group's committed offset, as far as this consumer knows; None without one.
        end_offset: the end offset, as of the last response of its leader; None before the first.
        lag: the number of offsets between position and end; None while unknown, for example while no broker is
            reachable.
        paused: whether the application paused it.
        last_progress: seconds since the position last changed, or since the partition was assigned.
        reason: why the application currently receives no records of the partition; None if it does.
        error: the error that calls for records raise; None if they succeed.
    """

    position: int | None
    committed: int | None
    end_offset: int | None
    lag: int | None
    paused: bool
    last_progress: float
    reason: StallReason
    error: KafkaError | None = None


class ConsumerHealth(ClientHealth, frozen=True):
    """The health of one consumer.

    Attributes:
        connectivity: whether it reaches any broker.
        partitions: the health of the assigned partitions.
        stalled: the partitions that have records left and have made no progress for stall_timeout_ms.
        group_state: the state of the group's member, such as "stable"; None without a group.
        group_stalled: whether it could not join its group for stall_timeout_ms and has nothing to read.
        group_error: why the group's coordinator is unknown; None if it is known, or was not looked up yet.
        commit_error: why the last automatic commit failed; None if it succeeded.
    """

    partitions: Mapping[TopicPartition, PartitionHealth]
    stalled: tuple[TopicPartition, ...] = ()
    group_state: str | None = None
    group_stalled: bool = False
    group_error: KafkaError | None = None
    commit_error: KafkaError | None = None
