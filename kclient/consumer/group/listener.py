"""What an application does when its partitions change."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from kclient.types import TopicPartition


class RebalanceListener:
    """Hears of partitions that come and go; derive from it and override what is of interest.

    The methods run inside `poll`, iteration, `unsubscribe` and `close`, in the thread or task that calls these; with
    AsyncConsumer they may be coroutine functions. They may commit, seek, pause and ask for positions, but not poll,
    and need not call assign. An exception does not stop the rebalance: the call raises it once the rebalance's part
    is done.
    """

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were added, before any of their records is returned.

        Parameters:
            partitions: only the new ones; may be empty, and is called after every rebalance.
        """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Partitions are about to be given up; their offsets can still be committed.

        Parameters:
            partitions: what is given up.
        """

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were lost: others may read them already, and nothing can be committed for them.

        Parameters:
            partitions: what was lost. Unless this is overridden, `on_revoked` is called with them.
        """
        return self.on_revoked(partitions)
