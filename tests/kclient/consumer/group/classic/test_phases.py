"""The phases of a classic rebalance: what an assignment means, and what follows from it."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import EARLIEST
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.assignment.topics import choose
from kclient.consumer.group.classic.phases import REASONS, STATES, Phase, PhaseEvent, classify_assignment
from kclient.errors import IllegalStateError
from kclient.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PATTERN = re.compile("[tu]")


class ClassifiedAssignment(NamedTuple):
    """An assignment of a member that is subscribed, and what it means."""

    topics: tuple[str | re.Pattern[str], ...]
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]
    eager: PhaseEvent
    cooperative: PhaseEvent
    is_current: bool = True


ASSIGNED, LESS = PhaseEvent.ASSIGNED, PhaseEvent.ASSIGNED_LESS
OVERTAKEN, MISMATCHED = PhaseEvent.OVERTAKEN, PhaseEvent.MISMATCHED

ASSIGNMENTS = {
    "first assignment": ClassifiedAssignment(("t",), (), (T0, T1), ASSIGNED, ASSIGNED),
    "the same again": ClassifiedAssignment(("t",), (T0, T1), (T0, T1), ASSIGNED, ASSIGNED),
    "more": ClassifiedAssignment(("t",), (T0,), (T0, T1), ASSIGNED, ASSIGNED),
    "less": ClassifiedAssignment(("t",), (T0, T1), (T0,), ASSIGNED, LESS),
    "others": ClassifiedAssignment(("t",), (T0,), (T1,), ASSIGNED, LESS),
    "nothing": ClassifiedAssignment(("t",), (T0,), (), ASSIGNED, LESS),
    "a topic that is not subscribed to": ClassifiedAssignment(("t",), (), (T0, U0), MISMATCHED, MISMATCHED),
    "a new topic that a pattern matches": ClassifiedAssignment((PATTERN,), (), (T0, U0), ASSIGNED, ASSIGNED),
    "unsubscribed meanwhile": ClassifiedAssignment((), (), (T0,), OVERTAKEN, OVERTAKEN),
    "lost meanwhile": ClassifiedAssignment(("t",), (T0, T1), (T0,), OVERTAKEN, OVERTAKEN, is_current=False),
}


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("given", ASSIGNMENTS.values(), ids=ASSIGNMENTS.keys())
def test_meaning_of_an_assignment(given: ClassifiedAssignment, cooperative: bool) -> None:
    subscription = Subscription(FetchBuffer(), EARLIEST, in_group=True)
    if given.topics:
        subscription.subscribe(choose(given.topics))
        subscription.assign_from_group(given.owned)
    found = classify_assignment(given.assigned, subscription, cooperative=cooperative, is_current=given.is_current)
    assert found is (given.cooperative if cooperative else given.eager)


FOLLOWING = {
    (Phase.SETTLED, PhaseEvent.CALLED_FOR): Phase.DUE,
    (Phase.DUE, PhaseEvent.JOINED): Phase.JOINING,
    (Phase.DUE, PhaseEvent.ASSIGNED): Phase.SETTLED,
    (Phase.DUE, PhaseEvent.NOT_DIVIDED): Phase.DUE,
    (Phase.JOINING, PhaseEvent.CALLED_FOR): Phase.JOINING,
    (Phase.JOINING, PhaseEvent.ASSIGNED): Phase.SETTLED,
    (Phase.JOINING, PhaseEvent.ASSIGNED_LESS): Phase.DUE,
    (Phase.JOINING, PhaseEvent.FAILED): Phase.DUE,
    (Phase.SETTLED, PhaseEvent.FAILED): Phase.SETTLED,
    (Phase.SETTLED, PhaseEvent.LOST): Phase.DUE,
    (Phase.JOINING, PhaseEvent.FENCED): Phase.FENCED,
    (Phase.FENCED, PhaseEvent.CALLED_FOR): Phase.FENCED,
    (Phase.FENCED, PhaseEvent.LOST): Phase.FENCED,
    (Phase.FENCED, PhaseEvent.LEFT): Phase.DUE,
}

REFUSED = [
    (Phase.SETTLED, PhaseEvent.JOINED),
    (Phase.SETTLED, PhaseEvent.ASSIGNED),
    (Phase.JOINING, PhaseEvent.JOINED),
    (Phase.FENCED, PhaseEvent.JOINED),
    (Phase.FENCED, PhaseEvent.ASSIGNED),
]


def _name(value: object) -> str:
    assert isinstance(value, Phase | PhaseEvent)
    return str(value.value).replace(" ", "-")


@pytest.mark.parametrize(
    ("at", "following"), FOLLOWING.items(), ids=["-".join(map(_name, (*at, to))) for at, to in FOLLOWING.items()]
)
def test_phase_that_follows_an_event(at: tuple[Phase, PhaseEvent], following: Phase) -> None:
    assert STATES.next_state(*at) is following


@pytest.mark.parametrize(("phase", "event"), REFUSED, ids=_name)
def test_event_that_a_phase_does_not_have_is_refused(phase: Phase, event: PhaseEvent) -> None:
    with pytest.raises(IllegalStateError, match=f"rebalance is '{phase.value}'"):
        STATES.next_state(phase, event)


def test_every_event_that_calls_for_a_join_by_itself_has_a_reason() -> None:
    told = {PhaseEvent.CALLED_FOR, PhaseEvent.LOST}
    due = {event for phase, event, following in STATES if phase is not Phase.DUE and following is Phase.DUE}
    assert due - told == set(REASONS)
