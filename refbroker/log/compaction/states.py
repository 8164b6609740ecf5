"""The cleaning states of logs, as a table.

A log that is not being cleaned has no state (None); the others are:

    IN_PROGRESS   a pass is running; retention skips the log
    ABORTED       the pass was aborted and has not ended yet
    PAUSED        no pass may start until it is resumed as many times as it was paused
"""

from __future__ import annotations

import enum
from collections.abc import Hashable

from kclient.state_machine import StateTable


class CleaningState(enum.Enum):
    """The cleaning state of one log; a log without one can be cleaned."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class Event(enum.Enum):
    """The events that change a state. Pauses are counted; the resume that undoes the last one is an event of its
    own.
    """

    BEGIN = "begin"
    FINISH = "finish"
    PAUSE = "pause"
    RESUME = "resume"
    LAST_RESUME = "last resume"


STATES: StateTable[CleaningState | None, Event] = StateTable(
    "cleaning",
    {
        None: {Event.BEGIN: CleaningState.IN_PROGRESS, Event.PAUSE: CleaningState.PAUSED},
        CleaningState.IN_PROGRESS: {Event.FINISH: None, Event.PAUSE: CleaningState.ABORTED},
        CleaningState.ABORTED: {Event.FINISH: CleaningState.PAUSED, Event.PAUSE: CleaningState.ABORTED},
        CleaningState.PAUSED: {
            Event.PAUSE: CleaningState.PAUSED,
            Event.RESUME: CleaningState.PAUSED,
            Event.LAST_RESUME: None,
        },
    },
)


class CleaningStates:
    """The states of all logs."""

    def __init__(self) -> None:
        self._states: dict[Hashable, CleaningState] = {}
        self._pauses: dict[Hashable, int] = {}

    def __getitem__(self, log: Hashable) -> CleaningState | None:
        return self._states.get(log)

    def change(self, log: Hashable, event: Event) -> CleaningState | None:
        """Apply an event to a log, and return its new state.

        Raises:
            IllegalStateError: the event is not possible in its state.
        """
        state = self._states.get(log)
        pauses = self._pauses.get(log, 0)
        happened = Event.LAST_RESUME if event is Event.RESUME and pauses == 1 else event
        changed = STATES.next_state(state, happened, f"of {log}")
        if event is Event.PAUSE:
            self._pauses[log] = pauses + 1
        elif event is Event.RESUME:
            self._pauses[log] = pauses - 1
        if changed is None:
            self._states.pop(log, None)
            self._pauses.pop(log, None)
        else:
            self._states[log] = changed
        return changed
