"""How the partitions of topics are divided among the members of a group: Kafka's four ways, and the base for others."""

from __future__ import annotations

from kclient.assignors.base import (
    COOPERATIVE,
    EAGER,
    NO_RACKS,
    Assignment,
    Assignor,
    Member,
    Racks,
    RebalanceProtocol,
    in_order,
)
from kclient.assignors.cooperative_sticky import CooperativeStickyAssignor
from kclient.assignors.range_assignor import RangeAssignor
from kclient.assignors.round_robin import RoundRobinAssignor
from kclient.assignors.sticky import StickyAssignor

__all__ = [
    "COOPERATIVE",
    "EAGER",
    "NO_RACKS",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "Member",
    "Racks",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "in_order",
]
