"""Cases of the server-side assignors in JSON, with the assignments that Apache Kafka's own assignors computed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from refbroker.coordinators.groups.assignors import ASSIGNORS
from refbroker.coordinators.groups.assignors.spec import GroupSpec, MemberSpec


def assigned_here(case: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Return the assignment that refbroker's assignor computes for a case, in the form of the case's result."""
    members = {
        each["id"]: MemberSpec(
            frozenset(map(UUID, each["topics"])),
            {UUID(topic): frozenset(numbers) for topic, numbers in each["assigned"].items()},
            each["instance_id"],
        )
        for each in case["members"]
    }
    partitions = {UUID(topic): case["partitions"][topic] for topic in case["order"]}
    assignments = ASSIGNORS[case["assignor"]](GroupSpec(members, partitions))
    return {
        member_id: {str(topic): sorted(numbers) for topic, numbers in assignment.items()}
        for member_id, assignment in assignments.items()
    }
