"""Tables of states: what follows an event, what is refused, and how a table is drawn."""

from __future__ import annotations

import enum

import pytest

from kclient.errors import IllegalStateError
from kclient.state_machine import StateTable


class Door(enum.Enum):
    OPEN = 1
    CLOSED = 2
    LOCKED = 3


class Event(enum.Enum):
    OPEN = "open"
    CLOSE = "close"
    LOCK = "lock"


DOORS = StateTable(
    "door",
    {
        Door.OPEN: {Event.CLOSE: Door.CLOSED},
        Door.CLOSED: {Event.OPEN: Door.OPEN, Event.CLOSE: Door.CLOSED, Event.LOCK: Door.LOCKED},
        Door.LOCKED: {},
    },
)


def test_event_selects_the_state_that_follows() -> None:
    assert DOORS.next_state(Door.OPEN, Event.CLOSE) is Door.CLOSED
    assert DOORS.next_state(Door.CLOSED, Event.CLOSE) is Door.CLOSED
    assert DOORS.allows(Door.CLOSED, Event.LOCK)
    assert not DOORS.allows(Door.LOCKED, Event.OPEN)
    assert DOORS.followers(Door.CLOSED) == set(Door)
    assert DOORS.states == tuple(Door)


def test_impossible_event_is_refused_with_machine_state_and_event() -> None:
    with pytest.raises(IllegalStateError, match=r"^the door of the cellar is 'open', where the event 'lock' is not"):
        DOORS.next_state(Door.OPEN, Event.LOCK, "of the cellar")
    with pytest.raises(IllegalStateError, match=r"^the door is 'locked', where the event 'open' is not possible$"):
        DOORS.next_state(Door.LOCKED, Event.OPEN)


def test_transition_to_a_state_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="the states of a door lack closed, locked"):
        StateTable("door", {Door.OPEN: {Event.CLOSE: Door.CLOSED, Event.LOCK: Door.LOCKED}})


def test_table_is_drawn_as_a_diagram() -> None:
    resting: StateTable[Door | None, Event] = StateTable(
        "door", {None: {Event.OPEN: Door.OPEN}, Door.OPEN: {Event.CLOSE: None}}
    )
    assert resting.diagram() == "stateDiagram-v2\n    [*] --> open : open\n    open --> [*] : close"
