"""The leaders of partitions that can be asked now, for `list_offsets` and `validation`.

Elsewhere: fetching, which may also use a follower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient._text import partition_count
from kclient.errors import KafkaError, UnknownTopicOrPartitionError
from kclient.net.manager import NEVER, Nodes
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.consumer.assignment.partition_state import FetchState, PartitionState
    from kclient.consumer.assignment.subscription import Subscription
    from kclient.net.metadata import MetadataManager


def why_missing(metadata: MetadataManager, partition: tuple[str, int]) -> KafkaError | None:
    """Return why the metadata says that a partition cannot be read; None if it does not. Any thread."""
    topic, number = partition
    error = metadata.topic_error(topic)
    if error is not None:
        return error
    cluster = metadata.cluster
    known = cluster.partitions(topic)
    if known is None or cluster.partition(topic, number) is not None:
        return None
    return UnknownTopicOrPartitionError(partition_count(len(known)), topic=topic, partition=number)


class Leaders:
    """The leaders of partitions, as far as they can be reached.

    Parameters:
        metadata, nodes: the leaders, and the connections.
    """

    def __init__(self, metadata: MetadataManager, nodes: Nodes) -> None:
        self._metadata = metadata
        self._nodes = nodes

    def reachable(self, tp: TopicPartition, now: float) -> tuple[int | None, float]:
        """Return the leader if it can be asked now, and otherwise when to check again; request metadata if that may
        help.
        """
        info = self._metadata.cluster.partition(tp.topic, tp.partition)
        if info is None or info.leader is None:
            self._metadata.request_update()
            return None, NEVER
        if not self._nodes.ready(info.leader, now):
            if self._nodes.connection_error(info.leader) is not None:
                self._metadata.request_update()
            return None, self._nodes.retry_at(info.leader) or NEVER
        return info.leader, now

    def of_waiting(
        self, subscription: Subscription, wanted: FetchState, now: float
    ) -> tuple[list[tuple[PartitionState, int]], float]:
        """Return the partitions in a state whose leader can be asked now, with its id, and when to check again (lock
        held).
        """
        found: list[tuple[PartitionState, int]] = []
        deadline = NEVER
        for tp, state in subscription.partitions.items():
            if state.state is not wanted or state.blocked:
                continue
            if state.retry_at > now:
                deadline = min(deadline, state.retry_at)
                continue
            leader, look_at = self.reachable(tp, now)
            if leader is None:
                deadline = min(deadline, look_at)
            else:
                found.append((state, leader))
        return found, deadline
