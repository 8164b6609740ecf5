"""The throttles of replication, so that a reassignment leaves room for clients (KIP-73).

Leader and follower each have a rate (`leader.replication.throttled.rate`, `follower.replication.throttled.rate`) and,
by topic, a list of throttled replicas, which a reassignment sets. A throttled replica that is in sync is never held
back, since it would leave the ISR. Bytes of all throttled replicas count together.

Elsewhere: the window of the rate (`Rate` in `refbroker.quotas.rates`, which the caller passes in).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

UNLIMITED = 2**63 - 1


class Meter(Protocol):
    """A rate over a window of time."""

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""

    def measure(self, now_ms: int) -> float:
        """Return the value per second."""


class ThrottledReplicas:
    """The replicas of one topic that are throttled, on one side.

    Parameters:
        setting: the parts of the setting, `<partition>:<broker>` or `*` for all; checked when the setting is changed.
        node_id: this broker's id.
    """

    def __init__(self, setting: Iterable[str], node_id: int) -> None:
        parts = [part.strip() for part in setting if part.strip()]
        self._all = parts == ["*"]
        pairs = [part.split(":") for part in parts if ":" in part]
        self._partitions = frozenset(int(partition) for partition, broker in pairs if int(broker) == node_id)

    def __contains__(self, partition: int) -> bool:
        return self._all or partition in self._partitions


class ReplicationThrottle:
    """One of the two throttles of a broker.

    Parameters:
        meter: measures the bytes of throttled replicas.

    Attributes:
        limit: bytes per second, `UNLIMITED` by default.
        topics: the throttled replicas by topic.
    """

    def __init__(self, meter: Meter) -> None:
        self.limit = UNLIMITED
        self.topics: dict[str, ThrottledReplicas] = {}
        self._meter = meter

    def covers(self, topic: str, partition: int) -> bool:
        """Return whether a replica is throttled."""
        throttled = self.topics.get(topic)
        return throttled is not None and partition in throttled

    def record(self, topic: str, partition: int, size: int, now_ms: int) -> None:
        """Count replicated bytes, if the replica is throttled."""
        if size and self.covers(topic, partition):
            self._meter.record(size, now_ms)

    def holds_back(self, topic: str, partition: int, now_ms: int, *, in_sync: bool) -> bool:
        """Return whether a replica must wait: it is throttled, not in sync, and the rate is above the limit.

        Parameters:
            in_sync: whether the follower has all of the leader's records, or is in the ISR.
            now_ms: the time, milliseconds.
        """
        if in_sync or self.limit >= UNLIMITED or not self.covers(topic, partition):
            return False
        return self._meter.measure(now_ms) > self.limit
