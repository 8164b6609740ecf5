"""`kclient consume --group`: a member of a group that commits the offsets of the records that were printed.

The consumer does not commit automatically: that would include records that were polled but not printed, because the
command was interrupted, or because they are beyond the end at which it stops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from kclient.cli import output
from kclient.consumer import Consumer, RebalanceListener, Records
from kclient.net.runtime import current
from kclient.types import TopicPartition

FINAL_COMMIT_SECONDS = 10.0
"""How long the last commit of an interrupted command may take."""


class Membership(RebalanceListener):
    """The membership of one command in its group; used in a `with` block, whose end commits.

    Parameters:
        consumer: with a group, and without automatic commits.
        ends: by partition, the offset at which printing ends; empty if it does not.
    """

    def __init__(self, consumer: Consumer, ends: Mapping[TopicPartition, int]) -> None:
        self._consumer = consumer
        self._ends = ends
        self._interval = consumer.config.auto_commit_interval_ms / 1000
        self._clock = current().monotonic
        self._next_commit = self._clock() + self._interval
        self._printed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._waiting = False

    def join(self, topics: Collection[str]) -> None:
        """Subscribe to topics; the member joins the group with the first poll."""
        self._consumer.subscribe(topics, listener=self)
        group = self._consumer.config.group_id
        output.notice(f"reading as a member of the group {group!r}, and committing what is printed")

    def printed(self, records: Records) -> None:
        """Note that the records of a poll were printed, up to the ends, and commit at intervals."""
        for partition, following in records.next_offsets().items():
            # A partition without an end is newer than the ends, and is not printed.
            end = self._ends.get(partition, 0) if self._ends else following
            # Another member may have committed beyond the end before the partition was assigned.
            self._printed[partition] = max(end, self._printed[partition]) if following > end else following
        if self._clock() >= self._next_commit:
            self._next_commit = self._clock() + self._interval
            if self._printed != self._committed:
                self._committed = dict(self._printed)
                self._consumer.commit_async(self._printed)

    @property
    def at_end(self) -> bool:
        """Whether each assigned partition is read to its end; False as long as none is assigned."""
        assigned = self._consumer.assignment()
        return bool(assigned) and all(
            self._consumer.position(partition) >= self._ends.get(partition, 0) for partition in assigned
        )

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Note the first position: committing it keeps the position, even of a partition without new records."""
        for partition in partitions:
            self._printed[partition] = self._consumer.position(partition)
        if not self._waiting and not self._consumer.assignment():
            self._waiting = True
            output.notice("waiting for partitions: the group has not assigned any to this member yet")

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was printed of the partitions, for the member that reads them next."""
        given_up = {partition: self._printed.pop(partition) for partition in partitions if partition in self._printed}
        if given_up:
            self._consumer.commit(given_up)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the partitions: another member may have committed for them already."""
        for partition in partitions:
            self._printed.pop(partition, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Leaving the group calls on_revoked, which then has nothing left to commit.
        printed, self._printed = self._printed, {}
        if printed:
            self._consumer.commit(printed, timeout=FINAL_COMMIT_SECONDS)
