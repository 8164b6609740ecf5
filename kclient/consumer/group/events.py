"""The messages between the application and the group's member, and the mailbox for the member's events.

The application numbers its joins (its subscriptions, with the consumer protocol). Every event has the number of its
join, and the application ignores events of earlier joins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kclient.consumer.group.generation import Generation
from kclient.errors import KafkaError


class JoinData(NamedTuple):
    """The data with which a member joins.

    Attributes:
        number: the number of the application's join.
        protocols: in order of preference, an assignor's name and this member's metadata for it.
        reason: why, for the coordinator's log (KIP-800).
        holding: the membership of the partitions that the application keeps reading; None if it has none. A member that
            was removed since then cannot join with them: they are lost first.
    """

    number: int
    protocols: Sequence[tuple[str, bytes]]
    reason: str
    holding: int | None


class JoinedMember(NamedTuple):
    """A member of the group as sent to its leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Rejoin(NamedTuple):
    """The application has to join again.

    Attributes:
        number: the number of the previous join.
        reason: why.
        lost: whether the partitions are lost, so that nothing can be committed for them.
        error: raised once by the application's next call.
    """

    number: int
    reason: str
    lost: bool
    error: KafkaError | None = None


class Lead(NamedTuple):
    """This member is the leader and computes the assignment.

    Attributes:
        number: the number of the join.
        generation: the group's generation.
        members: all members.
        skip: a static leader has returned, and the assignment stays unchanged (KIP-814). The partition counts behind
            that assignment are unknown. As in the Java client, a topic that grew while the leader was away causes a
            rebalance only when it changes again.
    """

    number: int
    generation: Generation
    members: Sequence[JoinedMember]
    skip: bool


class Assigned(NamedTuple):
    """The group has assigned partitions, as bytes of the consumer protocol.

    Attributes:
        number: the number of the join.
        membership: the membership of the assignment; when it ends, they are lost.
        generation: the group's generation.
        assignment: the bytes.
    """

    number: int
    membership: int
    generation: Generation
    assignment: bytes


class Failed(NamedTuple):
    """Joining or heartbeats failed, and a retry would not help."""

    number: int
    error: KafkaError


class Target(NamedTuple):
    """The coordinator of the consumer protocol has assigned partitions.

    Attributes:
        number: the number of the application's subscription.
        membership: the membership of the assignment; when it ends, they are lost.
        target: the number of the assignment within this membership.
        partitions: partition numbers by topic id.
    """

    number: int
    membership: int
    target: int
    partitions: Mapping[UUID, tuple[int, ...]]


Event = Rejoin | Lead | Assigned | Failed | Target


class Mailbox:
    """The member's events that the application has not handled yet, in order.

    Parameters:
        wake: makes the application's call handle them; any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._events: deque[Event] = deque()
        self._wake = wake

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, event: Event) -> None:
        """Add an event (network thread)."""
        self._events.append(event)
        self._wake()

    def take(self) -> Event | None:
        """Remove and return the oldest event; None without one."""
        return self._events.popleft() if self._events else None

    def holds(self, kind: type[Event]) -> bool:
        """Return whether an event of this type is waiting."""
        return any(isinstance(event, kind) for event in list(self._events))

    def clear(self) -> None:
        """Drop all events."""
        self._events.clear()
