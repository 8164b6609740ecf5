"""State machines as tables: the state that follows each event in each state.

A machine keeps its own state, and takes each new one from its table:

    STATES = StateTable("door", {
        Door.OPEN: {Event.CLOSE: Door.CLOSED},
        Door.CLOSED: {Event.OPEN: Door.OPEN},
    })

    self.state = STATES.next_state(self.state, Event.CLOSE, self.name)

An event that the state does not have raises. Client and broker share this module; the diagrams in docs/ are drawn from
the tables.

Elsewhere: what each machine does on a transition.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, NoReturn, TypeVar

from kclient.errors import IllegalStateError

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)


class StateTable(Generic[S, E]):
    """The transitions of one kind of machine.

    Parameters:
        machine: the kind of machine in error messages, such as "transactional producer".
        transitions: for every state the state that follows each event; a final state has none.

    Raises:
        ValueError: a transition leads to a state that the table does not have.
    """

    def __init__(self, machine: str, transitions: Mapping[S, Mapping[E, S]]) -> None:
        self.machine = machine
        self._transitions = {state: dict(events) for state, events in transitions.items()}
        unknown = {following for _, _, following in self} - self._transitions.keys()
        if unknown:
            raise ValueError(f"the states of a {machine} lack {', '.join(sorted(map(_name, unknown)))}")

    def next_state(self, state: S, event: E, name: str = "") -> S:
        """Return the state that follows.

        Parameters:
            name: which machine it is, for the error.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        try:
            return self._transitions[state][event]
        except KeyError:
            self._refuse(state, event, name)

    def allows(self, state: S, event: E) -> bool:
        """Return whether an event is possible in a state."""
        return event in self._transitions[state]

    def followers(self, state: S) -> frozenset[S]:
        """Return the states that may follow a state."""
        return frozenset(self._transitions[state].values())

    @property
    def states(self) -> tuple[S, ...]:
        """All states, in the order of the table."""
        return tuple(self._transitions)

    def __iter__(self) -> Iterator[tuple[S, E, S]]:
        """Iterate over the rows: state, event, following state."""
        for state, events in self._transitions.items():
            for event, following in events.items():
                yield state, event, following

    def diagram(self) -> str:
        """Return the table as a Mermaid state diagram; the state None, of a machine at rest, is its start and end."""
        rows = (f"    {_node(state)} --> {_node(following)} : {_name(event)}" for state, event, following in self)
        return "\n".join(("stateDiagram-v2", *rows))

    def _refuse(self, state: S, event: E, name: str) -> NoReturn:
        which = f"{self.machine} {name}".rstrip()
        raise IllegalStateError(f"the {which} is {_name(state)!r}, where the event {_name(event)!r} is not possible")


def _name(value: Hashable) -> str:
    return value.name.lower() if isinstance(value, enum.Enum) else str(value).lower()


def _node(state: Hashable) -> str:
    return "[*]" if state is None else _name(state)
