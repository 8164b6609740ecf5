"""The table of what may be done with a log."""

from __future__ import annotations

import pytest

from kclient.errors import IllegalStateError
from refbroker.log.compaction.states import STATES, CleaningState, CleaningStates, Event

LOG = ("orders", 0)


def test_a_pass_begins_and_ends() -> None:
    states = CleaningStates()
    assert states.change(LOG, Event.BEGIN) is CleaningState.IN_PROGRESS
    assert states["other", 0] is None
    assert states.change(LOG, Event.FINISH) is None
    assert states[LOG] is None


def test_a_pass_that_is_paused_stops_first_and_begins_again_only_after_every_resume() -> None:
    states = CleaningStates()
    states.change(LOG, Event.BEGIN)
    assert states.change(LOG, Event.PAUSE) is CleaningState.ABORTED
    assert states.change(LOG, Event.PAUSE) is CleaningState.ABORTED
    assert states.change(LOG, Event.FINISH) is CleaningState.PAUSED
    assert states.change(LOG, Event.RESUME) is CleaningState.PAUSED
    assert states.change(LOG, Event.RESUME) is None
    assert states.change(LOG, Event.BEGIN) is CleaningState.IN_PROGRESS


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", [None, *CleaningState])
def test_what_is_not_in_the_table_is_an_error(state: CleaningState | None, event: Event) -> None:
    states = CleaningStates()
    if state in (CleaningState.IN_PROGRESS, CleaningState.ABORTED):
        states.change(LOG, Event.BEGIN)
    if state in (CleaningState.PAUSED, CleaningState.ABORTED):
        states.change(LOG, Event.PAUSE)
    assert states[LOG] is state
    if STATES.allows(state, event):
        states.change(LOG, event)
    else:
        with pytest.raises(IllegalStateError, match="cleaning of"):
            states.change(LOG, event)
        assert states[LOG] is state
