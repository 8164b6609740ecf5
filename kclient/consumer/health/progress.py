"""When a partition moved last, and whether a stall was reported: what is remembered between two snapshots."""

from __future__ import annotations

from kclient.consumer.assignment.partition_state import PartitionState


class Progress:
    """The progress of one partition, as long as it is assigned.

    Attributes:
        position: the application's, when it was seen last.
        moved: when it moved last.
        since: since when it has had something to do.
        error, failed: what calls for records raised last, and when.
        stalled: whether a stall was reported since it moved.
    """

    __slots__ = ("error", "failed", "moved", "position", "since", "stalled", "state")

    def __init__(self, state: PartitionState, position: int | None, now: float) -> None:
        self.state = state
        self.position = position
        self.moved = self.since = self.failed = now
        self.error = state.error
        self.stalled = False

    def idle(self, now: float) -> float:
        """Seconds for which it could have moved, and did not."""
        return max(0.0, now - max(self.moved, self.since))


class GroupProgress:
    """How long a member has been on its way into its group, without anything to read.

    Attributes:
        outside_since: since when; None while it is in, or need not get in.
        stalled: whether a stall was reported for it.
    """

    def __init__(self) -> None:
        self.outside_since: float | None = None
        self.stalled = False

    def note(self, outside: bool, now: float) -> float:
        """Note where the member is; return for how many seconds it has been outside."""
        if not outside:
            self.outside_since, self.stalled = None, False
            return 0.0
        if self.outside_since is None:
            self.outside_since = now
        return now - self.outside_since
