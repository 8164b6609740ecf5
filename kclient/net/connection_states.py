"""The states of a connection, and the events that change them."""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class State(enum.Enum):
    """The states of a connection."""

    NEW = "new"
    CONNECTING = "connecting"
    TLS_HANDSHAKE = "TLS handshake"
    SETTING_UP = "setting up"
    READY = "ready"
    DRAINING = "waiting for outstanding responses"
    REAUTHENTICATING = "authenticating again"
    CLOSED = "closed"


class Event(enum.Enum):
    """The events that change the state of a connection."""

    CONNECT = "connect"
    START_TLS = "start TLS"
    CONNECTED = "connected"
    SET_UP = "set up"
    SESSION_ENDS = "the session ends soon"
    DRAINED = "no response is outstanding"
    CLOSE = "close"


STATES = StateTable(
    "connection",
    {
        State.NEW: {Event.CONNECT: State.CONNECTING, Event.CLOSE: State.CLOSED},
        State.CONNECTING: {
            Event.START_TLS: State.TLS_HANDSHAKE,
            Event.CONNECTED: State.SETTING_UP,
            Event.CLOSE: State.CLOSED,
        },
        State.TLS_HANDSHAKE: {Event.CONNECTED: State.SETTING_UP, Event.CLOSE: State.CLOSED},
        State.SETTING_UP: {Event.SET_UP: State.READY, Event.CLOSE: State.CLOSED},
        State.READY: {Event.SESSION_ENDS: State.DRAINING, Event.CLOSE: State.CLOSED},
        State.DRAINING: {Event.DRAINED: State.REAUTHENTICATING, Event.CLOSE: State.CLOSED},
        State.REAUTHENTICATING: {Event.SET_UP: State.READY, Event.CLOSE: State.CLOSED},
        State.CLOSED: {},
    },
)
BEING_MADE = frozenset({State.CONNECTING, State.TLS_HANDSHAKE, State.SETTING_UP})
"""The states before a connection is ready for the first time."""
IN_USE = frozenset({State.READY, State.DRAINING})
"""The states in which responses to requests arrive."""
