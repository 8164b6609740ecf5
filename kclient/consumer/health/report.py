"""What a consumer says about its progress: the answer of `Consumer.health`.

Elsewhere: how it is found out (`snapshot`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from kclient.errors import KafkaError
from kclient.types import ClientHealth, TopicPartition


class StallReason(enum.Enum):
    """Why a partition makes no progress: the first of these that holds."""

    PAUSED = "paused"
    NOT_POLLING = "application not polling"
    NO_BROKER = "no broker reachable"
    REBALANCING = "rebalancing"
    FAILING = "calls for records fail"
    COORDINATOR_UNKNOWN = "coordinator unknown"
    NO_LEADER = "no leader"
    POSITION_UNKNOWN = "position unknown"
    READING = "call for records under way"
    OTHERS_FIRST = "other partitions read first"
    BUFFER_FULL = "buffer full"
    COMMIT_FAILING = "commit failing"
    NO_DATA = "no data"
    FETCHING = "fetching"


class PartitionHealth(msgspec.Struct, frozen=True):
    """The health of one partition.

    Attributes:
        position: the offset of the application's next record; None while it is not known.
        committed: what the group has committed, as far as this consumer knows; None if nothing, or without a group.
        end_offset: where the partition ends, as of the last answer of its leader; None before one.
        lag: how many offsets lie between position and end; None while that is not known, as while no broker is
            reachable.
        paused: whether the application paused it.
        last_progress: seconds since the position moved last, or since the partition was assigned.
        reason: why the application receives no records of the partition at the moment, if it receives none.
        error: where calls for records fail, what they raise.
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
        partitions: those that are assigned.
        stalled: those of them that have records left and make no progress for stall_timeout_ms.
        group_state: the state of the group's member, as "stable"; None without a group.
        group_stalled: whether it has had nothing to read for stall_timeout_ms, as it does not get into its group.
        group_error: why the group's coordinator is not known; None if it is, or was not looked for yet.
        commit_error: why the last automatic commit failed; None if it did not.
    """

    partitions: Mapping[TopicPartition, PartitionHealth]
    stalled: tuple[TopicPartition, ...] = ()
    group_state: str | None = None
    group_stalled: bool = False
    group_error: KafkaError | None = None
    commit_error: KafkaError | None = None
