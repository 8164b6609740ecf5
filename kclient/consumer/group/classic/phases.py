"""The phases of the application's part of a classic rebalance, as a table.

    SETTLED has its last assignment; nothing is due
    DUE      joins with the next call of the application
    JOINING  has joined, and waits for its assignment (the leader: divides first)
    FENCED   another member uses the same group_instance_id; final until the application unsubscribes

Elsewhere: what is done in a phase (`rebalance`), and the coordinator's view of the member (`states`).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

from kclient.consumer.assignment.subscription import Subscription
from kclient.state_machine import StateTable
from kclient.types import TopicPartition


class Phase(enum.Enum):
    """See the module."""

    SETTLED = "settled"
    DUE = "due"
    JOINING = "joining"
    FENCED = "fenced"


class PhaseEvent(enum.Enum):
    """The events that change the phase."""

    CALLED_FOR = "called for"
    JOINED = "joined"
    ASSIGNED = "assigned"
    ASSIGNED_LESS = "assigned less"
    OVERTAKEN = "overtaken"
    MISMATCHED = "mismatched"
    UNREADABLE = "unreadable"
    NOT_DIVIDED = "not divided"
    FAILED = "failed"
    LOST = "lost"
    FENCED = "fenced"
    LEFT = "left"


REASONS = {
    PhaseEvent.ASSIGNED_LESS: "partitions of other members were revoked",
    PhaseEvent.MISMATCHED: "the assignment does not match the subscription, which has changed",
    PhaseEvent.UNREADABLE: "the assignment could not be read",
    PhaseEvent.NOT_DIVIDED: "the assignment could not be made",
    PhaseEvent.FAILED: "joining failed before",
    PhaseEvent.LEFT: "the application subscribed",
}
"""Why this member joins after an event, for the coordinator's log; other events bring their own reason, or need none.
"""

_FROM_ANY_STATE = {
    PhaseEvent.LOST: Phase.DUE,
    PhaseEvent.FENCED: Phase.FENCED,
    # Joins again with the next subscription.
    PhaseEvent.LEFT: Phase.DUE,
}

# A member that the coordinator rejected joins again by itself, under the same number. The result may arrive while the
# application is due to join, because it could not assign for the previous join. The group still waits for this member.
_ANSWERS = {
    PhaseEvent.ASSIGNED: Phase.SETTLED,
    PhaseEvent.ASSIGNED_LESS: Phase.DUE,
    PhaseEvent.OVERTAKEN: Phase.SETTLED,
    PhaseEvent.MISMATCHED: Phase.DUE,
    PhaseEvent.UNREADABLE: Phase.DUE,
    PhaseEvent.NOT_DIVIDED: Phase.DUE,
}

STATES = StateTable(
    "rebalance",
    {
        Phase.SETTLED: {PhaseEvent.CALLED_FOR: Phase.DUE, PhaseEvent.FAILED: Phase.SETTLED, **_FROM_ANY_STATE},
        Phase.DUE: {
            PhaseEvent.CALLED_FOR: Phase.DUE,
            PhaseEvent.FAILED: Phase.DUE,
            PhaseEvent.JOINED: Phase.JOINING,
            **_ANSWERS,
            **_FROM_ANY_STATE,
        },
        Phase.JOINING: {
            # Joins again after this assignment.
            PhaseEvent.CALLED_FOR: Phase.JOINING,
            PhaseEvent.FAILED: Phase.DUE,
            **_ANSWERS,
            **_FROM_ANY_STATE,
        },
        Phase.FENCED: {
            PhaseEvent.CALLED_FOR: Phase.FENCED,
            PhaseEvent.FAILED: Phase.FENCED,
            **_FROM_ANY_STATE,
            PhaseEvent.LOST: Phase.FENCED,
        },
    },
)


def classify_assignment(
    assigned: Collection[TopicPartition], subscription: Subscription, *, cooperative: bool, is_current: bool
) -> PhaseEvent:
    """Return the event that an assignment causes.

    Parameters:
        assigned: the partitions.
        subscription: the current assignment and the subscription.
        cooperative: whether it keeps reading during a rebalance, so that others wait for what it gives up.
        is_current: whether the membership of the assignment is still current.
    """
    if subscription.topics is None or not is_current:
        # The membership has ended: a Rejoin event follows, or the application has unsubscribed.
        return PhaseEvent.OVERTAKEN
    choice = subscription.choice
    if any(choice is None or not choice.matches(topic) for topic in unsubscribed_topics(assigned, subscription.topics)):
        return PhaseEvent.MISMATCHED
    gives_up = not subscription.partitions.keys() <= set(assigned)
    return PhaseEvent.ASSIGNED_LESS if cooperative and gives_up else PhaseEvent.ASSIGNED


def unsubscribed_topics(assigned: Iterable[TopicPartition], topics: Collection[str]) -> set[str]:
    """Return the topics of an assignment that are not subscribed to by name."""
    return {tp.topic for tp in assigned if tp.topic not in topics}
