"""The progress of a partition: what is remembered between two snapshots."""

from __future__ import annotations

from kclient.consumer.assignment.partition_state import PartitionState


class Progress:
    """The progress of one partition while it is assigned.

    Attributes:
        position: the application's position at the last check.
        moved: when it last changed.
        since: the time since which it has had records to read.
        error, failed: the last exception of calls for records, and its time.
        stalled: whether a stall was reported since then.
    """

    __slots__ = ("error", "failed", "moved", "position", "since", "stalled", "state")

    def __init__(self, state: PartitionState, position: int | None, now: float) -> None:
        self.state = state
        self.position = position
        self.moved = self.since = self.failed = now
        self.error = state.error
        self.stalled = False

    def idle(self, now: float) -> float:
        """Return the seconds for which it could have moved, and did not."""
        return max(0.0, now - max(self.moved, self.since))


class GroupProgress:
    """How long a member has tried to join its group, without anything to read.

    Attributes:
        outside_since: the time since then; None while it is a member, or need not join.
        stalled: whether a stall was reported for it.
    """

    def __init__(self) -> None:
        self.outside_since: float | None = None
        self.stalled = False

    def note(self, outside: bool, now: float) -> float:
        """Note whether the member is outside of its group; return for how many seconds it has been."""
        if not outside:
            self.outside_since, self.stalled = None, False
            return 0.0
        if self.outside_since is None:
            self.outside_since = now
        return now - self.outside_since
