"""Assignors, which distribute the partitions of topics among the members of a group: Kafka's four, and the base for
others.
"""

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
