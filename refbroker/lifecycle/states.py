"""The states of a broker.

    NOT_RUNNING                   before the first registration is sent
    STARTING                      registering, then catching up with the metadata; a heartbeat every 10 ms
    RECOVERY                      caught up, and waiting to be unfenced
    RUNNING                       unfenced: it may lead partitions
    PENDING_CONTROLLED_SHUTDOWN   waiting until the controller has moved the leaders elsewhere
    SHUTTING_DOWN                 sends nothing more

Elsewhere: what a broker sends in each state (`machine`). Source: Kafka's BrokerState.
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class BrokerState(enum.IntEnum):
    """The states of a broker, by the number that Kafka's metric BrokerState has."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerEvent(enum.Enum):
    """What changes the state of a broker."""

    START = enum.auto()
    CAUGHT_UP = enum.auto()
    UNFENCED = enum.auto()
    LEAVE = enum.auto()
    STOP = enum.auto()


_S, _E = BrokerState, BrokerEvent
STATES: StateTable[BrokerState, BrokerEvent] = StateTable(
    "broker",
    {
        _S.NOT_RUNNING: {_E.START: _S.STARTING, _E.LEAVE: _S.SHUTTING_DOWN, _E.STOP: _S.SHUTTING_DOWN},
        _S.STARTING: {_E.CAUGHT_UP: _S.RECOVERY, _E.LEAVE: _S.SHUTTING_DOWN, _E.STOP: _S.SHUTTING_DOWN},
        _S.RECOVERY: {_E.UNFENCED: _S.RUNNING, _E.LEAVE: _S.SHUTTING_DOWN, _E.STOP: _S.SHUTTING_DOWN},
        _S.RUNNING: {_E.LEAVE: _S.PENDING_CONTROLLED_SHUTDOWN, _E.STOP: _S.SHUTTING_DOWN},
        _S.PENDING_CONTROLLED_SHUTDOWN: {_E.STOP: _S.SHUTTING_DOWN},
        _S.SHUTTING_DOWN: {},
    },
)
