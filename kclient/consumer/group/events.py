"""What the owner tells the group's member, and what the member answers: the mailbox between the two threads.

The owner numbers its joins. Every event says to which of them it belongs, and the owner ignores those of an
earlier one, so that nothing that was overtaken by a newer join has an effect. With the consumer protocol the owner
numbers its subscriptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kclient.consumer.group.generation import Generation
from kclient.errors import KafkaError


class JoinData(NamedTuple):
    """What a member joins with.

    Attributes:
        number: counts the owner's joins.
        protocols: by preference, an assignor's name and this member's metadata for it.
        reason: why, for the coordinator's log (KIP-800).
        holding: the membership in which the partitions were assigned that the owner goes on reading; None if it holds
            none. A member that was forgotten since cannot join with them: they are lost first.
    """

    number: int
    protocols: Sequence[tuple[str, bytes]]
    reason: str
    holding: int | None


class JoinedMember(NamedTuple):
    """A member of the group as its leader hears of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Rejoin(NamedTuple):
    """The owner has to join again.

    Attributes:
        number: of the join before.
        reason: why.
        lost: whether the partitions are not ours any more, so that nothing can be committed for them.
        error: what the owner's call raises for it, once.
    """

    number: int
    reason: str
    lost: bool
    error: KafkaError | None = None


class Lead(NamedTuple):
    """This member is the leader, and divides the partitions.

    Attributes:
        number: of the join.
        generation: of the group.
        members: all of them.
        skip: a static leader came back, and the assignment stays as it was (KIP-814). What it was made of is not
            told: as with the Java client, a topic that grew while the leader was away counts with its next change.
    """

    number: int
    generation: Generation
    members: Sequence[JoinedMember]
    skip: bool


class Assigned(NamedTuple):
    """The group assigned partitions, as bytes of the consumer protocol.

    Attributes:
        number: of the join.
        membership: in which they are this member's; when it is over, they are lost.
        generation: of the group.
        assignment: the bytes.
    """

    number: int
    membership: int
    generation: Generation
    assignment: bytes


class Failed(NamedTuple):
    """Joining failed, or heartbeats do, and trying again by itself would not help."""

    number: int
    error: KafkaError


class Target(NamedTuple):
    """The coordinator of the consumer protocol assigned partitions.

    Attributes:
        number: of the owner's subscription.
        membership: in which they are this member's; when it is over, they are lost.
        target: counts the assignments of this membership.
        partitions: numbers of partitions by topic id.
    """

    number: int
    membership: int
    target: int
    partitions: Mapping[UUID, tuple[int, ...]]


Event = Rejoin | Lead | Assigned | Failed | Target


class Mailbox:
    """The events of a member that its owner has not handled yet, in order.

    Parameters:
        wake: has the owner's call handle them; any thread.
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
        """Remove and return the oldest event; None if there is none."""
        return self._events.popleft() if self._events else None

    def holds(self, kind: type[Event]) -> bool:
        """Whether an event of a kind waits."""
        return any(isinstance(event, kind) for event in list(self._events))

    def clear(self) -> None:
        """Drop all events."""
        self._events.clear()
