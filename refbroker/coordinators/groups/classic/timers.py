"""The timers of classic groups, by the name of the group (and the member).

join       the end of the initial delay of a rebalance; the end of the wait for members to join
sync       the end of the wait for SyncGroup of all members
heartbeat  the end of a member's session; for a member that was only given an id, the end of the wait for it
"""

from __future__ import annotations

from typing import Protocol

from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.member import ClassicMember
from refbroker.coordinators.groups.coordinator_timer import CoordinatorTimer, Result


class TimerEvents(Protocol):
    """The receiver of the timers. Groups are named, because a group may be deleted or replaced before a timer ends."""

    def on_initial_delay_end(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result:
        """Handle the end of the initial delay; `remaining_ms` is how much longer it may become."""

    def on_rebalance_timeout(self, group_id: str) -> Result:
        """Handle the end of the wait for members to join."""

    def on_sync_timeout(self, group_id: str, generation: int) -> Result:
        """Handle the end of the wait for SyncGroup of all members."""

    def on_session_timeout(self, group_id: str, member_id: str) -> Result:
        """Handle the end of a member's session."""


class GroupTimers:
    """The timers of the classic groups of a partition.

    Parameters:
        timer: the clock, and operations at later times.
        events: receives the ends of timers.
    """

    def __init__(self, timer: CoordinatorTimer, events: TimerEvents) -> None:
        self._timer = timer
        self._events = events

    def start_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Begin the initial delay of a rebalance, or extend it."""
        group_id, events = group.group_id, self._events
        self._timer.schedule(
            _join(group), delay_ms, lambda: events.on_initial_delay_end(group_id, delay_ms, remaining_ms)
        )

    def start_rebalance_timeout(self, group: ClassicGroup) -> None:
        """Begin the wait for members to join."""
        group_id, events = group.group_id, self._events
        self._timer.schedule(_join(group), group.rebalance_timeout_ms, lambda: events.on_rebalance_timeout(group_id))

    def stop_join(self, group: ClassicGroup) -> None:
        """End the initial delay or the wait for members to join."""
        self._timer.cancel(_join(group))

    def start_sync_timeout(self, group: ClassicGroup) -> None:
        """Begin the wait for SyncGroup of all members."""
        group_id, generation, events = group.group_id, group.generation, self._events
        self._timer.schedule(
            _sync(group), group.rebalance_timeout_ms, lambda: events.on_sync_timeout(group_id, generation)
        )

    def stop_sync(self, group: ClassicGroup) -> None:
        """End the wait for SyncGroup."""
        self._timer.cancel(_sync(group))

    def restart_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Begin a member's session again."""
        self.start_session(group, member.member_id, member.session_timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Begin a session of a given length, also for an id whose member has not joined yet."""
        group_id, events = group.group_id, self._events
        self._timer.schedule(
            _session(group, member_id), timeout_ms, lambda: events.on_session_timeout(group_id, member_id)
        )

    def stop_session(self, group: ClassicGroup, member_id: str) -> None:
        """End a member's session without effect."""
        self._timer.cancel(_session(group, member_id))


def _join(group: ClassicGroup) -> str:
    return f"join {group.group_id}"


def _sync(group: ClassicGroup) -> str:
    return f"sync {group.group_id}"


def _session(group: ClassicGroup, member_id: str) -> str:
    return f"heartbeat {group.group_id} {member_id}"
