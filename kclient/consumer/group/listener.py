"""The callbacks of an application for changes of its partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from kclient.types import TopicPartition


class RebalanceListener:
    """Receives the partitions that are assigned, revoked or lost; derive from it and override what you need.

    The methods run inside `poll`, iteration, `unsubscribe` and `close`, in the thread or task of that call; with
    AsyncConsumer they may be coroutine functions. They may commit, seek, pause and ask for positions, but not poll, and
    need not call assign. An exception does not stop the rebalance: the call raises it afterwards.
    """

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were added, before any of their records is returned.

        Parameters:
            partitions: the new partitions; called after every rebalance, also without any.
        """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are about to be given up; their offsets can still be committed.

        Parameters:
            partitions: the revoked partitions.
        """

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were lost: other members may read them already, and nothing can be committed.

        Parameters:
            partitions: the lost partitions. Unless this method is overridden, it calls `on_revoked`.
        """
        return self.on_revoked(partitions)
